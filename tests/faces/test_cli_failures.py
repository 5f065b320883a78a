from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.faces.command_line import Shell
from wakeline.endpoint import HARNESS_MARKS
from wakeline.faces.cli.commands import EXIT_CODES, GROUPS, INDEX
from wakeline.testing.server import ServerProcess

NOBODY = "0" * 26


@pytest.fixture
def human(server: ServerProcess) -> Shell:
    return Shell(server.environ)


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    """A prompt on a machine where no server runs."""
    return Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WAKELINE_DATA": str(tmp_path / "data")})


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("thread", "show", NOBODY), 3, "THREAD_NOT_FOUND"),
        (("send", "@nobody-here", "hi"), 3, "RECIPIENT_UNKNOWN"),
        (("agent", "add", "@Bad"), 1, "INVALID_ARGUMENT"),
        (("agent", "add", "@human"), 1, "AGENT_EXISTS"),
        (("send", "bob", "hi"), 2, "USAGE"),
        (("send", "hi"), 2, "USAGE"),
        (("send", "@bob", "hi", "--nonsense"), 2, "USAGE"),
        (("send", "@bob", "hi", "--expires", "soon"), 2, "USAGE"),
        (("nonsense",), 2, "USAGE"),
    ],
)
def test_a_failure_has_a_code_a_hint_and_its_exit_code(
    human: Shell, words: tuple[str, ...], code: int, name: str
) -> None:
    people = human.run(*words)
    assert people.code == code
    assert people.out == ""
    assert people.err.startswith(f"error {name}: ")
    assert "\nhint: " in people.err
    program = human.run(*words, "-o", "json")
    assert program.code == code
    envelope = json.loads(program.err)
    assert set(envelope) == {"error", "request_id", "occurred_at"}
    assert set(envelope["error"]) == {"code", "message", "hint", "details", "retryable"}
    assert envelope["error"]["code"] == name


def test_an_unknown_token_and_a_missing_right_exit_with_4(human: Shell) -> None:
    forged = human.as_token("not.a.token").run("inbox", "-o", "json")
    assert (forged.code, forged.error()["code"]) == (4, "TOKEN_INVALID")
    _, agent = human.new_agent()
    refused = agent.run("workspace", "add", "mine", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (4, "OPERATOR_REQUIRED")


def test_a_server_that_is_not_there_exits_with_5(alone: Shell) -> None:
    away = alone.run("inbox")
    assert away.code == 5
    assert away.err.startswith("error SERVER_UNREACHABLE: ")
    assert "wakeline up" in away.err
    assert alone.with_environ(WAKELINE_URL="http://127.0.0.1:1", WAKELINE_TOKEN="x").run("inbox").code == 5
    assert alone.with_environ(WAKELINE_URL="http://nowhere.invalid", WAKELINE_TOKEN="x").run("inbox").code == 5


def test_something_else_behind_the_url_is_said_to_be_something_else(alone: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        process = alone.with_environ(WAKELINE_URL=url, WAKELINE_TOKEN="x").start("agent", "add", "@bob", "-o", "json")
        connection, _ = other.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        _, err = process.communicate(timeout=30)
    assert process.returncode == 5
    assert json.loads(err)["error"]["code"] == "ANSWER_UNREADABLE"


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://", "http://host:port", "http://user@host:80"])
def test_a_bad_url_is_refused_by_name(alone: Shell, url: str) -> None:
    refused = alone.with_environ(WAKELINE_URL=url, WAKELINE_TOKEN="x").run("inbox", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (1, "SETTING_INVALID")


@pytest.mark.guarantee("G-HUMAN")
@pytest.mark.parametrize("mark", HARNESS_MARKS)
def test_inside_a_harness_nobody_is_the_operator(server: ServerProcess, human: Shell, mark: str) -> None:
    inside = human.with_environ(**{mark: "1"})
    for words in (("inbox",), ("agent", "add", "@evil"), ("backup", "copy.db"), ("restore", "copy.db", "--force")):
        refused = inside.run(*words, "-o", "json")
        assert (refused.code, refused.error()["code"]) == (4, "OPERATOR_IN_HARNESS")
        assert "WAKELINE_TOKEN" in refused.error()["hint"]


def test_inside_a_harness_an_agent_uses_its_token(human: Shell, tmp_path: Path) -> None:
    handle, agent = human.new_agent()
    inside = agent.with_environ(CLAUDECODE="1")
    assert inside.json("whoami")["handle"] == handle
    file = tmp_path / "token"
    file.write_text(f"{agent.environ['WAKELINE_TOKEN']}\n")
    by_file = human.with_environ(CLAUDECODE="1", WAKELINE_TOKEN_FILE=str(file))
    assert by_file.json("whoami")["handle"] == handle
    assert human.json("whoami", "--token-file", str(file))["handle"] == handle


def test_a_token_with_a_url_goes_over_tcp(server: ServerProcess, human: Shell) -> None:
    handle, agent = human.new_agent()
    remote = Shell({"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "WAKELINE_URL": server.url})
    assert remote.as_token(agent.environ["WAKELINE_TOKEN"]).json("whoami")["handle"] == handle


def test_a_token_never_reaches_the_head_with_a_line_break(human: Shell) -> None:
    refused = human.as_token("x\r\nWakeline-Workspace: other").run("inbox", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (1, "SETTING_INVALID")


@pytest.mark.guarantee("G-HUMAN")
def test_an_override_is_confirmed_by_a_person(human: Shell) -> None:
    thread = human.json("thread", "create", "T")["thread_id"]
    human.json("thread", "status", thread, "blocked")
    words = ("thread", "status", thread, "closed", "--override", "--reason", "because")
    for extra in ((), ("--yes",)):
        refused = human.run(*words, *extra, "-o", "json")
        assert (refused.code, refused.error()["code"]) == (4, "CONFIRMATION_REQUIRED")
    code, screen = human.on_terminal(*words, typed="n\n")
    assert (code, "Nothing was changed" in screen) == (4, True)
    assert human.json("thread", "show", thread)["status"] == "blocked"
    code, screen = human.on_terminal(*words, typed="y\n")
    assert code == 0, screen
    assert human.json("thread", "show", thread)["status"] == "closed"


def test_yes_spares_the_question_on_a_terminal(human: Shell) -> None:
    thread = human.json("thread", "create", "T")["thread_id"]
    human.json("thread", "status", thread, "blocked")
    words = ("thread", "status", thread, "closed", "--override", "--reason", "because", "--yes")
    assert human.on_terminal(*words)[0] == 0
    assert human.json("thread", "show", thread)["status"] == "closed"


def test_a_coordinator_overrides_by_its_own_right(human: Shell) -> None:
    _, lead = human.new_agent("--role", "coordinator")
    thread = lead.json("thread", "create", "T")["thread_id"]
    lead.json("thread", "status", thread, "blocked")
    closed = lead.json("thread", "status", thread, "closed", "--override", "--reason", "because")
    assert closed["status"] == "closed"


@pytest.mark.parametrize("name", INDEX)
def test_every_command_explains_itself_with_examples(alone: Shell, name: str) -> None:
    told = alone.run(*name.split(), "--help")
    assert told.code == 0, told.err
    assert told.out.startswith(f"usage: wakeline {name}")
    assert "examples:\n  " in told.out
    assert "--output FORMAT" in told.out


def test_the_overview_names_every_command_and_exit_code(alone: Shell) -> None:
    told = alone.run("--help")
    assert told.code == 0
    assert all(f"  {name} " in told.out for name in INDEX)
    assert all(f"{code:>3}  {meaning}" in told.out for code, meaning in EXIT_CODES.items())
    assert alone.run().code == 2
    for group in GROUPS:
        assert alone.run(group).code == 2
        assert alone.run(group, "--help").code == 0


def test_a_misspelt_command_is_recognised(alone: Shell) -> None:
    assert "Did you mean 'send'?" in alone.run("sned", "@bob", "hi").err
    assert "Did you mean 'agent add'?" in alone.run("agent", "ad", "@bob").err
