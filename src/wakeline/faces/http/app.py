"""The ASGI application: find the operation, authenticate, parse, call one service method, answer.

The same application serves TCP and the Unix socket; the connection says which one a request came in on.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any, Protocol

from wakeline import wire
from wakeline.errors import Forbidden, Internal, Unauthorized, WakelineError
from wakeline.faces.http import openapi, stream
from wakeline.faces.http.answers import Send, encode, error_body, error_headers, error_wire, json_headers, send_bytes
from wakeline.faces.http.connection import Connection
from wakeline.faces.http.parsing import ClientGone, Receive, parse_query, read_body
from wakeline.faces.http.routing import Router, perform
from wakeline.faces.http.telemetry import Telemetry
from wakeline.service import Caller, Services

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
_request_id = re.compile(rb"[0-9A-Za-z._-]{1,64}")
_BODY_OVERHEAD = 65_536


def request_limit(body_limit: int) -> int:
    """JSON may spend six bytes on one of the body's."""
    return body_limit * 6 + _BODY_OVERHEAD


class Mounted(Protocol):
    """Another protocol at a path of ours.  It is handed requests whose caller is known."""

    async def serve(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer, and say with which status."""


class Application:
    def __init__(
        self,
        services: Services,
        telemetry: Telemetry,
        *,
        body_limit: int,
        clock: Callable[[], datetime],
        new_request_id: Callable[[], str],
        metrics_public: bool = False,
        mounts: Mapping[str, Mounted] | None = None,
    ) -> None:
        self._services = services
        self._telemetry = telemetry
        self._clock = clock
        self._new_request_id = new_request_id
        self._metrics_public = metrics_public
        self._request_limit = request_limit(body_limit)
        self._router = Router()
        self._open: dict[str, Callable[[], Awaitable[tuple[int, bytes]]]] = {
            "/healthz": self._health,
            "/readyz": self._ready,
            "/openapi.json": self._openapi,
        }
        self._doors = {"/metrics": self._metrics, "/v1/events": self._events, "/v1/wakes": self._wakes}
        self._mounts = dict(mounts or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _request_id.fullmatch(given) else self._new_request_id()
        began = time.perf_counter()
        status = 500
        try:
            status = await self._serve(scope, headers, receive, send, request_id)
        except (ClientGone, asyncio.CancelledError):
            if not _is_gone(scope):
                raise
            status = 499
        except WakelineError as error:
            status = error.status
            self._telemetry.refused(error)
            await self._fail(send, error, request_id)
        except Exception:  # noqa: BLE001 - the one place where a bug becomes an answer
            _log.exception("request %s failed", request_id)
            await self._fail(send, Internal("INTERNAL", "Something broke that should not."), request_id)
        finally:
            self._telemetry.served(scope.get("operation", "unknown"), status, time.perf_counter() - began)

    def refuse(self, error: WakelineError) -> bytes:
        """The answer to what never became a request."""
        self._telemetry.refused(error)
        return error_wire(error, self._new_request_id(), self._clock())

    async def _fail(self, send: Send, error: WakelineError, request_id: str) -> None:
        body = error_body(error, request_id, self._clock())
        await send_bytes(send, error.status, body, error_headers(error, request_id))

    async def _serve(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, request_id: str
    ) -> int:
        method, path = scope["method"], scope["path"]
        route = self._router.exact.get((method, path))
        parameters: dict[str, str] = {}
        if route is None:
            if method == "GET" and path in self._open:
                scope["operation"] = path
                status, body = await self._open[path]()
                await send_bytes(send, status, body, json_headers(request_id))
                return status
            if method == "GET" and path in self._doors:
                return await self._doors[path](scope, headers, send, request_id)
            if path in self._mounts:
                scope["operation"] = path
                return await self._mounts[path].serve(await self._authenticate(scope, headers), scope, receive, send)
            also = ("GET",) if path in self._open or path in self._doors else ()
            route, parameters = self._router.find(method, path, also)
        operation = route.operation
        scope["operation"] = operation.name
        caller = await self._authenticate(scope, headers, bridge=operation.bridge)
        content = b"" if operation.body is None else await read_body(receive, self._request_limit)
        call = route.parse(self._services, caller, parameters, scope["query_string"], content)
        if getattr(call.body or call.query, "wait_seconds", 0) > 0:
            _stop_when_gone(scope)
        answer = await perform(operation, call)
        status = operation.status_of(answer)
        await send_bytes(send, status, encode(answer), json_headers(request_id))
        return status

    # -- who calls ----------------------------------------------------------------------------------------------------

    async def _authenticate(self, scope: Scope, headers: dict[bytes, bytes], *, bridge: bool = False) -> Caller:
        """Who calls.  A bridge's token opens what is meant for `bridge`s, and nothing else at all."""
        identity = self._services.identity
        credentials = headers.get(b"authorization")
        connection: Connection | None = scope.get("wakeline")
        workspace = headers.get(b"wakeline-workspace", b"").decode("latin-1")
        if credentials is None:
            if connection is not None and connection.trusted:
                return await identity.operator(workspace or None)
            self._telemetry.unauthenticated()
            raise Unauthorized("TOKEN_MISSING", "This call carries no token.")
        try:
            caller = await identity.verify(_bearer(credentials))
        except Unauthorized:
            self._telemetry.unauthenticated()
            raise
        error = _wrong_workspace(caller) if workspace and workspace != caller.workspace else None
        if caller.host is not None and not bridge:
            error = _out_of_scope(caller)
        if error is not None:
            await self._services.audit.refused(caller, error)
            raise error
        return caller

    # -- what is not an operation -------------------------------------------------------------------------------------

    async def _health(self) -> tuple[int, bytes]:
        return 200, encode(self._services.operations.health())

    async def _ready(self) -> tuple[int, bytes]:
        ready = await self._services.operations.ready()
        return (200 if ready.ready else 503), encode(ready)

    async def _openapi(self) -> tuple[int, bytes]:
        return 200, openapi.document_bytes()

    async def _metrics(self, scope: Scope, headers: dict[bytes, bytes], send: Send, request_id: str) -> int:
        scope["operation"] = "metrics"
        if not (self._metrics_public or _is_loopback(scope, headers)):
            await self._authenticate(scope, headers)
        body = self._telemetry.render(len(self._services.hub.streams))
        kind = (b"content-type", self._telemetry.content_type.encode())
        await send_bytes(send, 200, body, [kind, (b"x-request-id", request_id.encode())])
        return 200

    async def _events(self, scope: Scope, headers: dict[bytes, bytes], send: Send, request_id: str) -> int:
        scope["operation"] = "events"
        caller = await self._authenticate(scope, headers, bridge=True)
        query = parse_query(wire.EventsQuery, scope["query_string"])
        last = headers.get(b"last-event-id")
        after = query.after if last is None else last.decode("latin-1")
        if query.after is not None:
            self._services.logs.check(query.after)  # also where the header wins
        await stream.serve(self._services, caller, after, _connection(scope), send, request_id)
        return 200

    async def _wakes(self, scope: Scope, headers: dict[bytes, bytes], send: Send, request_id: str) -> int:
        scope["operation"] = "wakes"
        caller = await self._authenticate(scope, headers)
        query = parse_query(wire.WakesQuery, scope["query_string"])
        await stream.serve_wakes(self._services, caller, query, _connection(scope), send, request_id)
        return 200


def _connection(scope: Scope) -> Connection:
    return scope.get("wakeline") or Connection(lambda: None, None, trusted=False)


def _bearer(credentials: bytes) -> str:
    scheme, _, token = credentials.partition(b" ")
    if scheme.lower() != b"bearer" or not token:
        raise Unauthorized("TOKEN_INVALID", "The Authorization header is not 'Bearer <token>'.")
    try:
        return token.strip().decode("ascii")
    except UnicodeDecodeError as error:
        raise Unauthorized("TOKEN_INVALID", "The token is not one of ours.") from error


def _stop_when_gone(scope: Scope) -> None:
    """Nobody waits for a reply on behalf of a caller who has hung up.  What was posted stays posted."""
    connection: Connection | None = scope.get("wakeline")
    task = asyncio.current_task()
    if connection is not None and task is not None:
        connection.on_close = task.cancel


def _wrong_workspace(caller: Caller) -> WakelineError:
    return Forbidden("WORKSPACE_MISMATCH", f"This token belongs to the workspace {caller.workspace}.", rule="workspace")


def _out_of_scope(caller: Caller) -> WakelineError:
    return Forbidden(
        "BRIDGE_SCOPE", f"This token is for the bridge of the host {caller.host} only.", rule="bridge_scope"
    )


def _is_gone(scope: Scope) -> bool:
    connection: Connection | None = scope.get("wakeline")
    return connection is None or connection.closed


def _is_loopback(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    if b"x-forwarded-for" in headers or b"forwarded" in headers:
        return False  # a proxy on this machine speaks for somebody elsewhere
    connection: Connection | None = scope.get("wakeline")
    if connection is not None and connection.trusted:
        return True
    client = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False
