"""Where a probe happens: a server, a stand-in for the model and a world with the real harness, connected to each other.

The probe uses only doors that everybody has: `wakeline connect`, the HTTP interface and the harness's own terminal.  So
what it finds is what a user of this harness gets.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wakeline.core.verdict import NAMES
from wakeline.doctor.ways import Way, ways
from wakeline.testing.installed import Installed
from wakeline.testing.model import ModelServer, Reply, Request, Say, Use
from wakeline.testing.model.tools import offers
from wakeline.testing.server import ServerProcess
from wakeline.testing.worlds import HarnessSession, make_world

AGENT, SENDER = "@probed", "@prober"
MARK = "[wl-"  # how the id begins that every doorbell carries
TOLD = "Wakeline: you have"  # how a turn is told that mail waits
REGISTER_SECONDS = 60.0
LOOK_SECONDS = 0.1
QUIET_SECONDS = 6.0
AGAIN_SECONDS = 1.0
REMIND_SECONDS = 20  # of mail that was rung for and stays unread; nobody waits for the usual quarter of an hour
LOOP_TURNS = 8  # a thread goes round so often before a guard stops it
_FULL, _EMPTY = re.compile(r'"messages":\s*\[\s*\{'), re.compile(r'"messages":\s*\[\s*\]')
_MESSAGE = re.compile(r'"message_id":\s*"([0-9A-Za-z]+)"')

Row = dict[str, Any]


class Unproven(Exception):
    """What a level asks for did not happen: the text says what."""


class Stage:
    def __init__(self, installed: Installed, folder: Path, way: Way | None = None) -> None:
        self.installed = installed
        self.way = way or next(iter(ways(installed.harness).values()))
        self.model = ModelServer(self._tend)
        self.world = make_world(installed, folder, self.model, asks=True)
        homes = {name: value for name, value in self.world.environ.items() if name not in ("PATH", "TMPDIR")}
        settings: dict[str, Any] = {
            "coalesce_seconds": 0,
            "wake_budget_per_hour": 10_000,
            "supervisor_seconds": 1,
            "repoke_seconds": REMIND_SECONDS,
            "loop_turn_limit": LOOP_TURNS,
        }
        self.server = ServerProcess(folder / "data", environ=homes, **settings, **self.way.settings(folder))
        self._owing: set[str | None] = set()  # sessions whose model has mail to look for
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self.model)
            opening.enter_context(self.world)
            opening.enter_context(self.server)  # it lives in the world's home, so it goes first
            self._sender = self.server.add_agent(SENDER)
            self.server.add_agent(AGENT)
            self._connect()
            opening.callback(self.way.close)
            self.way.arrange(self.world)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _connect(self) -> None:
        words = ("connect", self.installed.harness, "--agent", AGENT, "--yes")
        done = subprocess.run(
            [sys.executable, "-m", "wakeline", *words],
            env={**self.world.environ, "WAKELINE_DATA": str(self.server.data)},
            cwd=self.world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unproven(f"wakeline connect failed: {done.stderr.strip()[-300:]}")

    # -- sessions -----------------------------------------------------------------------------------------------------

    def seat(self) -> tuple[HarnessSession, Request, Row]:
        """Open a session, let its human speak first, and wait until the server knows it and it is idle."""
        session = self.way.open(self.world)
        spoken = self.greet(session)
        self.way.settle(session, AGENT, self.server.data)
        row = self.wait(lambda: self.idle(session), REGISTER_SECONDS, "the session does not appear as idle")
        return session, spoken, row

    def greet(self, session: HarnessSession) -> Request:
        """Speak until the model is offered our tools: a harness starts servers of tools beside its first turns."""
        until = time.monotonic() + REGISTER_SECONDS
        while not offers(spoken := session.prompt(f"hello {len(self.model.requests)}"), "read_messages"):
            if time.monotonic() > until:
                raise Unproven("the session was never offered our tools")
            spoken.answered.wait(REGISTER_SECONDS)
            time.sleep(AGAIN_SECONDS)
        return spoken

    def idle(self, session: HarnessSession) -> Row | None:
        row = self.row(session)
        return row if row is not None and row["presence"] == "idle" else None

    def rests(self, session: HarnessSession) -> bool:
        """Idle, and not only by what was last seen of it: its model has been answered and has no mail to look for."""
        turns = self.model.turns(session=session.native_id)
        busy = session.native_id in self._owing or any(not turn.answered.is_set() for turn in turns)
        return not busy and self.idle(session) is not None

    def row(self, session: HarnessSession) -> Row | None:
        native_id = self.way.native_id(session)
        rows = self.call("GET", f"/v1/sessions?handle={AGENT}&ended=true")["sessions"]
        return next((row for row in rows if row["native_id"] == native_id), None)

    def trust(self, row: Row) -> None:
        """Route to such sessions as if everything were proven: that is what is to be found out."""
        verdicts = [{"level": level, "result": "pass"} for level in NAMES]
        way = {"harness": row["harness"], "transport": row["transport"], "version": row["harness_version"]}
        if all(way.values()):
            self.call("POST", "/v1/proofs", {**way, "verdicts": verdicts})

    # -- mail ---------------------------------------------------------------------------------------------------------

    def post(self, row: Row, body: str, *, reply_to: str | None = None) -> Row:
        """Write to one session, or answer what was said by it."""
        where = {"to": [f"{AGENT}/{row['session_id']}"], "subject": "a probe"}
        said = {**(where if reply_to is None else {"in_reply_to": reply_to}), "body": body}
        posted: Row = self.call("POST", "/v1/messages", said, token=self._sender)
        return posted

    def replies(self) -> list[Row]:
        """What was answered to us and not read yet, oldest first."""
        inbox: list[Row] = self.call("GET", "/v1/inbox", token=self._sender)["messages"]
        return sorted(inbox, key=lambda message: message["message_id"])

    def status(self, thread_id: str) -> str:
        return str(self.call("GET", f"/v1/threads/{thread_id}", token=self._sender)["status"])

    def unblock(self, thread_id: str) -> None:
        """As the human, whom the guard has called."""
        self.call("POST", f"/v1/threads/{thread_id}/status", {"status": "active"})

    def held(self) -> list[str]:
        """Why wakes wait that did not ring yet."""
        listed = self.call("GET", f"/v1/wake-subscriptions?handle={AGENT}")["subscriptions"]
        shown = [self.call("GET", f"/v1/wake-subscriptions/{one['subscription_id']}") for one in listed]
        return [str(wake["reason"]) for one in shown for wake in one["held"]]

    def deliveries(self) -> list[Row]:
        """Newest first, each with its steps."""
        listed = self.call("GET", f"/v1/deliveries?handle={AGENT}")["deliveries"]
        return [self.call("GET", f"/v1/deliveries/{one['delivery_id']}") for one in listed]

    def _tend(self, request: Request) -> Reply:
        """What the model does with a doorbell: fetch, say that all were read, and look whether that was all.

        A harness that was just started may not offer its tools yet; then the model looks when it does.
        """
        news = request.news.replace("\\", "")
        if _FULL.search(news):
            self._owing.add(request.session)
            return Use("ack_read", {"message_ids": message_ids(request)})
        if MARK in news or TOLD in news:
            self._owing.add(request.session)
        elif _EMPTY.search(news):
            self._owing.discard(request.session)
        if request.session not in self._owing or not offers(request, "read_messages"):
            return Say("That is done.")
        return Use("read_messages")

    def answer_next(self) -> None:
        """Have the model answer the first message that the next doorbell is for."""
        fetched: list[str] = []

        def acknowledge(request: Request) -> Reply:
            fetched[:] = message_ids(request)
            return Use("ack_read", {"message_ids": fetched})

        def answer(_: Request) -> Reply:
            first = next(iter(fetched), "nothing")
            return Use("post_message", {"body": f"re {first}", "in_reply_to": first})

        self.model.script(MARK, Use("read_messages"), acknowledge, answer)

    def now(self) -> float:
        """Of the clock that the model notes its requests by."""
        return time.monotonic()

    # -- both ---------------------------------------------------------------------------------------------------------

    def wait(self, look: Callable[[], Any], seconds: float, complaint: str) -> Any:
        until = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > until:
                raise Unproven(complaint)
            time.sleep(LOOK_SECONDS)
        return found

    def stays_quiet(self, session: HarnessSession, after: int, complaint: str, *words: str) -> None:
        """For as long as a doorbell takes, and more, this session's model is asked nothing that holds these words."""
        until = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < until:
            asked = [one for one in self.model.turns(session=session.native_id) if one.number > after]
            if any(all(word in one.news for word in words) for one in asked):
                raise Unproven(complaint)
            time.sleep(LOOK_SECONDS)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        answer = self.server.call(method, path, body, **options)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise Unproven(f"{method} {path}: {answer.body.decode()[:300]}")
        return answer.json()


def message_ids(request: Request) -> list[str]:
    """The messages that a tool's result in this request shows."""
    return list(dict.fromkeys(_MESSAGE.findall(request.news.replace("\\", ""))))
