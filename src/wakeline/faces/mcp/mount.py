"""`/mcp`: Streamable HTTP inside our own application, which has already said who is calling.

The SDK is imported when somebody first speaks MCP, in a thread: it takes a second, and most servers start without it.

- A session belongs to the principal that opened it; the SDK compares its own kind of user, so it is given one.
- `Last-Event-ID` is taken away: there is nothing to replay (the inbox is), and the SDK fails on it.
- Plain calls are answered as JSON.  Modern calls that may wait take the SDK's other way, which notices when the caller
  hangs up and shows signs of life; only their headers tell.
- A session can be told something outside of a request only while its client has a GET stream open: `_Line`.
- Whoever does not read what we write loses the connection, after `SLOW_SECONDS`.
- A session lives in one process.  On another node its id is unknown (404), and the client opens a new one there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeline.calls import Call
from wakeline.errors import Unavailable
from wakeline.faces.http.answers import Send, send_bytes
from wakeline.faces.http.connection import Connection
from wakeline.faces.http.parsing import Receive
from wakeline.faces.http.routing import Router
from wakeline.faces.mcp.acting import Acting, names_session
from wakeline.faces.mcp.backend import InProcess
from wakeline.faces.mcp.tools import BY_NAME, Tool
from wakeline.service import Caller, Services

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from wakeline.faces.mcp.server import Context

Scope = MutableMapping[str, Any]
Prepare = Callable[["Server[None]"], None]

SLOW_SECONDS = 5.0
BACKEND = "wakeline.backend"
_SLOW_METHODS = frozenset({b"events/poll", b"events/stream", b"events/subscribe"})
_SLOW_CALLS = frozenset(name.encode() for name, tool in BY_NAME.items() if tool.slow)


class Options(NamedTuple):
    request_limit: int
    hosts: tuple[str, ...]
    prepare: Prepare | None
    plain: bool
    events_too: bool
    channel: bool


class Mount:
    """`prepare` and `plain`: a test registers what the conformance suite asks of a server.

    `channel`: only the handshake era is spoken.  A client that asks for the other one is refused in words that are not
    the protocol's, which is what makes Claude Code fall back; its channels live in the handshake era alone.
    """

    def __init__(
        self,
        services: Services,
        *,
        request_limit: int,
        hosts: tuple[str, ...] = (),
        prepare: Prepare | None = None,
        plain: bool = True,
        events_too: bool = False,
        channel: bool = False,
    ) -> None:
        self._services = services
        self._router = Router()
        self._options = Options(request_limit, hosts, prepare, plain, events_too, channel)
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[Managers] = asyncio.get_running_loop().create_future()
        self._group: asyncio.TaskGroup | None = None
        self._lines: dict[str, _Line] = {}

    async def run(self) -> None:
        """Wait until somebody speaks MCP, then keep its sessions until cancelled."""
        await self._wanted.wait()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            self._group = group
            managers = await asyncio.to_thread(Managers, self, self._options)
            await managers.start(stack)
            self._ready.set_result(managers)
            await asyncio.Event().wait()

    async def serve(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> int:
        if self._services.hub.closed:
            raise Unavailable("SHUTTING_DOWN", "The server is stopping.")
        if self._options.channel and _is_modern(dict(scope["headers"])):
            await send_bytes(
                send, 400, b"This path speaks the handshake era only.\n", [(b"content-type", b"text/plain")]
            )
            return 400
        self._wanted.set()
        managers = await asyncio.shield(self._ready)
        scope["user"] = managers.user(caller)
        scope[BACKEND] = InProcess(self._services, self._router, caller)
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"last-event-id"]
        answer = _Answer(send, scope.get("wakeline"), self._line_of(scope))
        await managers.choose(scope).asgi_app(scope, receive, answer.send)
        return answer.status

    # -- what the server asks of its transport ------------------------------------------------------------------------

    def backend(self, ctx: Context) -> InProcess:
        request: Any = ctx.request
        backend: InProcess = request.scope[BACKEND]
        return backend

    def post(self, ctx: Context, tool: Tool, asked: Callable[[], Call]) -> Awaitable[Any]:
        backend = self.backend(ctx)
        if names_session(ctx.meta):
            return Acting().post(asked(), ctx.meta, backend)
        if tool.slow or backend.caller.is_human:  # who waits for a reply, or reaches those who are in a thread
            return backend.send(asked())
        return backend.post(asked)

    def spawn(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        assert self._group is not None  # noqa: S101 - nothing is served before `run` has made it
        return self._group.create_task(work).cancel

    def line(self, session_id: str | None) -> _Line:
        line = _Line(self, self._ready.result(), session_id or "")
        self._lines[line.session_id] = line
        return line

    def forget(self, line: _Line) -> None:
        self._lines.pop(line.session_id, None)

    def _line_of(self, scope: Scope) -> _Line | None:
        """Which this request would open."""
        if scope["method"] != "GET":
            return None
        return self._lines.get(dict(scope["headers"]).get(b"mcp-session-id", b"").decode("latin-1"))


class _Line:
    """The GET stream of a session's client: it may open, close and open again."""

    def __init__(self, mount: Mount, managers: Managers, session_id: str) -> None:
        self.session_id = session_id
        self._mount = mount
        self._managers = managers
        self._tell: Callable[[], None] | None = None

    def is_open(self) -> bool:
        return self._managers.has_stream(self.session_id)

    def watch(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def opened(self) -> None:
        if self._tell is not None:
            # A turn later: the SDK has begun to answer, and makes its stream in this same turn.
            asyncio.get_running_loop().call_soon(self._tell)

    def forget(self) -> None:
        self._mount.forget(self)

    async def end(self) -> None:
        # In a task of its own: the end of the session cancels who asked for it.
        self._mount.spawn(self._managers.end(self.session_id))


class Managers:
    """The SDK's two ways to answer, over one server: plain JSON, and streams for modern calls that may wait."""

    def __init__(self, mount: Mount, options: Options) -> None:
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser  # noqa: PLC0415 - see the module
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415 - see the module
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 - see the module
        from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - see the module

        from wakeline.faces.mcp import sdk, server  # noqa: PLC0415 - see the module

        self._user, self._token, self._sdk = AuthenticatedUser, AccessToken, sdk
        built = server.build(mount, events_too=options.events_too, channel=options.channel)
        if options.prepare is not None:
            options.prepare(built)
        names = [f"{host}{port}" for host in options.hosts for port in ("", ":*")]
        origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=bool(options.hosts), allowed_hosts=names, allowed_origins=origins
        )

        def manager(*, plain: bool) -> StreamableHTTPSessionManager:
            return StreamableHTTPSessionManager(
                built, json_response=plain, security_settings=security, max_request_body_size=options.request_limit
            )

        self._plain = manager(plain=options.plain)
        self._streaming = manager(plain=False)

    async def start(self, stack: AsyncExitStack) -> None:
        for manager in (self._plain, self._streaming):
            await stack.enter_async_context(manager.run())

    def user(self, caller: Caller) -> Any:
        """Who owns a session: the principal, whichever of its tokens it shows."""
        return self._user(self._token(token="", client_id=f"{caller.workspace}/{caller.handle}", scopes=[]))

    def choose(self, scope: Scope) -> StreamableHTTPSessionManager:
        headers = dict(scope["headers"])
        slow = headers.get(b"mcp-name") in _SLOW_CALLS or headers.get(b"mcp-method") in _SLOW_METHODS
        return self._streaming if slow and _is_modern(headers) else self._plain

    def has_stream(self, session_id: str) -> bool:
        return self._sdk.has_stream(self._plain, session_id)

    async def end(self, session_id: str) -> None:
        await self._sdk.end_session(self._plain, session_id)


def _is_modern(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"mcp-protocol-version", b"") >= b"2026"


class _Answer:
    """Remembers the status, and does not wait for ever for a client that does not read."""

    def __init__(self, send: Send, connection: Connection | None, line: _Line | None) -> None:
        self.status = 500
        self._send = send
        self._connection = connection
        self._line = line

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._line is not None and self.status == HTTPStatus.OK:
                self._line.opened()
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await self._send(message)
        except TimeoutError:  # not raised: the SDK hears of the lost connection as of any other, and ends in order
            if self._connection is not None:
                self._connection.abort()
