"""Where the server is and who we are to it: flags over environment over file.

Every command of the CLI runs through here before it does anything, so this imports next to nothing.  What the server
itself can be told is in `wakeline.runtime.settings`, which reads the same three layers.
"""

# pathlib alone would take a tenth of the time that a whole command may take.
# ruff: noqa: PTH100, PTH110, PTH111, PTH118, PTH123

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from wakeline.errors import WakelineError

# What a client can be told, with its meaning; the server ignores these names in a shared file.
CLIENT_SETTINGS = {
    "url": "Where the server listens, as http://host:port; used together with a token.",
    "token": "The bearer token of an agent or a human (environment only); without one the CLI is the operator.",
    "token_file": "A file that holds the token.",
    "workspace": "The workspace that the operator acts in; a token names its own.",
}

# Each of these is set by a harness in the processes that its agent starts.
HARNESS_MARKS = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "OPENCODE",
    "OPENCODE_PID",
    "PI_CODING_AGENT",
    "GEMINI_CLI",
    "AGY_SESSION",
)


MAX_SOCKET_PATH = 100  # bytes; the system's own bound is a little above


class Endpoint:
    """A server and a credential.  Without a token we are the operator, which only the Unix socket allows."""

    __slots__ = ("data", "socket", "token", "url", "workspace")

    def __init__(
        self,
        *,
        url: str | None = None,
        socket: str | None = None,
        token: str | None = None,
        workspace: str | None = None,
        data: str | None = None,
    ) -> None:
        self.url, self.socket, self.token, self.workspace, self.data = url, socket, token, workspace, data

    def with_token(self, token: str) -> Endpoint:
        return Endpoint(url=self.url, socket=self.socket, token=token, workspace=self.workspace, data=self.data)

    def headers(self) -> dict[str, str]:
        headers = {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.workspace is not None:
            headers["Wakeline-Workspace"] = self.workspace
        return headers

    def __str__(self) -> str:
        return self.url or f"the socket {self.socket}"


class Sources:
    """The three layers in which a setting may stand; the strongest that names it wins.  Empty means not set."""

    __slots__ = ("data", "environ", "file", "flags", "path")

    def __init__(self, flags: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.flags = {name: value for name, value in flags.items() if value is not None}
        self.environ = environ
        self.file: dict[str, Any] = {}
        self.data = _absolute(str(self._value("data") or _default_data(environ)))
        named = environ.get("WAKELINE_CONFIG")
        self.path = _absolute(named) if named else os.path.join(self.data, "config.toml")
        if named or os.path.exists(self.path):
            self.file = _read_toml(self.path)
            self.data = _absolute(str(self._value("data") or self.data))

    def find(self, name: str) -> tuple[Any, str] | None:
        """The value and where it came from, or None for the default."""
        if name in self.flags:
            return self.flags[name], f"flag --{name.replace('_', '-')}"
        variable = f"WAKELINE_{name.upper()}"
        if self.environ.get(variable):
            return self.environ[variable], f"environment {variable}"
        if name in self.file:
            return self.file[name], f"file {self.path}"
        return None

    def _value(self, name: str) -> Any:
        found = self.find(name)
        return None if found is None else found[0]

    def text(self, name: str) -> str | None:
        """A client's setting: one line of printable ASCII, because it becomes part of a request's head."""
        found = self.find(name)
        if found is None:
            return None
        value = str(found[0]).strip()
        if not (value.isascii() and value.isprintable()):
            raise invalid(name, found[1], "it holds characters that a request's head cannot carry")
        return value


def find_endpoint(flags: Mapping[str, Any], environ: Mapping[str, str], *, operator: bool = True) -> Endpoint:
    """The server to talk to.  Refuses to be the operator where a harness runs us, or where the caller may not be."""
    sources = Sources(flags, environ)
    token = _find_token(sources)
    if token is None and operator:
        refuse_operator_in_harness(environ)
    url = sources.text("url") if token is not None else None
    socket = None if url else find_socket(sources.data)
    return Endpoint(url=url, socket=socket, token=token, workspace=sources.text("workspace"), data=sources.data)


def refuse_operator_in_harness(environ: Mapping[str, str]) -> None:
    """Processes of one user look alike to the system, so an agent's shell must not become the human by accident."""
    mark = next((name for name in HARNESS_MARKS if environ.get(name)), None)
    if mark is None:
        return
    from wakeline.errors import Forbidden  # noqa: PLC0415 - only a refusal pays for it

    raise Forbidden(
        "OPERATOR_IN_HARNESS",
        f"This shell belongs to an agent's harness ({mark} is set), and only the human is the operator.",
        "Set WAKELINE_TOKEN (or WAKELINE_TOKEN_FILE) to the agent's own token; the human makes one with "
        "'wakeline token create @name'.",
    )


def find_socket(data: str) -> str:
    """The server's Unix socket: in the data directory, or where the data directory says when that path is too long."""
    path = os.path.join(data, "run", "wakeline.sock")
    if os.path.exists(path):
        return path
    try:
        with open(os.path.join(data, "run", "socket"), encoding="utf-8") as record:
            return record.read().strip() or path
    except OSError:
        return path


def find_seats(data: str, environ: Mapping[str, str]) -> str:
    """The socket that companions find the bridge of this host by."""
    named = environ.get("WAKELINE_SEATS")
    path = named or os.path.join(data, "seats.sock")
    try:
        with open(os.path.join(data, "seats"), encoding="utf-8") as record:
            return named or record.read().strip() or path
    except OSError:
        return path


def invalid(name: str, source: str, why: str) -> WakelineError:
    from wakeline.errors import InvalidArgument  # noqa: PLC0415 - only a refusal pays for it

    return InvalidArgument(
        "SETTING_INVALID",
        f"The setting '{name}' ({source}) cannot be used: {why}.",
        "Correct it there, or leave it out for the default; 'wakeline up --help' shows what each setting takes.",
        setting=name,
        source=source,
    )


def unreachable(endpoint: Endpoint, why: str) -> WakelineError:
    from wakeline.errors import Unavailable  # noqa: PLC0415 - only a failure pays for it

    return Unavailable(
        "SERVER_UNREACHABLE",
        f"Cannot reach {endpoint}: {why}.",
        "Start it with 'wakeline up', or point WAKELINE_DATA at its data directory. A server elsewhere needs both "
        "WAKELINE_URL and WAKELINE_TOKEN.",
    )


def unreadable(endpoint: Endpoint, status: int) -> WakelineError:
    from wakeline.errors import Unavailable  # noqa: PLC0415 - only a failure pays for it

    return Unavailable(
        "ANSWER_UNREADABLE",
        f"{endpoint} answered {status} with something that is not Wakeline's.",
        "Check WAKELINE_URL: it must name a Wakeline server, not a proxy's login or an error page.",
    )


def _find_token(sources: Sources) -> str | None:
    if "token_file" not in sources.flags and sources.environ.get("WAKELINE_TOKEN"):
        return sources.text("token")
    found = sources.find("token_file")
    if found is None:
        return None
    try:
        with open(_absolute(str(found[0])), encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise invalid("token_file", found[1], f"the file cannot be read ({error})") from None
    if not token or not (token.isascii() and token.isprintable()):
        raise invalid("token_file", found[1], "the file must hold one token and nothing else")
    return token


def _default_data(environ: Mapping[str, str]) -> str:
    home = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/share")
    return os.path.join(home, "wakeline")


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _read_toml(path: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only those who have a file pay for it

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise invalid("config", f"file {path}", f"the file cannot be read ({error})") from None
