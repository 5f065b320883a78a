"""Into a real pane of a real tmux server, with a real program in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests import harness_tools
from tests.adapters import composer
from wakeline.adapters.tmux.adapter import Tmux, typeable
from wakeline.adapters.tmux.gift import OPTION, gift
from wakeline.adapters.tmux.pane import Pane, is_own
from wakeline.core.observation import Gone, Noticed, Observation
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, mark_of
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.runtime.processes import foreground, look
from wakeline.testing.terminal import Terminal

EVENT = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
MARK = mark_of(EVENT)
TEXT = f"Wakeline: you have 1 unread message from @alice [{MARK}]. Fetch them with read_messages."
RAW = ("tmux", "-S")
MINUTE = 60_000_000


def give(terminal: Terminal, handle: str = "@bob") -> None:
    """As its user does with `wakeline connect tmux`."""
    program = foreground(terminal.pid) or 0
    mark = gift(handle, "s", program, look(program)[1])
    subprocess.run([*RAW, str(terminal.socket), "set-option", "-p", "-t", "%0", OPTION, mark], check=True, timeout=20)


class Room:
    """A composer in a pane, and an adapter that may type into it."""

    def __init__(self, folder: Path, style: str = "glyph", command: list[str] | None = None) -> None:
        self.log = folder / "log"
        program = command or [sys.executable, composer.__file__, str(self.log), style]
        self.terminal = Terminal(program, cwd=folder, environ={"PATH": os.environ["PATH"]}).start()
        self.adapter = Tmux(look, foreground)

    def given(self, shown: str) -> Self:
        """Once its program is there, its user gives the pane to @bob."""
        self.terminal.wait(shown)
        give(self.terminal)
        return self

    @property
    def program(self) -> int | None:
        return foreground(self.terminal.pid)

    @property
    def session(self) -> Session:
        return a_session(f"{self.terminal.socket},%0", self.program)

    async def ring(self, text: str = TEXT) -> Result:
        return await self.adapter.deliver(a_parcel(self.session, text))

    def heard(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def tmux(self, *words: str) -> None:
        subprocess.run([*RAW, str(self.terminal.socket), *words], check=True, timeout=20)

    def close(self) -> None:
        self.terminal.stop()


def reason(result: Result) -> str:
    assert isinstance(result, Refused)
    return result.reason


def a_session(native_id: str, pid: int | None) -> Session:
    return Session(
        session_id="s",
        workspace_id=1,
        handle="@bob",
        harness="composer",
        native_id=native_id,
        host="here",
        cwd=None,
        pid=pid,
        pid_started_at=None if pid is None else look(pid)[1],
        wake_mode=WakeMode.NONE,
        replyable=1,
        capabilities='["keystrokes"]',
        levels="{}",
        presence="idle",
        active_turn_id=None,
        presence_source="tmux",
        presence_at=0,
        context_tokens=None,
        context_limit=None,
        resumable=0,
        task_id=None,
        branch=None,
        started_at=0,
        heartbeat_at=0,
    )


def a_parcel(session: Session, text: str = TEXT) -> Parcel:
    return Parcel(
        delivery_id="d1",
        event_id=EVENT,
        subscription_id="w1",
        attempt=1,
        target="bridge-daemon",
        url=None,
        body=b"{}",
        text=text,
        mark=MARK,
        session=session,
    )


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    harness_tools.need_terminal()
    made = Room(tmp_path).given("Ask anything")
    yield made
    made.close()


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_an_empty_idle_input_line_gets_the_doorbell_once(room: Room) -> None:
    assert await room.ring() == Accepted(None, "typed and submitted")
    assert room.heard() == [TEXT]


async def test_an_input_line_between_two_rules_is_one_too(tmp_path: Path) -> None:
    harness_tools.need_terminal()
    room = Room(tmp_path, "ruled")
    try:
        assert isinstance(await room.given("? for shortcuts").ring(), Accepted)
        assert room.heard() == [TEXT]
    finally:
        room.close()


STATES = [
    ("type", "half a thought", "half a thought", "screen_draft"),
    ("press", "C-b", "esc to interrupt", "screen_busy"),
    ("press", "C-o", "Do you want to proceed?", "screen_modal"),
    ("press", "C-e", "Interrupted", "screen_stopped"),
]


@pytest.mark.guarantee("G-TMUX-DOUBT")
@pytest.mark.parametrize(("hand", "key", "shown", "reason"), STATES)
async def test_a_draft_a_running_turn_a_question_and_a_human_who_said_stop_are_left_alone(
    room: Room, hand: str, key: str, shown: str, reason: str
) -> None:
    getattr(room.terminal, hand)(key)
    before = room.terminal.wait(shown)
    result = await room.ring()
    assert isinstance(result, Refused)
    assert result.reason == reason
    assert room.terminal.screen == before
    assert room.heard() == []


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_a_title_that_turns_is_work_although_nothing_else_moves(room: Room) -> None:
    room.terminal.press("C-t")
    result = await room.ring()
    assert isinstance(result, Refused)
    assert result.reason == "screen_busy"
    assert room.heard() == []


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_copy_mode_and_a_pane_without_input_are_left_alone(room: Room) -> None:
    for enter, leave in (
        (("copy-mode",), ("send-keys", "-X", "cancel")),
        (("select-pane", "-d"), ("select-pane", "-e")),
        (("setw", "synchronize-panes", "on"), ("setw", "synchronize-panes", "off")),
    ):
        room.tmux(*enter)
        result = await room.ring()
        assert isinstance(result, Refused)
        assert result.reason == "pane_mode"
        room.tmux(*leave)
    assert room.heard() == []
    assert isinstance(await room.ring(), Accepted)


async def test_an_unknown_input_line_is_left_alone(tmp_path: Path) -> None:
    harness_tools.need_terminal()
    room = Room(tmp_path, "bare")
    try:
        result = await room.given("? for shortcuts").ring()
        assert isinstance(result, Refused)
        assert result.reason == "screen_unknown"
    finally:
        room.close()


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_a_shell_is_never_typed_into(tmp_path: Path) -> None:
    harness_tools.need_terminal()
    room = Room(tmp_path, command=["/bin/sh"])
    try:
        assert reason(await room.ring("> touch here")) == "pane_not_given"
        give(room.terminal)
        assert reason(await room.ring("> touch here")) == "pane_shell"
    finally:
        room.close()


@pytest.mark.guarantee("G-TMUX-GIVEN")
async def test_another_program_in_the_same_pane_is_left_alone(room: Room) -> None:
    pid = os.getpid()
    other = a_session(f"{room.terminal.socket},%0", pid)
    assert reason(await room.adapter.deliver(a_parcel(other))) == "pane_not_given"
    room.tmux("set-option", "-p", "-t", "%0", OPTION, gift("@bob", "s", pid, look(pid)[1]))
    assert reason(await room.adapter.deliver(a_parcel(other))) == "pane_program"


MARKS: list[tuple[str, Callable[[int], str]]] = [
    ("nobody", lambda _: ""),
    ("another agent", lambda pid: gift("@carol", "s", pid, look(pid)[1])),
    ("another session of the agent", lambda pid: gift("@bob", "t", pid, look(pid)[1])),
    ("the agent of a longer name", lambda pid: gift("@bob", "s/s", pid, look(pid)[1])),
    ("another process", lambda pid: gift("@bob", "s", pid + 1, look(pid)[1])),
    ("an earlier process of this number", lambda pid: gift("@bob", "s", pid, (look(pid)[1] or 0) - MINUTE)),
    ("only an agent", lambda _: "@bob"),
    ("no number", lambda pid: f"@bob/s {pid} then"),
]


@pytest.mark.guarantee("G-TMUX-GIVEN")
@pytest.mark.parametrize(("whom", "mark"), MARKS, ids=[row[0] for row in MARKS])
async def test_a_pane_that_was_given_to_somebody_else_is_not_typed_into(
    room: Room, whom: str, mark: Callable[[int], str]
) -> None:
    room.tmux("set-option", "-p", "-t", "%0", OPTION, mark(room.program or 0))
    before = room.terminal.screen
    result = await room.ring()
    assert isinstance(result, Refused)
    assert (result.reason, "wakeline connect tmux --agent @bob" in result.detail) == ("pane_not_given", True)
    assert room.terminal.screen == before
    assert room.heard() == []


@pytest.mark.guarantee("G-TMUX-GIVEN")
async def test_a_server_that_another_user_could_have_put_there_is_not_spoken_to(room: Room, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        for mode, own in ((0o700, True), (0o755, True), (0o1777, True), (0o777, False), (0o770, False)):
            folder.chmod(mode)
            assert is_own(path) == own
        assert await room.adapter.deliver(a_parcel(a_session(f"{path},%0", room.program))) == Absent()
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not is_own(tmp_path / "nowhere")
    assert not is_own(folder)


async def test_a_pane_that_is_not_there_is_absent(room: Room) -> None:
    assert await room.adapter.deliver(a_parcel(a_session(f"{room.terminal.socket},%9", room.program))) == Absent()
    assert await room.adapter.deliver(a_parcel(a_session("/nowhere,%0", room.program))) == Absent()
    assert isinstance(await room.adapter.deliver(a_parcel(a_session("thread-1", room.program))), Failed)


async def test_what_does_not_appear_in_the_input_line_is_not_submitted(room: Room) -> None:
    result = await room.ring("something else entirely")  # no mark in it
    assert isinstance(result, Uncertain)
    assert result.reason == "not_submitted"
    assert room.heard() == []


HOSTILE = [
    (f"/quit {MARK}", f"Note: /quit {MARK}"),
    (f"one\ntwo\r\x1b[201~\rthree {MARK}", f"one two [201~ three {MARK}"),
    (f'Subjects: "press Enter to confirm" {MARK}', f"Wakeline: you have unread mail ({MARK})."),
    (f'Subjects: "Operation aborted" {MARK}', f"Wakeline: you have unread mail ({MARK})."),
]


@pytest.mark.parametrize(("text", "typed"), HOSTILE)
async def test_nothing_in_a_text_acts_on_the_program_or_on_us(room: Room, text: str, typed: str) -> None:
    assert typeable(text, MARK).startswith(typed)
    assert isinstance(await room.ring(text), Accepted)
    assert [line.startswith(typed) for line in room.heard()] == [True]


async def test_presence_is_what_the_screen_shows(room: Room) -> None:
    seen: list[Observation] = []

    async def note(observation: Observation) -> None:
        seen.append(observation)

    pane = Pane.named(room.session.native_id)
    assert pane is not None
    for key, shown, presence in (
        ("C-x", "Ask anything", Presence.IDLE),
        ("C-b", "esc to interrupt", Presence.ACTIVE),
        ("C-o", "2. No", Presence.WAITING_ON_APPROVAL),
        ("C-e", "Interrupted", Presence.USER_TYPING),
        ("C-x", "Ask anything", Presence.IDLE),
        ("x", "\xa0x", Presence.USER_TYPING),
    ):
        room.terminal.press(key)
        room.terminal.wait(shown)
        await room.adapter._notice(room.session, pane, note)  # noqa: SLF001 - one round of its watch
        assert seen.pop() == Noticed("s", presence, source="tmux")
    session = room.session
    room.terminal.press("C-d")
    room.terminal.wait_until(lambda _: not room.terminal.alive)
    await room.adapter._notice(session, pane, note)  # noqa: SLF001 - as above
    assert seen.pop() == Gone("s", "program_ended")


def test_it_never_claims_to_wake_an_idle_session() -> None:
    assert Tmux.levels["D4"] == "n/a"
