"""The stand-in itself: a small HTTP server in threads, so that tests with and without an event loop can use it.

A **script** is a list of replies that a word starts.  The request whose news hold the word gets the first reply, and
the session's next requests get the others; after that, and for everything that no script speaks about, there is the
default.  What harnesses ask beside their turns (titles, summaries) never uses up a script.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from wakeline.testing.model.chat import Chat
from wakeline.testing.model.dialect import Dialect
from wakeline.testing.model.messages import Messages
from wakeline.testing.model.replies import Fail, Reply, Say
from wakeline.testing.model.request import Request
from wakeline.testing.model.responses import Responses
from wakeline.testing.model.tools import NoSuchTool, choose

WAIT_SECONDS = 30.0
DIALECTS: dict[str, Dialect] = {
    "/v1/messages": Messages(),
    "/v1/responses": Responses(),
    "/v1/chat/completions": Chat(),
}
TITLE = Say("A title")
Line = Reply | Callable[[Request], Reply]


class ModelTimeout(AssertionError):
    """No such request came in time."""


class ModelServer:
    def __init__(self, default: Line | None = None) -> None:
        self.default: Line = default or Say()
        self.closing = threading.Event()
        self._requests: list[Request] = []
        self._scripts: list[tuple[str, deque[Line]]] = []
        self._running: dict[str | None, deque[Line]] = {}
        self._changed = threading.Condition()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.model = self

    @property
    def url(self) -> str:
        """Without a path: Anthropic's clients add `/v1` themselves, the others want it in their address."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what it answers ----------------------------------------------------------------------------------------------

    def script(self, word: str, *lines: Line) -> None:
        """Answer the next request whose news hold `word` with the first of `lines`, its successors with the rest.

        A line that depends on what was asked is a function: `lambda request: Say(request.news[:10])`.
        """
        with self._changed:
            self._scripts.append((word, deque(lines)))

    def forget(self, word: str) -> None:
        """Take back the scripts for `word` that nothing has begun."""
        with self._changed:
            self._scripts = [script for script in self._scripts if script[0] != word]

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[Request, Reply]:
        """Keep a request that came in, and say what its answer is."""
        dialect = DIALECTS[path]
        with self._changed:
            number, at = len(self._requests) + 1, time.monotonic()
            parts, tools = tuple(dialect.parts(body)), tuple(dialect.tools(body))
            request = Request(number, at, path, headers, body, parts, tools)
            self._requests.append(request)
            reply = self._reply(request) if request.is_turn else TITLE
            self._changed.notify_all()
        return request, reply

    def _reply(self, request: Request) -> Reply:
        for script in self._scripts:
            word, lines = script
            if word in request.news:
                self._scripts.remove(script)
                self._running[request.session] = lines
                break
        remaining = self._running.get(request.session)
        line = remaining.popleft() if remaining else self.default
        return line if isinstance(line, Reply) else line(request)

    # -- what it was asked --------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        with self._changed:
            return list(self._requests)

    def turns(self, text: str = "", *, session: str | None = None) -> list[Request]:
        """The requests of turns whose news hold `text`, of one session or of all."""
        return [one for one in self.requests if _concerns(one, text, session)]

    def wait(self, text: str, *, session: str | None = None, after: int = 0, timeout: float = WAIT_SECONDS) -> Request:
        """The first request of a turn, after request number `after`, whose news hold `text`."""
        return self.wait_until(lambda one: one.number > after and _concerns(one, text, session), timeout)

    def wait_until(self, wanted: Callable[[Request], bool], timeout: float = WAIT_SECONDS) -> Request:
        found: list[Request] = []

        def look() -> bool:
            found.extend(one for one in self._requests if wanted(one))
            return bool(found)

        with self._changed:
            if not self._changed.wait_for(look, timeout):
                raise ModelTimeout(f"no such request within {timeout} s; there were {len(self._requests)}")
        return found[0]


def _concerns(request: Request, text: str, session: str | None) -> bool:
    return request.is_turn and text in request.news and session in (None, request.session)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, *_: Any) -> None:
        """Harnesses hang up as they please: that is no error here, and what a test waits for tells of any other."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self._answer(200, {"input_tokens": 10})
        elif path in DIALECTS:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._converse(DIALECTS[path], *self.server.model.take(path, headers, json.loads(content)))
        else:
            self._answer(404, {"error": {"type": "not_found_error", "message": path}})

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/v1/models":
            self._answer(200, {"object": "list", "data": []})
        else:
            self._answer(404, {"error": {"type": "not_found_error", "message": self.path}})

    def do_HEAD(self) -> None:
        self._answer(200, None)

    def end_headers(self) -> None:
        if self.close_connection:
            self.send_header("connection", "close")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """What came in is kept by the model; nothing is printed."""

    def _converse(self, dialect: Dialect, request: Request, reply: Reply) -> None:
        try:
            if isinstance(reply, Fail):
                self._answer(reply.status, dialect.failure(reply.message))
            elif request.body.get("stream"):
                self._stream(dialect, request, reply)
            else:
                self._answer(200, dialect.whole(request, reply.text if isinstance(reply, Say) else ""))
        except OSError:
            request.cut = True
            self.close_connection = True
        finally:
            request.answered.set()

    def _stream(self, dialect: Dialect, request: Request, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in self._events(dialect, request, reply):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, dialect: Dialect, request: Request, reply: Reply) -> Any:
        if isinstance(reply, Fail):
            raise TypeError("a failure is not streamed")
        if isinstance(reply, Say):
            return dialect.speak(request, reply.pieces(self.server.model.closing))
        try:
            tool, arguments = choose(reply, request)
        except NoSuchTool as error:
            return dialect.speak(request, [f"There is no tool {error}."])
        return dialect.call(request, tool, arguments)

    def _answer(self, status: int, document: Any) -> None:
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
