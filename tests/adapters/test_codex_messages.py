from __future__ import annotations

from pathlib import Path

import pytest

from wakeline.adapters.codex import commands
from wakeline.adapters.codex.entry import token_of
from wakeline.adapters.codex.messages import (
    Item,
    McpServer,
    Status,
    Thread,
    Turn,
    is_session,
    marks_of,
    presence_of,
)
from wakeline.core.session import Presence

IDLE = Status("idle")


@pytest.mark.parametrize(
    ("status", "presence"),
    [
        (IDLE, Presence.IDLE),
        (Status("active"), Presence.ACTIVE),
        (Status("active", ("waitingOnApproval",)), Presence.WAITING_ON_APPROVAL),
        (Status("active", ("waitingOnUserInput",)), Presence.WAITING_ON_APPROVAL),  # as much the human's to answer
        (Status("active", ("somethingNew",)), Presence.WAITING_ON_APPROVAL),  # a flag that we do not know is a doubt
        (Status("systemError"), Presence.IDLE),  # its last turn failed; it takes the next one
        (Status("notLoaded"), Presence.UNKNOWN),
        (Status("somethingNew"), Presence.UNKNOWN),
    ],
)
def test_a_status_is_a_presence(status: Status, presence: Presence) -> None:
    assert presence_of(status) is presence


@pytest.mark.parametrize(
    ("thread", "wanted"),
    [
        (Thread("a", IDLE, "/", thread_source="user"), True),
        (Thread("a", IDLE, "/"), True),  # an older server does not say
        (Thread("a", IDLE, "/", ephemeral=True, thread_source="thread_title"), False),
        (Thread("a", IDLE, "/", parent_thread_id="b"), False),
        (Thread("a", IDLE, "/", thread_source="memory"), False),
    ],
)
def test_only_a_humans_thread_is_a_session(thread: Thread, wanted: bool) -> None:  # noqa: FBT001 - a row of the table
    assert is_session(thread) is wanted


def test_only_our_marks_are_marks() -> None:
    turn = Turn("t", "completed", (Item("userMessage", "wl-1"), Item("userMessage", "43-12"), Item("agentMessage")))
    assert marks_of(turn) == ("wl-1",)


def test_the_token_comes_from_the_entry_or_from_the_file_that_it_names(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("from the file\n")
    assert token_of(McpServer(env={"WAKELINE_TOKEN_FILE": str(secret)})) == "from the file"
    assert token_of(McpServer(env={"WAKELINE_TOKEN": "given"})) == "given"
    assert token_of(McpServer(http_headers={"authorization": "Bearer sent"})) == "sent"


@pytest.mark.parametrize(
    "entry", [None, McpServer(), McpServer(env={"WAKELINE_TOKEN_FILE": "/nowhere"}), McpServer(http_headers={"a": "b"})]
)
def test_an_entry_without_a_token_is_nobodys(entry: McpServer | None) -> None:
    assert token_of(entry) is None


def test_activation_says_nothing_of_approvals_or_sandboxes() -> None:
    assert commands.resume("T", "hello") == ["codex", "exec", "resume", *commands.READY, "--json", "T", "hello"]
    assert commands.queue("T", "hello", ("/opt/codex",)) == [
        "/opt/codex",
        "queue",
        "--thread",
        "T",
        "--message",
        "hello",
    ]
