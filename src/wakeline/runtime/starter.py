"""Starts processes for dormant agents on a bridge's host, keeps an eye on them, and tells what came of them.

The server decides; here is only looked whether the session is in use after all.  A bridge may die on any line: at the
next look it compares what the server says it holds with the folders on disk, adopts what runs, calls off what was not
begun, and ends what the server has given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from wakeline import wire
from wakeline.core.instant import from_datetime, to_datetime
from wakeline.core.launch import Program
from wakeline.core.session import START_TOLERANCE
from wakeline.errors import Unavailable, WakelineError
from wakeline.runtime.lines import Line, Named
from wakeline.runtime.orders import Exit, Folder, Look, Order, Orders, keep_command

_log = logging.getLogger(__name__)

AT_ONCE = 10
LOOK_SECONDS = 0.5
BEGIN_SECONDS = 20.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0

BEAT_LOOKS = 120  # from one sign of life of a session to the next
AGAIN_LOOKS = 10  # after the server could not be told

Compose = Callable[[wire.ActivationOrder], Program | None]
Name = Callable[[str, str], str | None]  # a harness and what it printed first: its session's native id
InUse = Callable[[str, str], bool]  # a harness and a native id: does a living process have this session?
Said = tuple[str, str | None, Exit | None]  # how it ended, why, and what the process left


def here() -> str | None:
    """The bridge's own folder, where a process is started that nobody has given one."""
    with contextlib.suppress(OSError):  # it was removed
        return str(Path.cwd())
    return None


def is_running(folder: Folder) -> bool:
    return folder.exit is None and folder.is_kept


class Starter:
    """`refusals`: by harness, the words with which it refuses a session that is open elsewhere."""

    def __init__(
        self,
        orders: Orders,
        look: Look,
        compose: Compose,
        name: Name,
        in_use: InUse,
        environ: Mapping[str, str],
        refusals: Mapping[str, str],
    ) -> None:
        self._orders = orders
        self._look = look
        self._compose = compose
        self._name = name
        self._in_use = in_use
        self._environ = dict(environ)
        self._refusals = refusals
        self._busy: set[str] = set()  # what a task of this life looks after

    async def serve(self, line: Line, group: asyncio.TaskGroup) -> None:
        """One look: take up what is new, and come back to what an earlier life has left."""
        answer = await line.claim_activations(AT_ONCE)
        held, new = {one.activation_id for one in answer.held}, {one.activation_id for one in answer.orders}
        known = held | new | self._busy
        ending = [
            folder
            for name, folder in self._orders.all(line.workspace).items()
            if name not in known and not self._cleared(folder)
        ]
        for one in answer.held:
            if one.activation_id not in self._busy:
                self._take(group, one.activation_id, self._return_to(line, one))
            elif one.stop:
                self._orders.folder(one.activation_id).end()
        for order in answer.orders:
            self._take(group, order.activation_id, self._carry_out(line, order, ending))

    def _cleared(self, folder: Folder) -> bool:
        """Nobody knows of it any more: end it.  Is it gone already?"""
        folder.call_off()
        folder.end()
        if is_running(folder):
            return False
        folder.remove()
        return True

    def _take(self, group: asyncio.TaskGroup, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._busy.add(name)
        group.create_task(self._guarded(name, work))

    async def _guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - one order's bug must not end the bridge
            _log.exception("an activation failed because of a bug")
        finally:
            self._busy.discard(name)

    # -- a new order --------------------------------------------------------------------------------------------------

    async def _carry_out(self, line: Line, order: wire.ActivationOrder, ending: Sequence[Folder]) -> None:
        found = await self._meeting(ending) or self._refusal(order) or self._program(order)
        if isinstance(found, tuple):
            await self._settle(line, order.activation_id, order.fence, found)
            return
        folder = self._orders.folder(order.activation_id)
        cwd, shipped = order.cwd or here(), order.command is None
        what = (order.activation_id, order.fence, order.harness, found.command)
        folder.begin(Order(line.workspace, *what, cwd, shipped))
        await asyncio.to_thread(self._start_keeper, folder, order, found.environ)
        await self._tell_started(line, folder, order.fence)
        await self._conclude(line, folder, order.fence)

    async def _meeting(self, ending: Sequence[Folder]) -> Said | None:
        """What was given up may be for the same mail, or the same session: a next process must not meet it."""
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                while any(map(is_running, ending)):  # noqa: ASYNC110 - another process ends
                    await asyncio.sleep(LOOK_SECONDS / 10)
        except TimeoutError:
            return "failed", "last_one_runs", None
        return None

    def _program(self, order: wire.ActivationOrder) -> Program | Said:
        try:
            program = self._compose(order)
        except WakelineError as error:
            return "failed", error.code.lower(), None
        if program is None:
            return "failed", "no_command", None
        found = shutil.which(program.command[0], path=self._environ.get("PATH"))
        return program if found is not None else ("failed", "command_not_found", None)

    def _start_keeper(self, folder: Folder, order: wire.ActivationOrder, more: Mapping[str, str]) -> None:
        """Not through the event loop: that would kill it when the bridge stops.  It is collected by whoever is next."""
        subprocess.Popen(
            keep_command(folder.path, order.seconds),
            cwd=order.cwd,
            env={**more, **self._environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _refusal(self, order: wire.ActivationOrder) -> Said | None:
        if order.cwd is not None and not Path(order.cwd).is_dir():
            return "failed", "no_folder", None
        if order.way == "resume" and (self._lives(order) or self._is_in_use(order)):
            return "already_active", "process_alive", None
        return None

    def _lives(self, order: wire.ActivationOrder) -> bool:
        """Is the session's last process still there?"""
        if order.pid is None:
            return False
        exists, started_at = self._look(order.pid)
        if not exists or started_at is None or order.pid_started_at is None:
            return exists
        return abs(started_at - from_datetime(order.pid_started_at)) <= START_TOLERANCE

    def _is_in_use(self, order: wire.ActivationOrder) -> bool:
        return order.native_id is not None and self._in_use(order.harness or "", order.native_id)

    async def _tell_started(self, line: Line, folder: Folder, fence: int) -> None:
        """Once it runs.  What the server has given up meanwhile is ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                while folder.keeper is None and folder.exit is None:  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(LOOK_SECONDS / 10)
        pause = FIRST_PAUSE
        while not await self._told(line, folder, fence):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _told(self, line: Line, folder: Folder, fence: int) -> bool:
        """Has the server heard that it runs, and in which session, as far as that is known?"""
        kept = folder.keeper
        if kept is None or kept.pid is None:
            return True
        started_at = None if kept.started_at is None else to_datetime(kept.started_at)
        try:
            stale = await line.start_activation(folder.path.name, fence, kept.pid, started_at, self._session(folder))
        except Unavailable as error:
            _log.warning("a started process could not be told of yet: %s", error.message)
            return False
        if stale:
            folder.end()
        return True

    def _session(self, folder: Folder) -> Named | None:
        """What its harness says it works in."""
        order = folder.order
        if order is None or order.harness is None or not order.shipped:
            return None
        native_id = self._name(order.harness, folder.head)
        return None if native_id is None else {"harness": order.harness, "native_id": native_id, "cwd": order.cwd}

    # -- what an earlier life has left --------------------------------------------------------------------------------

    async def _return_to(self, line: Line, held: wire.HeldActivation) -> None:
        folder = self._orders.folder(held.activation_id)
        order = folder.order
        if order is None or order.fence != held.fence or folder.call_off():
            await self._settle(line, held.activation_id, held.fence, ("failed", "bridge_restarted", None))
            folder.remove()
            return
        if held.stop:
            folder.end()
        if is_running(folder):
            _log.info("adopted what runs for the activation %s", held.activation_id)
            await self._tell_started(line, folder, held.fence)
        await self._conclude(line, folder, held.fence)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _conclude(self, line: Line, folder: Folder, fence: int) -> None:
        await self._watch(line, folder, fence)
        left = folder.exit
        if left is None:  # its keeper was killed: nothing that it kept may go on without one
            folder.call_off()
            folder.end()
            said: Said = ("failed", "keeper_lost", None)
        else:
            said = self._judge(folder, left)
        await self._settle(line, folder.path.name, fence, said, self._session(folder))
        folder.remove()

    async def _watch(self, line: Line, folder: Folder, fence: int) -> None:
        """Until it ends.  Its session is told of as soon as it has a name, and shows life now and then."""
        wait = 0
        while is_running(folder):
            if wait == 0 and self._session(folder) is not None:
                wait = BEAT_LOOKS if await self._told(line, folder, fence) else AGAIN_LOOKS
            wait = max(wait - 1, 0)
            await asyncio.sleep(LOOK_SECONDS)

    def _judge(self, folder: Folder, left: Exit) -> Said:
        order = folder.order
        words = self._refusals.get((order.harness or "") if order is not None else "")
        if left.status != 0 and words is not None and words in left.output:
            return "already_active", "session_open", left
        if left.status is None:
            return "failed", left.reason, left
        return "ended", left.reason, left

    async def _settle(
        self, line: Line, activation_id: str, fence: int, said: Said, session: Named | None = None
    ) -> None:
        """Until the server has it.  What it refuses is not ours any more."""
        end, reason, left = said
        pause = FIRST_PAUSE
        while True:
            try:
                await line.settle_activation(
                    activation_id,
                    fence,
                    end,
                    reason=reason,
                    exit_status=None if left is None else left.status,
                    output=None if left is None else left.output,
                    session=session,
                )
            except Unavailable as error:
                _log.warning("an activation could not be settled yet: %s", error.message)
            except WakelineError as error:
                _log.warning("an activation could not be settled: %s", error.message)
                return
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
