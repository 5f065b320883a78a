"""The writer as a process of its own: `python -m wakeline.store.sqlite.apart DATABASE`, spoken to by its input.

Two busy threads of one interpreter wait for each other more than they work: the event loop and a writer thread together
did a third of what the loop does without one.  Here the loop only packs commands and unpacks answers.

They send each other frames (`frames.py`).  Who writes alone is sent at once; where several do, a frame holds whatever
was submitted in one turn of the loop, or enough, or while the loop was busy.  The writer takes all the frames that wait
as one batch and answers them in order, so that nothing needs a number.  Where something followed from a batch, the
answers go out before the commit, as a draft, so that the server can prepare what comes next while the disk works; a
short frame after the commit says that they hold, or what holds instead.  A large batch is committed behind the next one
(`commits.py`); answers still go out in order, each after its own commit.

- The server dies, however: the writer reads the end of its input, after the transaction that is under way, and ends.
- The writer dies: what it was sent may or may not be written, and its senders are told so (`outcome: unknown`); an
  idempotency key makes repeating safe.  What was not sent yet goes to the next writer, which is started at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from wakeline.core.store import FollowUp, Making, Wants
from wakeline.errors import Internal, Unavailable, WakelineError
from wakeline.store.sqlite.commits import UNDER_WAY, Asked, Carried, Commits
from wakeline.store.sqlite.connection import connect
from wakeline.store.sqlite.frames import Content, Frames, pack
from wakeline.store.sqlite.room import Room
from wakeline.store.sqlite.writer import OnCommit, settle, stopping, tell

_log = logging.getLogger(__name__)

Waiting = tuple[Asked | Making[Any], asyncio.Future[Any]]

BUFFER_BYTES = 1 << 20
DRAFT, HOLDS, FINAL = range(3)  # an answer before its commit, the word that it holds, and one that was not drafted
# Of so many that were asked at once, the commit goes on behind the next ones; fewer do not pay for the other thread.
BEHIND = 64
MANY = 128  # in one transaction: then there is a next one to decide meanwhile, and its sync costs each little
# So many are sent at once: the writer begins while the server still hears the others.  One that has nothing to do
# begins with fewer, or all who post would wait for it together, and it for all of them.
ENOUGH, ENOUGH_TO_BEGIN = 32, 8
# Where several post at a time, the server gathers for as long as its loop finds other things to do, which may be to
# hear the next ones: a commit of two costs nearly as much as one of eight.  A turn so short has found nothing.
GATHER_SECONDS, EMPTY_TURN_SECONDS = 0.003, 0.00002
# The thread that commits wants the interpreter for a moment only, and whoever it answers has waited for long.
SWITCH_SECONDS = 0.0001
QUIET_MICROSECONDS = 250_000  # without a frame: time to tidy up
AGAIN_SECONDS = 1.0  # before a third writer, when the second did not even begin
# Each subquery of a load gets a small cache of pages, and frees it.  A heap that is given back to the system every time
# and taken again costs more than the load.
HEAP = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
# Commands leave hardly any cycles behind; looking for them more often costs a tenth of the time.
GARBAGE_THRESHOLDS = (20_000, 20, 50)


# -- the process ------------------------------------------------------------------------------------------------------


def serve(line: socket.socket, commits: Commits, room: Room) -> None:
    frames = Frames(line)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, QUIET_MICROSECONDS))
    while (waiting := _heard(frames, commits)) is not None:
        asked: list[Asked] = []
        now, whole = 0, False
        for (sent_at, wanted), (follow_up, *some) in waiting:  # none, if what came is only the beginning of one
            commits.follow_up = follow_up or commits.follow_up
            asked += some
            now, whole = sent_at, whole or bool(wanted)
        for at in range(0, len(asked), MANY):
            some, answer = asked[at : at + MANY], Answer(line, room)
            later = answer.send if len(some) >= BEHIND else None
            carried = commits.serve(some, now, whole=whole, draft=answer.draft, later=later)
            if carried is answer.drafted:
                answer.send(None)
            elif carried is not UNDER_WAY:
                line.sendall(_answer(FINAL, carried, commits.trouble))
            commits.learn()
    commits.finish()


def _heard(frames: Frames, commits: Commits) -> list[Content] | None:
    while True:
        try:
            return frames.receive()
        except BlockingIOError:
            commits.tidy()


def _answer(state: int, carried: Carried, trouble: WakelineError | None = None) -> bytes:
    outcomes, grown, followed = carried
    return pack([state, len(outcomes), len(grown)], [trouble, *outcomes, *grown, *followed])


class Answer:
    """To one batch, packed before its commit: after the wait for the disk that would take longer."""

    def __init__(self, line: socket.socket, room: Room) -> None:
        self._line = line
        self._room = room
        self._packed = b""
        self.drafted: Carried = ([], [], [])

    def draft(self, carried: Carried) -> None:
        self.drafted = carried
        *_, followed = carried
        if followed:
            self._line.sendall(_answer(DRAFT, carried))
        self._packed = _answer(HOLDS, ([], [], [])) if followed else _answer(FINAL, carried)

    def send(self, failure: WakelineError | None) -> None:
        """What was drafted, if the commit succeeded; perhaps in the thread that waited for it."""
        if failure is None:
            self._line.sendall(self._packed)
            self._room.make()
        else:
            outcomes, *_ = self.drafted
            self._line.sendall(_answer(FINAL, ([failure.again() for _ in outcomes], [], []), failure))


def main() -> None:
    # What a terminal or a supervisor sends to all of us is for the server: it hangs up when it has what it waits for.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    database = Path(sys.argv[1])
    commits = Commits(connect(database))
    with suppress(ConnectionError):  # the server may die while it is answered
        serve(socket.socket(fileno=sys.stdin.fileno()), commits, Room(database))
    # The connection is not closed: after a clean stop the server tidies up, after any other nothing should move.
    os._exit(0)


# -- the server's half ------------------------------------------------------------------------------------------------


class ProcessWriter:
    def __init__(
        self,
        database: Path,
        clock: Callable[[], int],
        on_commit: OnCommit,
        wants: Wants,
        on_draft: Callable[[Sequence[Any]], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._on_commit = on_commit
        self._wants = wants
        self._on_draft = on_draft
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []  # not sent yet
        self._sent: deque[asyncio.Future[Any]] = deque()  # in the order in which they will be answered
        self._unsent = bytearray()  # what the socket did not take
        self._stuck = False  # are we called when it takes more?
        self._crowded = False  # did others post while one was being written?
        self._gathering = False
        self._closed = False
        self._ended = self._loop.create_future()
        self._has_answered = False
        self._draft: Carried = ([], [], [])
        self.follow_up: FollowUp | None = None
        self._told_to_follow: FollowUp | None = None
        self._line: socket.socket | None = None
        self.trouble: WakelineError | None = None
        self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def submit(self, asked: Asked | Making[Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise stopping()
        if self._line is None and self.trouble is not None:  # nobody waits for a writer that does not come
            raise self.trouble.again()
        future = self._loop.create_future()
        self._waiting.append((asked, future))
        self._crowded |= bool(self._sent)
        if not self._crowded or len(self._waiting) >= (ENOUGH if self._sent else ENOUGH_TO_BEGIN):
            self._flush()
        elif not self._gathering:
            self._gathering, began = True, perf_counter()
            self._loop.call_soon(self._gather, began, began)
        return future

    async def close(self) -> None:
        self._closed = True
        self._flush()
        if self._line is not None:
            await self._ended

    # -- the process --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._closed:
            return
        line, theirs = socket.socketpair()
        for one in (line, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        # -P: a module of the same name in the directory that we were started from is none of ours.
        command = [sys.executable, "-P", "-m", "wakeline.store.sqlite.apart", str(self._database)]
        try:
            with theirs:
                environ = {**os.environ, **HEAP}
                self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environ)
        except OSError as error:
            line.close()
            self._give_up(f"The writer cannot be started ({error.strerror}); nothing was written.")
            return
        line.setblocking(False)
        self._line = line
        self._frames = Frames(line)
        self._has_answered, self._told_to_follow, self._unsent, self._stuck = False, None, bytearray(), False
        self._loop.add_reader(line, self._receive, line)
        self._flush()

    def _lost(self, line: socket.socket) -> None:
        self._loop.remove_reader(line)
        self._loop.remove_writer(line)
        line.close()
        self._line = None
        self._process.wait()  # it has hung up, so it is gone or about to be
        if self._closed and not self._sent:
            self._ended.set_result(None)
            return
        _log.error("the writer (pid %d) ended with %s; starting another", self.pid, self._process.returncode)
        text = "The writer ended unexpectedly; whether this was written is not known."
        self.trouble = Unavailable("STORE_UNAVAILABLE", text, outcome="unknown")
        sent, self._sent = self._sent, deque()
        settle([(future, self.trouble.again()) for future in sent])
        if self._closed:
            self._ended.set_result(None)
        elif self._has_answered:
            self._start()
        else:
            self._give_up("The writer ended as soon as it was started; nothing was written.")

    def _give_up(self, why: str) -> None:
        """For a while."""
        self.trouble = Unavailable("STORE_UNAVAILABLE", why)
        _log.error("%s", why)
        waiting, self._waiting = self._waiting, []
        settle([(future, self.trouble.again()) for _, future in waiting])
        self._loop.call_later(AGAIN_SECONDS, self._start)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _gather(self, began: float, turned: float) -> None:
        """Wait another turn of the loop, unless there was nothing in the last one or it is time."""
        now, few = perf_counter(), 0 < len(self._waiting) < ENOUGH_TO_BEGIN
        if few and turned + EMPTY_TURN_SECONDS < now < began + GATHER_SECONDS:
            self._loop.call_soon(self._gather, began, now)
            return
        self._gathering = False
        self._crowded = bool(self._sent) or len(self._waiting) > 1
        self._flush()

    def _flush(self) -> None:
        """Everything that waits, as one frame."""
        line = self._line
        if line is None:
            return  # the next writer gets it
        waiting, self._waiting = self._waiting, []
        made = list(_made(waiting))
        if made:
            try:
                self._put(made)
            except Exception:  # noqa: BLE001 - what cannot be packed is a bug, and must not touch the others
                for one in made:
                    self._put_alone(one)
        self._send(line)

    def _put(self, waiting: Sequence[tuple[Asked, asyncio.Future[Any]]]) -> None:
        asked, futures = zip(*waiting, strict=True)
        news = None if self.follow_up is self._told_to_follow else self.follow_up
        self._unsent += pack([self._clock(), int(self._wants())], [news, *asked])
        self._told_to_follow = self.follow_up
        self._sent.extend(futures)  # only now: whoever was not sent must not be in the line of those who are answered

    def _put_alone(self, one: tuple[Asked, asyncio.Future[Any]]) -> None:
        try:
            self._put([one])
        except Exception:  # noqa: BLE001 - as above, and its sender is told
            _settle_bug(one[1], "packed")

    def _send(self, line: socket.socket) -> None:
        try:
            while self._unsent:
                del self._unsent[: line.send(self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(line, self._send, line)
            self._stuck = True
            return
        except OSError:
            return  # it is gone: reading will tell
        if self._stuck:
            self._loop.remove_writer(line)
            self._stuck = False
        if self._closed:
            line.shutdown(socket.SHUT_WR)

    def _receive(self, line: socket.socket) -> None:
        try:
            frames = self._frames.receive()
        except BlockingIOError:
            return
        except OSError:
            frames = None
        if frames is None:
            self._lost(line)
            return
        for (state, many, grown), (trouble, *answers) in frames:
            if state != HOLDS:
                self._draft = answers[:many], answers[many : many + grown], answers[many + grown :]
            outcomes, _, followed = self._draft
            if state == DRAFT:
                self._on_draft(followed)
            else:
                self.trouble, self._has_answered = trouble, True
                tell(self._on_commit, self._draft, [self._sent.popleft() for _ in outcomes])


def _made(waiting: Sequence[Waiting]) -> Iterator[tuple[Asked, asyncio.Future[Any]]]:
    """What makes a command is called here, for one after the other; a refusal is for whoever submitted it."""
    for asked, future in waiting:
        try:
            made = asked() if callable(asked) else asked
        except WakelineError as refusal:
            settle([(future, refusal)])
        except Exception:  # noqa: BLE001 - a bug, and must not touch the others
            _settle_bug(future, "made")
        else:
            yield made, future


def _settle_bug(future: asyncio.Future[Any], done: str) -> None:
    _log.exception("a command could not be %s because of a bug", done)
    settle([(future, Internal("INTERNAL", "The write failed because of a bug; nothing was written."))])


if __name__ == "__main__":
    main()
