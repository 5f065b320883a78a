"""The companion: one for each session, started by Claude Code as the plugin's MCP server.

Claude Code's hooks call it as a tool (`hook`), the bridge rings it (`rung`), the registry tells what no hook tells.  It
decides nothing about who is woken when.  It only keeps a doorbell that comes in the middle of a turn: the next tool
result takes it along, the end of the turn lets it ring, and if the human cuts the turn off, it does not ring at all.
Rung into the turn at once, it would wait in Claude Code's own queue, and start to run as soon as the human pressed Esc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from wakeline.core.instant import SECOND
from wakeline.core.session import Presence
from wakeline.harnesses.claude_code.bell import Bell, Verdict
from wakeline.harnesses.claude_code.registry import Registry
from wakeline.harnesses.claude_code.turns import Turns
from wakeline.harnesses.lines import Hello, Injected, Line, Ring, Rung, Welcome
from wakeline.harnesses.seat import Seat

HARNESS = "claude-code"
TOOL = "session_event"  # not listed: only hooks call it
CAPABILITIES = ("queue_when_active",)

LOOK_SECONDS = 0.5
CONFIRM = 60 * SECOND  # how often presence is said again although it did not change
ANNOUNCE_SECONDS = 2.0  # the human's prompt waits for it
KEPT = 50  # doorbells; the planner has one under way for a session, so this is never reached

_IN_A_TURN = (Presence.ACTIVE, Presence.WAITING_ON_APPROVAL)


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
        self._turns = Turns(place.native_id, clock())
        self._seat = Seat(seats, self, pauses)
        self._kept: dict[str, Ring] = {}  # by mark
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._seat.hold())
            self._group.create_task(self._watch())

    # -- to the bridge ------------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        entry = self._registry.look()
        return Hello(
            token=self._place.token,
            harness=HARNESS,
            version=None if entry is None else entry.version,
            native_id=self._turns.native_id,
            pid=self._place.pid,
            cwd=self._place.cwd,
            wake_mode=self._bell.wake_mode,
            transport=self._bell.transport,
            capabilities=CAPABILITIES,
            resumable=True,
        )

    def welcomed(self, welcome: Welcome) -> None:
        self._seat.say(self._turns.told())

    async def rung(self, ring: Ring) -> Rung:
        if self._turns.stopped:
            verdict = Verdict("failed", "stopped_by_human", "the human cut the turn off and has not spoken since")
        elif self._turns.presence in _IN_A_TURN and len(self._kept) < KEPT:
            self._kept[ring.mark] = ring
            verdict = Verdict("accepted", detail="kept until the turn's next tool result, or its end")
        else:
            verdict = await self._bell.ring(ring.text, self._turns.native_id)
        return Rung(id=ring.id, result=verdict.result, reason=verdict.reason, detail=verdict.detail)

    async def _watch(self) -> None:
        confirmed_at = self._clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now, entry = self._clock(), self._registry.look()
            if entry is not None:
                self._seat.say(*self._turns.seen(entry, now))
            if now - confirmed_at >= CONFIRM:
                confirmed_at = now
                self._seat.say(self._turns.told())
            if self._turns.stopped:
                self._kept.clear()
            elif self._turns.presence is Presence.IDLE:
                self._release()

    def _release(self) -> None:
        """Let ring what was kept.  A ring that is lost on the way stays due: the mark was not seen in a prompt."""
        kept, self._kept = self._kept, {}
        for ring in kept.values():
            if self._group is not None:
                self._group.create_task(self._ring(ring))

    async def _ring(self, ring: Ring) -> None:
        await self._bell.ring(ring.text, self._turns.native_id)

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
        self._seat.say(*self._happened(event))
        if event.event in ("Stop", "StopFailure"):
            self._release()
        return {}

    def _happened(self, event: Event) -> list[Line]:
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
        """A turn starts: the bridge says whether there is mail to announce, and the hook's answer does."""
        lines = self._turns.submitted(event.prompt_id, event.prompt, self._clock())
        announce = await self._seat.ask(*lines, timeout=ANNOUNCE_SECONDS)
        if announce.text is None:
            return {}
        return self._put(event, announce.text, announce.marks)

    def _tool_ran(self, event: Event) -> dict[str, Any]:
        self._seat.say(*self._turns.answered(self._clock()))
        if event.agent_id or not self._kept:  # a subagent has a context of its own
            return {}
        text = "\n".join(ring.text for ring in self._kept.values())
        return self._put(event, text, tuple(self._kept))

    def _put(self, event: Event, text: str, marks: tuple[str, ...]) -> dict[str, Any]:
        for mark in marks:
            self._kept.pop(mark, None)
        if marks:
            self._seat.say(Injected(marks=marks, turn_id=self._turns.turn_id))
        return {"hookSpecificOutput": {"hookEventName": event.event, "additionalContext": text}}
