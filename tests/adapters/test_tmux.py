"""Into a real pane of a real tmux server, with a real program in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.adapters import composer
from wakeline.adapters.tmux.adapter import Tmux, typeable
from wakeline.adapters.tmux.pane import Pane
from wakeline.core.observation import Gone, Noticed, Observation
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, mark_of
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.runtime.processes import foreground, look
from wakeline.testing.terminal import Terminal

EVENT = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
MARK = mark_of(EVENT)
TEXT = f"Wakeline: you have 1 unread message from @alice [{MARK}]. Fetch them with read_messages."
RAW = ("tmux", "-S")


class Room:
    """A composer in a pane, and an adapter that may type into it."""

    def __init__(self, folder: Path, style: str = "glyph", command: list[str] | None = None) -> None:
        self.log = folder / "log"
        program = command or [sys.executable, composer.__file__, str(self.log), style]
        self.terminal = Terminal(program, cwd=folder, environ={"PATH": os.environ["PATH"]}).start()
        self.adapter = Tmux(look, foreground)

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
    made = Room(tmp_path)
    made.terminal.wait("Ask anything")
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
        room.terminal.wait("? for shortcuts")
        assert isinstance(await room.ring(), Accepted)
        assert room.heard() == [TEXT]
    finally:
        room.close()


STATES = [
    ("type", "half a thought", "half a thought", "screen_draft"),
    ("press", "C-b", "esc to interrupt", "screen_busy"),
    ("press", "C-o", "Do you want to proceed?", "screen_modal"),
]


@pytest.mark.guarantee("G-TMUX-DOUBT")
@pytest.mark.parametrize(("hand", "key", "shown", "reason"), STATES)
async def test_a_draft_a_running_turn_and_a_question_are_left_alone(
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
        room.terminal.wait("? for shortcuts")
        result = await room.ring()
        assert isinstance(result, Refused)
        assert result.reason == "screen_unknown"
    finally:
        room.close()


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_a_shell_is_never_typed_into(tmp_path: Path) -> None:
    harness_tools.need_terminal()
    room = Room(tmp_path, command=["/bin/sh"])
    try:
        result = await room.ring("> touch here")
        assert isinstance(result, Refused)
        assert result.reason == "pane_shell"
    finally:
        room.close()


async def test_another_program_in_the_same_pane_is_left_alone(room: Room) -> None:
    result = await room.adapter.deliver(a_parcel(a_session(f"{room.terminal.socket},%0", os.getpid())))
    assert isinstance(result, Refused)
    assert result.reason == "pane_program"


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
