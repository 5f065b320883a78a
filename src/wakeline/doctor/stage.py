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
from wakeline.testing.installed import Installed
from wakeline.testing.model import ModelServer, Reply, Request, Say, Use
from wakeline.testing.model.tools import offers
from wakeline.testing.server import ServerProcess
from wakeline.testing.worlds import HarnessSession, make_world

AGENT, SENDER = "@probed", "@prober"
MARK = "[wl-"  # how the id begins that every doorbell carries
REGISTER_SECONDS = 60.0
LOOK_SECONDS = 0.1
AGAIN_SECONDS = 1.0
_MESSAGE = re.compile(r'"message_id":\s*"([0-9A-Za-z]+)"')

Row = dict[str, Any]


class Unproven(Exception):
    """What a level asks for did not happen: the text says what."""


class Stage:
    def __init__(self, installed: Installed, folder: Path) -> None:
        self.installed = installed
        self.model = ModelServer()
        self.world = make_world(installed, folder, self.model)
        homes = {name: value for name, value in self.world.environ.items() if name not in ("PATH", "TMPDIR")}
        self.server = ServerProcess(folder / "data", environ=homes, coalesce_seconds=0, wake_budget_per_hour=10_000)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self.model)
            opening.enter_context(self.world)
            opening.enter_context(self.server)  # it lives in the world's home, so it goes first
            self._sender = self.server.add_agent(SENDER)
            self.server.add_agent(AGENT)
            self._connect()
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
        session = self.world.open()
        spoken = self._greet(session)
        row = self.wait(lambda: self.idle(session.native_id), REGISTER_SECONDS, "the session does not appear as idle")
        return session, spoken, row

    def _greet(self, session: HarnessSession) -> Request:
        """Speak until the model is offered our tools: a harness starts servers of tools beside its first turns."""
        until = time.monotonic() + REGISTER_SECONDS
        while not offers(spoken := session.prompt(f"hello {len(self.model.requests)}"), "read_messages"):
            if time.monotonic() > until:
                raise Unproven("the session was never offered our tools")
            spoken.answered.wait(REGISTER_SECONDS)
            time.sleep(AGAIN_SECONDS)
        return spoken

    def idle(self, native_id: str) -> Row | None:
        row = self.row(native_id)
        return row if row is not None and row["presence"] == "idle" else None

    def row(self, native_id: str) -> Row | None:
        rows = self.call("GET", f"/v1/sessions?handle={AGENT}&ended=true")["sessions"]
        return next((row for row in rows if row["native_id"] == native_id), None)

    def trust(self, row: Row) -> None:
        """Route to such sessions as if everything were proven: that is what is to be found out."""
        verdicts = [{"level": level, "result": "pass"} for level in NAMES]
        way = {"harness": row["harness"], "transport": row["transport"], "version": row["harness_version"]}
        self.call("POST", "/v1/proofs", {**way, "verdicts": verdicts})

    # -- mail ---------------------------------------------------------------------------------------------------------

    def post(self, row: Row, body: str) -> str:
        """Write to one session; the id of the message."""
        said = {"to": [f"{AGENT}/{row['session_id']}"], "body": body, "subject": "a probe"}
        posted: str = self.call("POST", "/v1/messages", said, token=self._sender)["message_id"]
        return posted

    def replies(self) -> list[str]:
        inbox = self.call("GET", "/v1/inbox", token=self._sender)
        return [message["body"] for message in inbox["messages"]]

    def deliveries(self) -> list[Row]:
        """Newest first, each with its steps."""
        listed = self.call("GET", f"/v1/deliveries?handle={AGENT}")["deliveries"]
        return [self.call("GET", f"/v1/deliveries/{one['delivery_id']}") for one in listed]

    def attend(self, *, replying: bool = False) -> None:
        """Have the model do what the next doorbell asks for: fetch, perhaps answer, say that all were read."""
        fetched: list[str] = []

        def answer(_: Request) -> Reply:
            first = next(iter(fetched), "nothing")
            return Use("post_message", {"body": f"re {first}", "in_reply_to": first})

        def acknowledge(request: Request) -> Reply:
            fetched[:] = message_ids(request)
            return Use("ack_read", {"message_ids": fetched})

        answers = (answer,) if replying else ()
        self.model.script(MARK, Use("read_messages"), acknowledge, *answers, Say("That is done."))

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

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        answer = self.server.call(method, path, body, **options)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise Unproven(f"{method} {path}: {answer.body.decode()[:300]}")
        return answer.json()


def message_ids(request: Request) -> list[str]:
    """The messages that a tool's result in this request shows."""
    return list(dict.fromkeys(_MESSAGE.findall(request.news.replace("\\", ""))))
