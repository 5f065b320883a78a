"""The companion: one for each session, started by Claude Code as the plugin's MCP server.

Claude Code's hooks call it as a tool (`hook`), the bridge rings it (`rung`), the registry tells what no hook tells.  It
decides nothing about who is woken when.  It only keeps a doorbell that comes in the middle of a turn: the next tool
result takes it along, or the end of the turn lets it ring; if the human cuts the turn off, their next words take it
along.  Rung into the turn at once, it would wait in Claude Code's own queue and run as soon as the human pressed Esc.
What is kept can also be called off: its mail was read meanwhile, by a sibling or by the human.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from wakeline.harnesses.claude_code.bell import Bell, Verdict
from wakeline.harnesses.claude_code.registry import Registry
from wakeline.harnesses.claude_code.turns import Turns, marks_in
from wakeline.harnesses.seat import Seat
from wakeline.wire import seat as said

HARNESS = "claude-code"
TOOL = "session_event"  # not listed: only hooks call it
CAPABILITIES = ("queue_when_active",)

LOOK_SECONDS = 0.5
ANNOUNCE_SECONDS = 3.0  # the human's prompt waits for it


class Event(msgspec.Struct, frozen=True):
    """What hooks/hooks.json passes on.  What a hook does not know is empty."""

    event: Literal[
        "UserPromptSubmit",
        "Stop",
        "StopFailure",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "SessionStart",
    ]
    session_id: str = ""
    prompt_id: str = ""
    prompt: str = ""
    last: str = ""
    agent_id: str = ""
    source: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where the session is, and who it speaks as."""

    token: str
    native_id: str
    pid: int
    cwd: str
    attended: bool = True  # by a human at a terminal; `claude -p` begins with its turn, and is never idle before it


class Companion:
    def __init__(
        self,
        place: Place,
        bell: Bell,
        registry: Registry,
        seats: Callable[[], str],
        pauses: Callable[[], Iterator[float]],
        clock: Callable[[], int],
    ) -> None:
        self._place, self._bell, self._registry, self._clock = place, bell, registry, clock
        self._turns = Turns(place.native_id, clock(), running=not place.attended)
        self._seat = Seat(seats, self, pauses)
        self._ringing: dict[str, str] = {}  # what is being rung, and was not answered yet: its id by its mark
        self._kept: dict[tuple[str, ...], str] = {}  # doorbells by their marks
        self._group: asyncio.TaskGroup | None = None

    @property
    def native_id(self) -> str:
        return self._turns.native_id

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._seat.hold())
            self._group.create_task(self._watch())

    # -- to the bridge ------------------------------------------------------------------------------------------------

    def hello(self) -> said.Hello:
        entry = self._registry.look()
        return said.Hello(
            token=self._place.token,
            harness=HARNESS,
            version=None if entry is None else entry.version,
            native_id=self._turns.native_id,
            pid=self._place.pid,
            cwd=self._place.cwd,
            wake_mode=self._bell.wake_mode,
            transport=self._bell.transport,
            protocol=said.PROTOCOL,
            capabilities=list(CAPABILITIES),
            resumable=True,
            presence=self._turns.presence,
        )

    def welcomed(self, welcome: said.Welcome) -> None:
        self._seat.say(*self._turns.retold())

    async def rung(self, ring: said.RingSaid) -> said.Rung | None:
        if self._turns.presence == "idle":
            self._ringing[ring.mark] = ring.id
            verdict = await self._bell.ring(ring.text, self._turns.native_id)
            if self._ringing.pop(ring.mark, None) is None:
                return None
        else:
            self._kept[ring.mark,] = ring.text
            verdict = Verdict(
                "accepted", detail="kept for the next tool result, the end of the turn or the next prompt"
            )
        return said.Rung(id=ring.id, result=verdict.result, reason=verdict.reason, detail=verdict.detail)

    def _confirm(self, marks: tuple[str, ...]) -> None:
        """A prompt shows them: their rings need not wait for an objection any more."""
        rung = [self._ringing.pop(mark) for mark in marks if mark in self._ringing]
        self._seat.say(*(said.Rung(id=one, result="accepted", detail="its prompt was seen") for one in rung))

    def announced(self, announce: said.AnnounceSaid) -> None:
        """It came too late for its prompt, so it is kept like a ring."""
        if announce.text is not None:
            self._kept[tuple(announce.marks)] = announce.text

    def withdrawn(self, mark: str) -> bool:
        """An announcement goes with the last of its marks; until then it tells of mail that is unread."""
        kept = {marks: text for marks, text in self._kept.items() if marks != (mark,)}
        was_kept = len(kept) < len(self._kept)
        self._kept = {tuple(one for one in marks if one != mark): text for marks, text in kept.items()}
        return was_kept

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            entry = self._registry.look()
            if entry is not None:
                self._seat.say(*self._turns.seen(entry, self._clock()))
            if self._turns.presence == "idle":
                self._release()

    def _release(self) -> None:
        """Let ring what was kept.  A ring that is lost on the way stays due: the mark was not seen in a prompt."""
        kept, self._kept = self._kept, {}
        for text in kept.values():
            if self._group is not None:
                self._group.create_task(self._ring(text))

    async def _ring(self, text: str) -> None:
        await self._bell.ring(text, self._turns.native_id)

    # -- from the hooks -----------------------------------------------------------------------------------------------

    async def hook(self, given: dict[str, Any]) -> dict[str, Any]:
        """The answer to a hook: an empty object, or what is to be put before the model."""
        try:
            event = msgspec.convert(given, Event)
        except msgspec.ValidationError:
            return {}  # an event of a newer plugin
        if event.event == "UserPromptSubmit":
            return await self._submitted(event)
        if event.event in ("PostToolUse", "PostToolUseFailure"):
            return self._tool_ran(event)
        if event.source == "resume" and event.session_id not in ("", self._turns.native_id):
            self._move(event.session_id)
            return {}
        self._seat.say(*self._happened(event))
        if self._turns.presence == "idle":
            self._release()
        return {}

    def _move(self, native_id: str) -> None:
        """`/resume`: from here on this is another session, which has its own mail and was not shown these doorbells."""
        self._turns = Turns(native_id, self._clock())
        self._kept.clear()
        self._ringing.clear()
        self._seat.move()

    def _happened(self, event: Event) -> list[said.Line]:
        now = self._clock()
        match event.event:
            case "Stop":
                return self._turns.ended(event.prompt_id, "completed", event.last, now)
            case "StopFailure":
                return self._turns.ended(event.prompt_id, "failed", event.last, now)
            case "PermissionRequest":
                return self._turns.asked(now)
            case "SessionStart":
                return self._turns.began(event.session_id, event.source, now)
            case _:
                return []

    async def _submitted(self, event: Event) -> dict[str, Any]:
        """A prompt: the bridge says whether there is mail to announce, and the hook's answer does."""
        self._confirm(marks_in(event.prompt))
        lines = self._turns.submitted(event.prompt_id, event.prompt, self._clock())
        announce = await self._seat.ask(*lines, timeout=ANNOUNCE_SECONDS)
        self.announced(announce)
        return self._put(event)

    def _tool_ran(self, event: Event) -> dict[str, Any]:
        self._seat.say(*self._turns.answered(self._clock()))
        return {} if event.agent_id else self._put(event)  # a subagent has a context of its own

    def _put(self, event: Event) -> dict[str, Any]:
        """What was kept goes before the model with what the hook is about."""
        if not self._kept:
            return {}
        kept, self._kept = self._kept, {}
        marks = [mark for of_one in kept for mark in of_one]
        self._turns.show(tuple(marks))
        if marks:
            self._seat.say(said.InjectedSaid(marks=marks, turn_id=self._turns.turn_id))
        return {"hookSpecificOutput": {"hookEventName": event.event, "additionalContext": "\n".join(kept.values())}}
