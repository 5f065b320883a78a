"""The MCP server that both transports run: it lists the tools, calls them, shows the inbox, and keeps subscriptions.

It holds no state of its own.  `Face` says for each request through which backend, that is as whom, it is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

import mcp_types as types
import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from wakeline.calls import Call
from wakeline.errors import Internal, InvalidArgument, WakelineError
from wakeline.faces.mcp import events, listening, resource, results, schemas, sessions
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.sdk import connection_of, is_handshake
from wakeline.faces.mcp.tools import BY_NAME, Tool
from wakeline.version import VERSION

_log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

# A tool that is not in the list: a harness's own hooks call it, and the model does not know of it.
Unlisted = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Face(Protocol):
    """What the two transports know, and the server does not."""

    def backend(self, ctx: Context) -> Backend:
        """The way to the services for whoever sent this request."""

    def post(self, ctx: Context, tool: Tool, asked: Callable[[], Call]) -> Awaitable[Any]:
        """Send what writes into a thread, in the name of the session that it comes from if that is known.

        `asked` says what, or refuses the arguments.
        """

    def spawn(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run beside the requests; answers how to stop it."""

    def line(self, session_id: str | None) -> sessions.Line:
        """What leads to a session's client outside of any request."""


class Wakeline:
    """The handlers of every request."""

    def __init__(self, face: Face, *, channel: bool = False, unlisted: Mapping[str, Unlisted] | None = None) -> None:
        self._face = face
        self._channel = channel
        self._unlisted = unlisted or {}
        self._tools = types.ListToolsResult.model_validate({"tools": schemas.listed()})

    async def list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        return self._tools

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        tool = BY_NAME.get(params.name)
        if tool is None and params.name in self._unlisted:
            return results.plain(await self._unlisted[params.name](params.arguments or {}))
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:80]!r}.")
        try:
            asked = partial(_asked, tool, params.arguments or {})
            answer = self._face.post(ctx, tool, asked) if tool.posts else self._face.backend(ctx).send(asked())
            return results.success(tool, await answer)
        except WakelineError as error:
            return results.failure(error)
        except Exception:  # noqa: BLE001 - as in the HTTP face: the one place where a bug becomes an answer
            _log.exception("the tool %s failed", tool.name)
            return results.failure(Internal("INTERNAL", "Something broke that should not."))

    async def list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        return resource.listed()

    async def list_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != resource.URI:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": str(params.uri)})
        try:
            return await resource.read(self._face.backend(ctx))
        except WakelineError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code, "hint": error.hint}) from error

    # -- the handshake era --------------------------------------------------------------------------------------------

    async def initialized(self, ctx: Context, params: object) -> None:
        connection = connection_of(ctx)
        if not is_handshake(connection) or sessions.find(connection) is not None:
            return
        line = self._face.line(connection.session_id)
        session = sessions.Session(connection, line, channel=self._channel)
        sessions.keep(connection, session)
        line.watch(session.ear.changed)
        connection.exit_stack.callback(line.forget)
        connection.exit_stack.callback(self._face.spawn(session.serve(self._face.backend(ctx))))

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        listening.refuse_others([str(params.uri)])
        self._session(ctx).subscribe(wanted=True)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        if str(params.uri) == resource.URI:  # to anything else nobody is subscribed
            self._session(ctx).subscribe(wanted=False)
        return types.EmptyResult()

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._session(ctx).set_level(params.level)
        return types.EmptyResult()

    def _session(self, ctx: Context) -> sessions.Session:
        found = sessions.find(connection_of(ctx))
        if found is None:
            raise MCPError(types.INVALID_REQUEST, "Send notifications/initialized first.")
        return found

    # -- the stateless era --------------------------------------------------------------------------------------------

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await listening.listen(ctx, params, self._face.backend(ctx))


class Advertise:
    """The SDK's own list of capabilities has no room for what is experimental, so it is added on the way out.

    It also promises news of changed lists to whoever may listen; ours do not change while a server runs.
    """

    def __init__(self, *, events_too: bool, channel: bool) -> None:
        self._experimental = {**sessions.OFFERED, **({sessions.CHANNEL: {}} if channel else {})}
        self._drafts = events.CAPABILITIES if events_too else {}

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            capabilities = result.setdefault("capabilities", {})
            capabilities["experimental"] = {**capabilities.get("experimental", {}), **self._experimental}
            for name, drafts in self._drafts.items() if ctx.method == "server/discover" else ():
                capabilities[name] = {**capabilities.get(name, {}), **drafts}
            for lists in capabilities.keys() & {"tools", "prompts", "resources"}:
                capabilities[lists]["listChanged"] = False
        return result


def build(
    face: Face, *, events_too: bool = False, channel: bool = False, unlisted: Mapping[str, Unlisted] | None = None
) -> Server[None]:
    """`events_too`: the draft MCP Events.  `channel`: hints go out as Claude Code's channels take them."""
    ours = Wakeline(face, channel=channel, unlisted=unlisted)
    server: Server[None] = Server(
        "wakeline",
        version=VERSION,
        instructions=schemas.INSTRUCTIONS,
        lifespan=_lifespan,
        get_tool_input_schema=_nothing_to_validate,
    )
    handle = server.add_request_handler
    handle("tools/list", types.PaginatedRequestParams, ours.list_tools)
    handle("tools/call", types.CallToolRequestParams, ours.call_tool)
    handle("resources/list", types.PaginatedRequestParams, ours.list_resources)
    handle("resources/templates/list", types.PaginatedRequestParams, ours.list_templates)
    handle("resources/read", types.ReadResourceRequestParams, ours.read_resource)
    handle("resources/subscribe", types.SubscribeRequestParams, ours.subscribe)
    handle("resources/unsubscribe", types.UnsubscribeRequestParams, ours.unsubscribe)
    handle("subscriptions/listen", types.SubscriptionsListenRequestParams, ours.listen)
    # Deprecated with the handshake era, and the only push that its clients show: it stays until they are gone.
    handle("logging/setLevel", types.SetLevelRequestParams, ours.set_level)
    server.add_notification_handler("notifications/initialized", types.NotificationParams, ours.initialized)
    if events_too:
        events.register(server, face.backend)
    server.middleware[:] = [
        Advertise(events_too=events_too, channel=channel)
    ]  # without the SDK's tracing, which nobody here exports
    return server


def _nothing_to_validate(_name: str) -> None:
    """No tool of ours takes arguments from headers.  Looking for them cost a fifth of a call."""


def _asked(tool: Tool, given: dict[str, Any]) -> Call:
    try:
        taken = msgspec.convert(given, tool.takes)
    except msgspec.ValidationError as error:
        hint = f"The input schema of {tool.name} says what it takes."
        raise InvalidArgument("INVALID_ARGUMENT", f"The arguments are not as described: {error}.", hint) from error
    return tool.call(taken)


@asynccontextmanager
async def _lifespan(_: Server[None]) -> Any:
    yield None
