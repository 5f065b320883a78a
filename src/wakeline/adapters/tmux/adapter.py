"""Type the doorbell into a pane, when everything says that nobody and nothing else is using its input line.

    D0 pass, D1 pass, D3 pass, D6 pass, D7 partial, D8 partial; D2, D4 and D5 n/a: no official surface is used, so it
    is no idle wake in the sense of the levels, and what comes of it is seen only when the agent answers.

A person lets us do this for one pane with `wakeline connect tmux`, which marks the pane (`gift`); nothing here happens
otherwise, whatever a session says of itself.  Typing over an
approval prompt answers it, and typing into a draft sends it, so any doubt is a refusal.  Two doubts remain that nobody
can rule out: a person who begins to type between the last look and our Enter, and a draft whose first lines are empty.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from wakeline.adapters.harness import ANY, Report, Sessions
from wakeline.adapters.tmux.gift import is_given
from wakeline.adapters.tmux.pane import Facts, Pane, PaneLost
from wakeline.adapters.tmux.screen import PRESENCE, Verdict, is_alarming, judge, shows
from wakeline.core.doorbell import FETCH
from wakeline.core.observation import Gone, Noticed
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, bounded
from wakeline.core.seat import KEYSTROKES
from wakeline.core.session import Liveness, Presence, Session, Sighting, WakeMode, liveness

TRANSPORT = "tmux"
STILL_SECONDS = 0.4
SHOWN_SECONDS = 0.35
TAKEN_LOOKS = 8
WATCH_SECONDS = 5.0
SHELLS = frozenset(
    (
        *("sh", "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "tcsh", "xonsh", "zsh"),
        *("login", "mosh", "screen", "ssh", "su", "sudo", "tmux"),  # what is behind them cannot be seen from here
    )
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LEADING = tuple("/!@#$?&-")
# What a screen does not look like while our text stands in the input line; a text of several lines has no known look.
_OTHER = (Verdict.EMPTY, Verdict.STOPPED, Verdict.BUSY, Verdict.MODAL)


class Tmux:
    harness = ANY
    transport = TRANSPORT
    wake_mode = WakeMode.NONE
    capabilities: tuple[str, ...] = (KEYSTROKES,)
    levels: Mapping[str, str] = MappingProxyType(
        {
            **dict.fromkeys(("D0", "D1", "D3", "D6"), "pass"),
            **dict.fromkeys(("D2", "D4", "D5"), "n/a"),
            **dict.fromkeys(("D7", "D8"), "partial"),
        }
    )

    def __init__(self, look: Callable[[int], Sighting], foreground: Callable[[int], int | None]) -> None:
        """`look` at a process; the leader of the process group in the `foreground` of a process's terminal."""
        self._look = look
        self._foreground = foreground

    # -- ringing ------------------------------------------------------------------------------------------------------

    async def deliver(self, parcel: Parcel) -> Result:
        pane = None if parcel.session is None else Pane.named(parcel.session.native_id)
        if pane is None or parcel.session is None:
            return Failed("no_pane", "The session does not name a pane.", retryable=False)
        try:
            objection = await self._objection(pane, parcel.session)
        except PaneLost:
            return Absent()
        if objection is not None:
            return Refused(None, *objection)
        try:
            return await self._type(pane, parcel)
        except PaneLost as problem:
            return Uncertain("pane_lost", bounded(str(problem)))

    async def _objection(self, pane: Pane, session: Session) -> tuple[str, str] | None:
        """Why not to type now: a reason and what was seen."""
        problem = self._unusable(await pane.facts(), session)
        if problem is not None:
            return problem
        verdict = await self._judge(pane)
        return None if verdict is Verdict.EMPTY else (f"screen_{verdict}", f"the pane's input line is {verdict}")

    def _unusable(self, facts: Facts, session: Session) -> tuple[str, str] | None:
        if session.pid is None or not is_given(facts.mark, session, self._look(session.pid)):
            return "pane_not_given", f"its user gives it with 'wakeline connect tmux --agent {session.handle}'"
        if facts.dead:
            return "pane_dead", "the program in the pane has ended"
        if facts.in_mode or facts.input_off or facts.synchronised:
            return "pane_mode", "the pane is in copy mode, takes no input, or is tied to others"
        if facts.command.lstrip("-") in SHELLS:
            return "pane_shell", f"{bounded(facts.command)} is in the foreground"
        if self._foreground(facts.root) != session.pid:
            return "pane_program", "another program than the registered one is in the foreground"
        return None

    async def _judge(self, pane: Pane) -> Verdict:
        first = await pane.glance()
        await asyncio.sleep(STILL_SECONDS)
        return judge(first, await pane.glance())

    async def _type(self, pane: Pane, parcel: Parcel) -> Result:
        """Paste, see that it stands there and that nothing came up meanwhile, and only then press Enter."""
        await pane.paste(typeable(parcel.text, parcel.mark), f"wakeline-{parcel.delivery_id}")
        await asyncio.sleep(SHOWN_SECONDS)
        glance = await pane.glance()
        problem = self._unusable(await pane.facts(), parcel.session) if parcel.session else None
        if problem is not None or not shows(glance, parcel.mark) or judge(glance, glance) in _OTHER:
            return Uncertain(
                "not_submitted", "the text was pasted, but is not seen in the input line; Enter was not pressed"
            )
        await pane.enter()
        for _ in range(TAKEN_LOOKS):
            await asyncio.sleep(SHOWN_SECONDS)
            after = await pane.glance()
            if judge(after, after) in _OTHER:
                return Accepted(None, "typed and submitted")
        return Uncertain("not_taken", "Enter was pressed, but the input line still holds the text")

    # -- watching -----------------------------------------------------------------------------------------------------

    async def watch(self, sessions: Sessions, report: Report) -> None:
        """Presence, as far as a screen tells it.  Looked at more often than it goes stale."""
        while True:
            for session in sessions():
                pane = Pane.named(session.native_id)
                if session.transport == TRANSPORT and pane is not None:
                    await self._notice(session, pane, report)
            await asyncio.sleep(WATCH_SECONDS)

    async def _notice(self, session: Session, pane: Pane, report: Report) -> None:
        try:
            facts = await pane.facts()
            if facts.dead or (session.pid and liveness(session, self._look(session.pid)) is Liveness.DEAD):
                await report(Gone(session.session_id, "program_ended"))
                return
            usable = self._unusable(facts, session) is None
            presence = PRESENCE[await self._judge(pane)] if usable else Presence.UNKNOWN
        except PaneLost:
            await report(Gone(session.session_id, "pane_gone"))
            return
        await report(Noticed(session.session_id, presence, source=TRANSPORT))


def typeable(text: str, mark: str) -> str:
    """One line without anything that a terminal or a program would obey, or that we would take for a question."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    if is_alarming(line):  # a peer's subject
        line = f"Wakeline: you have unread mail ({mark}). {FETCH}"
    return f"Note: {line}" if line.startswith(_LEADING) else line
