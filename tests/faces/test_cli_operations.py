from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import uuid
from pathlib import Path

import asyncpg
import pytest
import toon_format

import wakeline
from tests.databases import fresh_postgres, until_alone
from tests.faces.command_line import Shell
from wakeline.faces.cli.commands import INDEX
from wakeline.testing.server import ServerProcess


@pytest.fixture
def human(server: ServerProcess) -> Shell:
    return Shell(server.environ)


def test_a_new_agent_gets_a_token_that_is_shown_once(human: Shell) -> None:
    handle = f"@a{uuid.uuid4().hex[:10]}"
    added = human.json("agent", "add", handle, "--role", "reviewer", "--role", "tester")
    assert (added["handle"], added["role"], added["roles"]) == (handle, "reviewer", ["reviewer", "tester"])
    assert human.as_token(added["token"]).json("whoami")["handle"] == handle
    assert added["token"] not in human.run("token", "list", "-o", "json").out


def test_an_agent_s_life(human: Shell) -> None:
    handle, agent = human.new_agent("--display-name", "Ann")
    assert human.json("agent", "role", handle, "reviewer")["roles"] == ["reviewer"]
    [shown] = [one for one in human.json("agent", "list")["agents"] if one["handle"] == handle]
    assert (shown["kind"], shown["display_name"], shown["role"]) == ("agent", "Ann", "reviewer")
    human.run("send", handle, "Read me.")
    [row] = [line for line in human.run("agent", "list").out.splitlines() if line.startswith(handle)]
    assert row.split() == [handle, "agent", "reviewer", "1", "Ann"]
    assert human.json("agent", "retire", handle)["retired_at"] is not None
    assert agent.run("inbox").code == 4
    person = f"@h{uuid.uuid4().hex[:10]}"
    added = human.json("agent", "add", person, "--human", "--no-token")
    assert (added["kind"], added["token"]) == ("human", None)


def test_a_token_s_life(human: Shell) -> None:
    handle, _ = human.new_agent()
    made = human.json("token", "create", handle, "--expires", "1h", "--note", "laptop")
    agent = human.as_token(made["token"])
    assert agent.json("whoami")["handle"] == handle
    [shown] = [one for one in human.json("token", "list", handle)["tokens"] if one["jti"] == made["jti"]]
    assert (shown["note"], "token" in shown) == ("laptop", False)
    assert human.json("token", "revoke", made["jti"])["revoked_at"] is not None
    refused = agent.run("whoami", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (4, "TOKEN_REVOKED")
    other = human.new_agent()[1].run("token", "revoke", "0" * 26, "-o", "json")
    assert (other.code, other.error()["code"]) == (3, "TOKEN_NOT_FOUND")


def test_the_token_stands_alone_on_its_line_for_people(human: Shell) -> None:
    handle, _ = human.new_agent()
    lines = human.run("token", "create", handle).out.splitlines()
    [token] = [line for line in lines if line.count(".") == 2 and " " not in line]
    assert human.as_token(token).json("whoami")["handle"] == handle


def test_a_thread_s_life(human: Shell) -> None:
    alice, as_alice = human.new_agent()
    bob, as_bob = human.new_agent()
    thread = as_alice.json("thread", "create", "Release", "--member", bob, "--type", "workflow", "--coordinator", alice)
    name = thread["thread_id"]
    assert (thread["type"], thread["coordinator"], thread["status"]) == ("workflow", alice, "active")
    as_bob.json("send", "--thread", name, "Shall we release?")
    assert name in as_bob.run("thread", "list").out
    assert [one["thread_id"] for one in as_bob.json("thread", "list", "--type", "workflow")["threads"]] == [name]
    carol, _ = human.new_agent()
    members = as_alice.json("thread", "members", name, "--add", carol, "--remove", bob)["members"]
    assert {one["handle"] for one in members} == {alice, carol}
    assert as_alice.json("thread", "summary", name)["open_questions"][0]["text"] == "Shall we release?"
    assert "Shall we release?" in as_alice.run("thread", "summary", name).out
    assert as_alice.json("thread", "status", name, "resolved", "--reason", "done")["status"] == "resolved"
    shown = as_alice.run("thread", "show", name).out
    assert "resolved" in shown
    assert carol in shown


def test_grants_and_blocks(human: Shell) -> None:
    alice, as_alice = human.new_agent()
    bob, as_bob = human.new_agent()
    assert as_alice.run("inbox", "--of", bob).code == 4
    human.json("grant", "add", "can-read-inbox-of", alice, bob)
    assert as_alice.json("inbox", "--of", bob)["messages"] == []
    assert alice in human.run("grant", "list").out
    human.json("grant", "remove", "CAN_READ_INBOX_OF", alice, bob)
    assert as_alice.run("inbox", "--of", bob).code == 4
    as_bob.json("block", "add", alice)
    refused = as_alice.run("send", bob, "hello?", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (4, "BLOCKED")
    assert alice in as_bob.run("block", "list").out
    as_bob.json("block", "remove", alice)
    as_alice.json("send", bob, "hello!")
    rules = {one["rule"] for one in human.json("refusals")["refusals"] if one["handle"] == alice}
    assert "block" in rules
    assert alice in human.run("refusals").out


def test_a_dead_letter_can_be_posted_again(human: Shell) -> None:
    late = f"@l{uuid.uuid4().hex[:10]}"
    sender, as_sender = human.new_agent()
    assert as_sender.run("send", late, "too early").code == 3
    [letter] = human.json("dead-letter", "list", "--sender", sender)["dead_letters"]
    assert letter["dead_letter_id"] in human.run("dead-letter", "list").out
    token = human.json("agent", "add", late)["token"]
    posted = human.json("dead-letter", "redrive", letter["dead_letter_id"])
    [message] = human.as_token(token).json("inbox")["messages"]
    assert (message["message_id"], message["sender"]) == (posted["message_id"], sender)
    assert human.json("dead-letter", "list", "--sender", sender)["dead_letters"] == []
    assert len(human.json("dead-letter", "list", "--sender", sender, "--all")["dead_letters"]) == 1


@pytest.mark.guarantee("G-WORKSPACE")
def test_workspaces_are_worlds_of_their_own(human: Shell) -> None:
    name = f"w{uuid.uuid4().hex[:10]}"
    assert human.json("workspace", "add", name)["name"] == name
    assert name in human.run("workspace", "list").out
    human.json("agent", "add", "@only-here", "--workspace", name)
    assert "@only-here" in human.run("agent", "list", "--workspace", name).out
    assert "@only-here" not in human.run("agent", "list").out
    elsewhere = human.with_environ(WAKELINE_WORKSPACE=name)
    assert elsewhere.json("whoami")["workspace"] == name
    assert human.run("agent", "list", "--workspace", "no-such").code == 3


def test_status_shows_where_the_log_is(human: Shell) -> None:
    human.new_agent()
    status = human.json("status")
    assert status["version"] == wakeline.__version__
    assert status["position"].startswith(f"{status['epoch']}-")
    assert status["position"] in human.run("status").out
    assert toon_format.loads(human.run("status", "-o", "toon").out)["version"] == wakeline.__version__


def test_the_log_can_be_read_from_its_end_and_from_a_position(human: Shell) -> None:
    alice, as_alice = human.new_agent()
    as_alice.json("send", alice, "to myself")
    last = human.json("log", "--limit", "1")["events"]
    assert [one["actor"] for one in last] == [alice]
    assert human.json("log", "--since", str(last[0]["log_id"] - 1))["events"][0] == last[0]
    assert human.json("log", "--since", f"{last[0]['epoch']}-{last[0]['log_id']}")["events"] == []
    everything = human.run("log", "--since", "0", "--limit", "500", "-o", "jsonl").lines()
    assert [one["log_id"] for one in everything] == list(range(1, len(everything) + 1))
    assert "to myself" in human.run("log").out


def test_following_the_log_prints_what_happens(human: Shell) -> None:
    alice, as_alice = human.new_agent()
    since = human.json("status")["position"]
    process = human.start("log", "--follow", "--since", since, "-o", "jsonl")
    try:
        assert process.stdout is not None
        sent = [as_alice.json("send", alice, f"m{number}")["message_id"] for number in range(3)]
        rows = [json.loads(process.stdout.readline()) for _ in sent]
        assert [row["message"]["message_id"] for row in rows if "message" in row] == sent
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()


def test_pruning_moves_the_beginning_of_the_log(human: Shell) -> None:
    alice, as_alice = human.new_agent()
    as_alice.json("send", alice, "kept as unread mail")
    pruned = human.json("prune", "--keep", "1")
    assert pruned["first_log_id"] == pruned["last_log_id"]
    gone = human.run("log", "--since", "1", "-o", "json")
    assert (gone.code, gone.error()["code"]) == (1, "POSITION_EXPIRED")
    assert as_alice.json("inbox")["unread"] == 1
    assert human.run("prune").code == 0


@pytest.mark.guarantee("G-EPOCH")
def test_a_backup_is_restored_under_a_new_epoch(human: Shell, tmp_path: Path) -> None:
    human.new_agent()
    copy, elsewhere = tmp_path / "copy.db", tmp_path / "elsewhere"
    made = human.json("backup", str(copy))
    assert made == {"file": str(copy), "bytes": copy.stat().st_size}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert human.run("backup", str(copy)).code == 1
    epoch = human.json("restore", str(copy), "--data", str(elsewhere))["epoch"]
    assert epoch != human.json("status")["epoch"]
    assert human.run("restore", str(copy), "--data", str(elsewhere)).code == 1
    assert human.run("restore", str(copy), "--data", str(elsewhere), "--force").code == 0
    busy = human.run("restore", str(copy), "--force", "-o", "json")
    assert (busy.code, busy.error()["code"]) == (5, "STORE_LOCKED")


def test_a_backup_shows_its_progress_to_a_person(human: Shell, tmp_path: Path) -> None:
    code, screen = human.on_terminal("backup", str(tmp_path / "copy.db"))
    assert code == 0, screen
    assert "100%" in screen


def test_copies_of_postgresql_are_made_by_postgresql(human: Shell, tmp_path: Path) -> None:
    shared = human.with_environ(WAKELINE_DATABASE="postgresql://user:secret@host/db")
    refused = shared.run("backup", str(tmp_path / "copy.db"), "-o", "json")
    assert (refused.code, refused.error()["code"]) == (1, "NOT_SQLITE")
    assert "pg_dump" in refused.error()["hint"]


@pytest.mark.guarantee("G-EPOCH")
def test_a_restored_copy_of_postgresql_gets_a_new_epoch_while_no_node_runs(tmp_path: Path) -> None:
    with fresh_postgres() as url:
        shell = Shell({"PATH": os.environ["PATH"], "HOME": str(tmp_path), "WAKELINE_DATABASE": url})
        with ServerProcess(tmp_path / "data", database=url) as server:
            before = Shell(server.environ).json("status")["epoch"]
            refused = shell.run("restore", "--new-epoch", "-o", "json")
            assert (refused.code, refused.error()["code"]) == (5, "STORE_LOCKED")
            assert refused.error()["hint"] == "Stop every node, then run it again."
        asyncio.run(_until_alone(url))
        epoch = shell.json("restore", "--new-epoch")["epoch"]
        with ServerProcess(tmp_path / "data", database=url) as server:
            human = Shell(server.environ)
            assert human.json("status")["epoch"] == epoch != before
            gone = human.run("log", "--since", f"{before}-0", "-o", "json")
            assert gone.error()["code"] == "EPOCH_CHANGED"


async def _until_alone(url: str) -> None:
    connection = await asyncpg.connect(url)
    await until_alone(connection)
    await connection.close()


def test_a_new_epoch_is_for_postgresql_and_its_operator(human: Shell) -> None:
    refused = human.run("restore", "--new-epoch", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (2, "USAGE")
    agent = human.with_environ(CLAUDECODE="1", WAKELINE_DATABASE="postgresql://nobody@nowhere/db")
    assert agent.run("restore", "--new-epoch", "-o", "json").error()["code"] == "OPERATOR_IN_HARNESS"


def test_doctor_finds_a_running_server_healthy(server: ServerProcess, human: Shell) -> None:
    report = human.json("doctor")
    assert report["healthy"]
    assert {"wakeline", "python", "sqlite", "data directory", "store", "socket", "server"} <= {
        check["name"] for check in report["checks"]
    }
    seen = human.run("doctor").out
    assert "✓ store" in seen
    assert "all is well" in seen


def test_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "wakeline.db").write_bytes(b"this is not a database" * 100)
    alone = Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WAKELINE_DATA": str(tmp_path)})
    report = alone.run("doctor", "-o", "json")
    wrong = {check["name"] for check in json.loads(report.out)["checks"] if check["ok"] is False}
    assert report.code == 1
    assert {"store", "socket", "server"} <= wrong


def test_config_lists_every_setting_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('port = 1234\nrestricted_tags = ["a"]\nurl = "http://far:1"\n')
    alone = Shell(
        {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "WAKELINE_DATA": str(tmp_path),
            "WAKELINE_HOST": "::1",
            "WAKELINE_KEY": "very secret",
            "WAKELINE_TOKEN": "also secret",
            "WAKELINE_DATABASE": "postgresql://user:hidden@host/db",
        }
    )
    listed = alone.run("config", "-o", "json")
    rows = {row["name"]: row for row in listed.json()["settings"]}
    file = f"file {tmp_path / 'config.toml'}"
    assert (rows["port"]["value"], rows["port"]["source"]) == (1234, file)
    assert (rows["host"]["value"], rows["host"]["source"]) == ("::1", "environment WAKELINE_HOST")
    assert (rows["url"]["value"], rows["url"]["source"]) == ("http://far:1", file)
    assert rows["rate_burst"]["source"] == "default"
    for output in (listed.out, alone.run("config").out):
        assert not any(secret in output for secret in ("very secret", "also secret", "hidden"))


def test_a_wrong_setting_is_named_with_its_source(tmp_path: Path) -> None:
    alone = Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WAKELINE_DATA": str(tmp_path)})
    refused = alone.run("up", "--port", "99999", "-o", "json")
    assert refused.code == 1
    assert refused.error()["details"] == {"setting": "port", "source": "flag --port"}


def test_the_version_is_the_package_s(tmp_path: Path) -> None:
    alone = Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert alone.run("version").out == f"wakeline {wakeline.__version__}\n"
    assert alone.run("--version").out == f"wakeline {wakeline.__version__}\n"
    assert alone.json("version") == {"version": wakeline.__version__}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(tmp_path: Path, shell: str) -> None:
    script = Shell({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}).run("completion", shell)
    assert script.code == 0, script.err
    for name in INDEX:
        assert name.split()[-1] in script.out
    assert "--reply-to" in script.out or "reply-to" in script.out


def test_bash_completes_commands(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    script = tmp_path / "complete.bash"
    script.write_text(Shell(environ).run("completion", "bash").out)
    lines = (
        f"source {script}",
        "COMP_WORDS=(wakeline se)",
        "COMP_CWORD=1",
        "function=$(complete -p wakeline | sed 's/.*-F \\([^ ]*\\).*/\\1/')",
        "$function wakeline se wakeline",
        'echo "${COMPREPLY[@]}"',
    )
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], env=environ, capture_output=True, text=True, check=False, timeout=30
    )
    assert set(done.stdout.split()) == {"seat", "send", "search", "session"}, done.stderr
