"""An app server that answers badly when it is told to: what the real one does only when it dies at the wrong moment."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import WSMsgType, web

from wakeline.adapters.codex.server import SOCKET

THREAD = "01a1e48d-e36a-7fc3-8158-a59b90fec04e"


class StandIn:
    def __init__(self, home: Path) -> None:
        self._link = home / SOCKET  # to a short path, as the real one has it: sockets cannot have long ones
        self._folder = Path(tempfile.mkdtemp(prefix="wl-"))
        self.queue: list[dict[str, str]] = []
        self.turns: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {"type": "idle"}
        self.asked: list[str] = []
        self.cut_after = ""  # do what this method asks for, and hang up before the answer
        self.silent_on = ""  # do not answer this method
        self.refuse = ""  # say no to this method

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/", self._serve)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        self._link.parent.mkdir(parents=True, exist_ok=True)
        self._link.symlink_to(self._folder / "socket")
        await web.UnixSite(self._runner, str(self._folder / "socket")).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        shutil.rmtree(self._folder)

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                continue
            frame = json.loads(message.data)
            if "id" not in frame:
                continue
            self.asked.append(frame["method"])
            answer = self._answer(frame["method"], frame["params"])
            if frame["method"] == self.cut_after:
                break
            if frame["method"] != self.silent_on:
                await socket.send_str(json.dumps({"id": frame["id"], **answer}))
        return socket

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == self.refuse:
            return {"error": {"code": -32600, "message": "not now"}}
        match method:
            case "initialize":
                return {"result": {"userAgent": "codex-tui/0.166.0 (somewhere)"}}
            case "thread/read":
                return {"result": {"thread": {"id": THREAD, "status": self.status, "cwd": "/"}}}
            case "thread/queue/list":
                return {"result": {"data": self.queue}}
            case "thread/turns/list":
                return {"result": {"data": self.turns}}
            case "thread/queue/delete":
                self.queue = [one for one in self.queue if one["id"] != params["queuedSubmissionId"]]
                return {"result": {"deleted": True}}
            case "thread/queue/add":
                added = {"id": f"q{len(self.queue)}", "clientUserMessageId": params["clientUserMessageId"]}
                self.queue.append(added)
                return {"result": {"queuedSubmission": added}}
            case _:
                return {"error": {"code": -32601, "message": f"no such method: {method}"}}
