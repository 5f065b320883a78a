from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.command_line import Shell
from tests.faces.connecting import contents, shell_at
from wakeline.testing.server import ServerProcess

HARNESSES = ("claude-code", "codex", "opencode", "pi")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("connect") / "data") as process:
        yield process


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a file of its human's for each harness."""
    for name, text in {
        ".claude/settings.json": '{\n  "model": "opus" // mine\n}',
        ".codex/config.toml": '# mine\r\nmodel = "x"\r\n',
        ".config/opencode/opencode.jsonc": '{\n\t// mine\n\t"theme": "x",\n}\n',
        ".pi/agent/settings.json": '{"theme": "dark"}',
    }.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode())
    return tmp_path / "home"


@pytest.fixture
def shell(home: Path, served: ServerProcess) -> Shell:
    return shell_at(home, served)


@pytest.mark.guarantee("G-CONNECT-RESTORE")
@pytest.mark.parametrize("harness", HARNESSES)
def test_a_connection_is_written_once_and_leaves_nothing_behind(shell: Shell, home: Path, harness: str) -> None:
    before = contents(home)
    first = shell.json("connect", harness, "--yes")
    there = contents(home)
    assert {one["action"] for one in first["files"]} <= {"create", "change"}
    assert there != before
    second = shell.json("connect", harness, "--yes")
    assert {one["action"] for one in second["files"]} == {"keep"}
    assert contents(home) == there
    shell.json("disconnect", harness)
    assert contents(home) == before
    assert shell.run("disconnect", harness).code == 3


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_dry_run_shows_everything_and_writes_nothing(
    shell: Shell, home: Path, served: ServerProcess, harness: str
) -> None:
    before, known = contents(home), contents(served.data / "connections")
    shown = shell.run("connect", harness, "--dry-run", "--agent", "@nobody-yet")
    assert shown.code == 0
    assert "+++ " in shown.out
    assert "nothing was written" in shown.out
    assert "eyJ" not in shown.out
    assert contents(home) == before
    assert contents(served.data / "connections") == known
    assert "@nobody-yet" not in shell.run("agent", "list").out


def test_a_person_sees_the_change_and_is_asked(shell: Shell, home: Path) -> None:
    before = contents(home)
    code, screen = shell.on_terminal("connect", "codex", typed="n\n")
    assert code == 4
    assert "[mcp_servers.wakeline]" in screen
    assert "Nothing was written" in screen
    assert contents(home) == before
    code, screen = shell.on_terminal("connect", "codex", typed="y\n")
    assert code == 0
    assert "codex is connected as @codex" in screen
    assert shell.run("disconnect", "codex").code == 0


def test_a_program_must_say_that_it_means_it(shell: Shell, home: Path) -> None:
    before = contents(home)
    refused = shell.run("connect", "codex", "-o", "json")
    assert refused.code == 4
    assert refused.error()["code"] == "CONFIRMATION_REQUIRED"
    assert contents(home) == before


def test_an_agent_cannot_connect_itself_as_somebody(shell: Shell, home: Path) -> None:
    before = contents(home)
    refused = shell.with_environ(CLAUDECODE="1").run("connect", "claude-code", "--yes", "-o", "json")
    assert refused.error()["code"] == "OPERATOR_IN_HARNESS"
    assert contents(home) == before


def test_the_token_is_the_owners_alone_and_is_revoked_at_the_end(
    shell: Shell, served: ServerProcess, home: Path
) -> None:
    shell.json("connect", "pi", "--yes", "--agent", "@ida")
    told = json.loads((home / ".pi/agent/extensions/wakeline/pi/wakeline.json").read_text())
    token_file = Path(told["token_file"])
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(token_file.parent.stat().st_mode) == 0o700
    ida = shell.as_token(token_file.read_text().strip())
    assert ida.json("whoami")["handle"] == "@ida"
    shell.json("disconnect", "pi")
    assert not token_file.exists()
    assert ida.run("whoami").code == 4


def test_connecting_as_another_agent_replaces_the_first(shell: Shell, home: Path) -> None:
    before = contents(home)
    shell.json("connect", "codex", "--yes", "--agent", "@first")
    assert shell.json("connect", "codex", "--yes", "--agent", "@second")["handle"] == "@second"
    assert shell.json("connect", "codex", "--yes")["handle"] == "@second"
    live = [one for one in shell.json("token", "list")["tokens"] if not one["revoked_at"]]
    assert [one["handle"] for one in live if one["handle"] in ("@first", "@second")] == ["@second"]
    shell.json("disconnect", "codex")
    assert contents(home) == before


def test_a_given_token_is_used_and_never_revoked(shell: Shell, served: ServerProcess, home: Path) -> None:
    handle, agent = shell.new_agent()
    remote = agent.with_environ(WAKELINE_URL=served.url)
    assert remote.json("connect", "codex", "--yes")["handle"] == handle
    assert served.url in (home / ".codex/config.toml").read_text()
    assert remote.run("connect", "codex", "--yes", "--agent", "@other").code == 2
    remote.json("disconnect", "codex")
    assert agent.json("whoami")["handle"] == handle


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_project_has_a_connection_of_its_own(shell: Shell, home: Path, tmp_path: Path, harness: str) -> None:
    project = tmp_path / "My Project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    before, mine = contents(home), contents(project)
    connected = shell.json("connect", harness, "--yes", "--project", str(project))
    assert connected["handle"] == f"@{harness}.my-project"
    assert contents(home) == before
    assert len(contents(project)) > 1
    assert shell.run("disconnect", harness).code == 3
    shell.json("disconnect", harness, "--project", str(project))
    assert contents(project) == mine


@pytest.mark.guarantee("G-CONNECT-ONLY-OURS")
def test_what_a_person_changed_since_stays_and_is_told(shell: Shell, home: Path) -> None:
    shell.json("connect", "codex", "--yes")
    config = home / ".codex/config.toml"
    config.write_bytes(config.read_bytes() + b'\r\n[projects."/x"]\r\ntrust_level = "trusted"\r\n')
    said = shell.run("disconnect", "codex")
    assert "was changed since; only what is ours was taken out" in said.out
    assert config.read_bytes() == b'# mine\r\nmodel = "x"\r\n\r\n[projects."/x"]\r\ntrust_level = "trusted"\r\n'
    assert not (home / ".codex/hooks.json").exists()


def test_a_broken_file_stops_it_before_anything_is_written(shell: Shell, home: Path) -> None:
    (home / ".claude/settings.json").write_text("{")
    before = contents(home)
    refused = shell.run("connect", "claude-code", "--yes", "-o", "json")
    assert refused.code == 1
    assert refused.error()["code"] == "CONFIG_NOT_EDITABLE"
    assert contents(home) == before


# The one place where a file changes is a rename or a removal, so the process is killed before and after each of them.
KILLED = """
import os, signal, sys
left = int(sys.argv[1])
def deadly(act):
    def wrapped(*words, **more):
        global left
        left -= 1
        if left == 0: os.kill(os.getpid(), signal.SIGKILL)
        act(*words, **more)
        left -= 1
        if left == 0: os.kill(os.getpid(), signal.SIGKILL)
    return wrapped
os.replace, os.unlink = deadly(os.replace), deadly(os.unlink)
from wakeline.faces.cli.main import run
sys.exit(run(sys.argv[2:]))
"""


def kill_at(shell: Shell, number: int, *words: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(number), *words],
        env=shell.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode


@pytest.mark.guarantee("G-CONNECT-KILLED")
@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_killed_anywhere_a_second_run_finishes_and_nothing_is_half_written(
    shell: Shell, home: Path, harness: str
) -> None:
    before = contents(home)
    shell.json("connect", harness, "--yes")
    wanted = contents(home)
    shell.json("disconnect", harness)
    number, code = 0, -9
    while code == -9:
        number += 1
        code = kill_at(shell, number, "connect", harness, "--yes")
        old_or_new(contents(home), before, wanted)
        shell.json("connect", harness, "--yes")
        assert contents(home) == wanted
        kill_at(shell, number, "disconnect", harness)
        old_or_new(contents(home), before, wanted)
        shell.run("disconnect", harness)
        assert contents(home) == before
    assert code == 0
    assert number > 10


def old_or_new(found: dict[str, bytes], before: dict[str, bytes], wanted: dict[str, bytes]) -> None:
    for name, content in found.items():
        if not name.endswith(".wakeline-new"):
            assert content in (before.get(name), wanted.get(name)), name
