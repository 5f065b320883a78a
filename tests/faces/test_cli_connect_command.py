"""`connect command`: an operator's own command for an agent, put where the bridge finds it, and taken away again."""

from __future__ import annotations

import itertools
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.hardship import eventually
from tests.faces.command_line import Shell
from tests.faces.connecting import contents, shell_at
from wakeline.testing.server import ServerProcess

ARGV = ("notify", "{native_id}", "{text}", "--", 'it\'s "quoted"')
MINE = b'# mine\r\n["@ann"]\r\nrecipe = "antigravity"'  # without an end of its last line


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("connect") / "data", coalesce_seconds=0) as process:
        yield process


@pytest.fixture
def shell(tmp_path: Path, served: ServerProcess) -> Shell:
    """With a book of its own; the server's bridge reads the one beside its data."""
    return shell_at(tmp_path / "home", served).with_environ(WAKELINE_COMMANDS_FILE=str(tmp_path / "home" / "book.toml"))


def connect(shell: Shell, agent: str, *words: str) -> list[str]:
    done = shell.run("connect", "command", "--agent", agent, "--yes", "-o", "json", "--", *(words or ARGV))
    assert done.code == 0, done
    return [one["action"] for one in json.loads(done.out)["files"]]


def disconnect(shell: Shell, agent: str) -> list[str]:
    return [one["action"] for one in shell.json("disconnect", "command", "--agent", agent)["files"]]


@pytest.mark.guarantee("G-CONNECT-RESTORE")
@pytest.mark.parametrize("before", [None, b"", MINE])
def test_a_command_is_written_once_and_leaves_nothing_behind(
    shell: Shell, tmp_path: Path, served: ServerProcess, before: bytes | None
) -> None:
    book = tmp_path / "home" / "book.toml"
    if before is not None:
        book.write_bytes(before)
    known = contents(served.data / "connections")
    assert connect(shell, "@dan") == ["create" if before is None else "change"]
    assert book.read_bytes().startswith(before or b"")
    assert tomllib.loads(book.read_text())["@dan"] == {"argv": list(ARGV)}
    there = book.read_bytes()
    assert connect(shell, "@dan") == ["keep"]
    assert book.read_bytes() == there
    assert disconnect(shell, "@dan") == ["remove" if before is None else "change"]
    assert (book.read_bytes() if book.exists() else None) == before
    assert contents(served.data / "connections").keys() - {"lock"} == known.keys() - {"lock"}
    assert shell.run("disconnect", "command", "--agent", "@dan").code == 3


@pytest.mark.guarantee("G-CONNECT-RESTORE")
@pytest.mark.parametrize("order", list(itertools.permutations(["@dan", "@eve", "@fay"])))
def test_agents_share_a_file_and_leave_it_in_any_order(shell: Shell, tmp_path: Path, order: tuple[str, ...]) -> None:
    book = tmp_path / "home" / "book.toml"
    book.write_bytes(MINE)
    for agent in ("@dan", "@eve", "@fay"):
        connect(shell, agent, "notify", agent)
    connect(shell, "@eve", "notify", "otherwise")
    left = {"@ann", "@dan", "@eve", "@fay"}
    for agent in order:
        assert tomllib.loads(book.read_text()).keys() == left
        disconnect(shell, agent)
        left.remove(agent)
    assert book.read_bytes() == MINE


def test_what_somebody_else_wrote_since_stays(shell: Shell, tmp_path: Path) -> None:
    book = tmp_path / "home" / "book.toml"
    connect(shell, "@dan")
    with book.open("a") as file:
        file.write('\n["@gus"]\nargv = ["mine"]\n')
    told = shell.json("disconnect", "command", "--agent", "@dan")
    assert tomllib.loads(book.read_text()) == {"@gus": {"argv": ["mine"]}}
    assert "was changed since" in " ".join(told["notes"])


def test_it_shows_what_it_writes_and_asks(shell: Shell, tmp_path: Path) -> None:
    book = tmp_path / "home" / "book.toml"
    shown = shell.run("connect", "command", "--agent", "@nobody-yet", "--dry-run", "--", "notify")
    assert '+argv = ["notify"]' in shown.out
    assert "nothing was written" in shown.out
    assert "@nobody-yet" not in shell.run("agent", "list").out
    assert shell.run("connect", "command", "--agent", "@dan", "-o", "json", "--", "x").error()["code"] == (
        "CONFIRMATION_REQUIRED"
    )
    code, screen = shell.on_terminal("connect", "command", "--agent", "@dan", "--", "notify", typed="n\n")
    assert (code, '["@dan"]' in screen) == (4, True)
    assert not book.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--", "notify"),
        ("--agent", "@dan"),
        ("--agent", "@dan", "--recipe", "antigravity", "--", "notify"),
        ("--agent", "@dan", "--recipe", "nonsense"),
    ],
)
def test_a_command_needs_an_agent_and_one_command(shell: Shell, words: tuple[str, ...]) -> None:
    assert shell.run("connect", "command", "--yes", *words).code == 2
    assert shell.run("connect", "codex", "--yes", "--", "--model").code == 2


def test_a_recipe_can_be_named(shell: Shell, tmp_path: Path) -> None:
    shell.json("connect", "command", "--agent", "@dan", "--yes", "--recipe", "antigravity")
    assert tomllib.loads((tmp_path / "home" / "book.toml").read_text()) == {"@dan": {"recipe": "antigravity"}}
    disconnect(shell, "@dan")


def test_a_book_that_the_bridge_could_not_read_is_not_written(shell: Shell, tmp_path: Path) -> None:
    book = tmp_path / "home" / "book.toml"
    book.write_text('["@ann"]\nwrong = 1\n')
    refused = shell.run("connect", "command", "--agent", "@dan", "--yes", "-o", "json", "--", "notify")
    assert refused.error()["code"] == "CONFIG_NOT_EDITABLE"
    assert book.read_text() == '["@ann"]\nwrong = 1\n'


def test_a_connected_command_rings_in_the_bridge_that_runs(served: ServerProcess, tmp_path: Path) -> None:
    shell, note = shell_at(tmp_path / "home", served), tmp_path / "note"
    body = f"import sys; open({str(note)!r}, 'w').write(repr(sys.argv[1:]))"
    connect(shell, "@ida", sys.executable, "-c", body, "{native_id}", "{handle}")
    [token_file] = [
        json.loads(path.read_text())["token_file"]
        for path in (served.data / "connections").glob("command-*.json")
        if json.loads(path.read_text())["handle"] == "@ida"
    ]
    ida = shell.as_token(Path(token_file).read_text().strip())
    way = ("--transport", "command", "--capability", "operator_command", "--presence", "idle")
    ida.json("session", "heartbeat", "--harness", "mine", "--native-id", "n1", *way)
    shell.json("send", "@ida", "hello")
    assert eventually(lambda: note.exists() and note.read_text(), "the command runs") == repr(["n1", "@ida"])
    disconnect(shell, "@ida")
    assert not (served.data / "commands.toml").exists()
    assert ida.run("whoami").code == 4
