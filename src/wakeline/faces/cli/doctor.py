"""`doctor`: does everything work here?  Versions, data directory, store, socket, server and the harnesses that are
installed, one line each, with what was seen.  It looks only: it repairs nothing and needs no right that the server does
not give to anybody.

With a harness it is the physical probe (`doctor_harness.py`), with `--live` a ring at a session (`doctor_live.py`).
"""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

import wakeline
from wakeline.calls import Call
from wakeline.endpoint import Endpoint, find_endpoint
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import FAILED, OK, Command
from wakeline.faces.cli.exchange import attempt
from wakeline.faces.cli.text import one_line, pad, paint
from wakeline.runtime.settings import Settings, load, show
from wakeline.store.sqlite.backup import DATABASE, check

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context

PROBE_SECONDS = 10.0
OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("-", "dim")}


class Finding(NamedTuple):
    """One line of the report.  `ok` None: there is nothing to check, which is no fault."""

    name: str
    ok: bool | None
    detail: str


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    harnesses = ("claude-code", "codex", "opencode", "pi", "tmux", "all")
    add("harness", nargs="?", choices=harnesses, metavar="HARNESS", help=f"probe this one: {', '.join(harnesses)}")
    add("--transport", metavar="NAME", help="by this way into it, or 'all' (default: the one that it takes by itself)")
    add("--fetch", action="store_true", help="install the version that we know into the cache, if there is none")
    add("--no-keep", action="store_false", dest="keep", help="do not tell the server what was proven")
    add("--live", type=handle, metavar="@AGENT", help="ring this agent's live session, and say by which path it came")
    add("--yes", action="store_true", help="with --live: ring without asking")


def doctor(context: Context) -> int:
    given = context.arguments
    if given.live:
        from wakeline.faces.cli.doctor_live import ring

        return ring(context)
    if given.harness or given.fetch:
        from wakeline.faces.cli.doctor_harness import probe

        return probe(context)
    return _look(context)


def _look(context: Context) -> int:
    from wakeline.faces.cli.doctor_installed import look_around

    settings, _ = load(context.flags, context.environ)
    harnesses = look_around(context)
    endpoint = find_endpoint(context.flags, context.environ, operator=False)
    findings = [
        *check_versions(),
        *check_data(settings),
        *check_store(settings),
        *check_socket(endpoint),
        *check_server(endpoint),
        *(Finding(f"harness: {found.harness}", ok=found.ok, detail=found.detail) for found in harnesses),
    ]
    healthy = all(finding.ok is not False for finding in findings)
    answer = {
        "healthy": healthy,
        "checks": [finding._asdict() for finding in findings],
        "harnesses": [found.answer for found in harnesses],
    }
    context.show(answer, _view, "checks")
    return OK if healthy else FAILED


def check_versions() -> Iterator[Finding]:
    yield Finding("wakeline", ok=True, detail=wakeline.__version__)
    yield Finding("python", ok=True, detail=f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield Finding("sqlite", ok=True, detail=apsw.sqlite_lib_version())


def check_data(settings: Settings) -> Iterator[Finding]:
    data = settings.data
    if not data.exists():
        yield Finding("data directory", ok=None, detail=f"{data} is not there yet; 'wakeline up' makes it")
        return
    writable = data.is_dir() and os.access(data, os.R_OK | os.W_OK | os.X_OK)
    yield Finding("data directory", ok=writable, detail=f"{data} is {'' if writable else 'not '}writable")


def check_store(settings: Settings) -> Iterator[Finding]:
    if settings.database:
        yield Finding("store", ok=None, detail=f"{show(settings, 'database')}; the server checks it")
        return
    database = settings.data / DATABASE
    if not database.exists():
        yield Finding("store", ok=None, detail=f"{database} is not there yet; 'wakeline up' makes it")
        return
    problems = check(database)
    yield Finding("store", ok=not problems, detail="; ".join(problems) or f"{database} is whole")


def check_socket(endpoint: Endpoint) -> Iterator[Finding]:
    """Whoever can open the socket is the operator, so nobody else may."""
    if endpoint.socket is None:
        return
    path = Path(endpoint.socket)
    if not path.is_socket():
        yield Finding("socket", ok=False, detail=f"{path} is not there: no server is running; start it: 'wakeline up'")
        return
    for place in (path, path.parent):
        state = place.stat()
        if state.st_mode & OTHERS or state.st_uid not in (os.getuid(), 0):
            mode = f"{stat.S_IMODE(state.st_mode):o}"
            yield Finding("socket", ok=False, detail=f"{place} has mode {mode}: others could be the operator")
            return
    yield Finding("socket", ok=True, detail=f"{path} is open to its owner only")


def check_server(endpoint: Endpoint) -> Iterator[Finding]:
    try:
        health, readiness = _probe(endpoint, "/healthz"), _probe(endpoint, "/readyz")
    except (OSError, ValueError) as error:
        yield Finding("server", ok=False, detail=f"{endpoint} does not answer: {error}")
        return
    theirs = health.get("version")
    same = "" if theirs == wakeline.__version__ else f", this command is {wakeline.__version__}"
    yield Finding("server", ok=bool(readiness.get("ready")), detail=f"{endpoint} runs wakeline {theirs}{same}")
    for found in readiness.get("checks", []):
        yield Finding(f"server: {found['name']}", ok=found["ok"], detail=found["detail"])


def _probe(endpoint: Endpoint, path: str) -> dict[str, Any]:
    """These two answer anybody, and say what is wrong also with a 503."""
    _, content = attempt(endpoint, Call("GET", path), PROBE_SECONDS)
    answer = json.loads(content)
    if not isinstance(answer, dict):
        raise ValueError("the answer is not Wakeline's")  # noqa: TRY004 - the caller expects what `json` raises
    return answer


def _view(answer: dict[str, Any]) -> str:
    room = max(len(check["name"]) for check in answer["checks"])
    lines = []
    for found in answer["checks"]:
        mark, style = _MARKS[found["ok"]]
        lines.append(f"{paint(mark, style)} {pad(one_line(found['name']), room)}  {one_line(found['detail'])}")
    return "\n".join((*lines, "", "all is well" if answer["healthy"] else "something is wrong: see ✗"))


COMMANDS = {
    "doctor": Command(
        doctor,
        arguments=_arguments,
        usage="[HARNESS]",
        examples=(
            "wakeline doctor",
            "wakeline doctor -o json",
            "wakeline doctor claude-code",
            "wakeline doctor codex --transport all",
            "wakeline doctor tmux",
            "wakeline doctor all --fetch",
            "wakeline doctor --live @bob",
        ),
    ),
}
