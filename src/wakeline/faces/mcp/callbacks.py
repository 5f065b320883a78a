"""`events/subscribe` and `events/unsubscribe` of the draft MCP Events: delivery of events to a URL.

A callback is a wake subscription of the caller's (`service/callbacks.py`).  Only `/mcp` offers it: there our own
application has said who is calling.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import UNSET
from pydantic import BaseModel

from wakeline import wire
from wakeline.errors import Forbidden, InvalidArgument, NotFound, RateLimited, Unauthorized, WakelineError
from wakeline.faces.mcp.backend import Backend, InProcess

NOT_FOUND, FORBIDDEN, EXHAUSTED, UNSUPPORTED, CALLBACK = -32011, -32012, -32013, -32014, -32015
MODE = "webhook"


class Place(BaseModel):
    url: str
    mode: str = MODE
    secret: str = ""


class CallbackParams(types.RequestParams):
    name: str
    delivery: Place
    arguments: dict[str, Any] | None = None
    cursor: str | None = None
    ttl_ms: int | None = None
    max_age_ms: int | None = None


async def subscribe(params: CallbackParams, backend: Backend) -> dict[str, Any]:
    place, here = params.delivery, in_process(backend)
    if place.mode != MODE:
        raise MCPError(
            UNSUPPORTED, "Only webhooks are subscribed to.", {"feature": "deliveryMode", "value": place.mode[:80]}
        )
    request = wire.SubscribeEvents(
        url=place.url,
        secret=place.secret,
        cursor=params.cursor,
        ttl_ms=params.ttl_ms if "ttl_ms" in params.model_fields_set else UNSET,
        max_age_ms=params.max_age_ms,
    )
    try:
        answer: dict[str, Any] = msgspec.to_builtins(await here.services.callbacks.subscribe(here.caller, request))
    except WakelineError as error:
        raise refusal(error) from error
    return answer


async def unsubscribe(params: CallbackParams, backend: Backend) -> dict[str, Any]:
    here = in_process(backend)
    try:
        await here.services.callbacks.unsubscribe(here.caller, params.delivery.url)
    except WakelineError as error:
        raise refusal(error) from error
    return {}


def in_process(backend: Backend) -> InProcess:
    if not isinstance(backend, InProcess):
        raise MCPError(UNSUPPORTED, "Webhooks are subscribed to at /mcp.", {"feature": "deliveryMode", "value": MODE})
    return backend


def refusal(error: WakelineError) -> MCPError:
    """In the draft's numbers; what our own catalogue says goes along."""
    said = {"code": error.code, "hint": error.hint}
    match error:
        case _ if error.code == "TOO_MANY_SUBSCRIPTIONS":
            return MCPError(EXHAUSTED, error.message, {"limit": "subscriptions", "max": error.details["limit"], **said})
        case RateLimited():
            return MCPError(EXHAUSTED, error.message, {"limit": "calls", **error.details, **said})
        case _ if error.code == "CALLBACK_UNVERIFIED":
            return MCPError(CALLBACK, error.message, {"reason": error.details["reason"]})
        case _ if error.code == "WEBHOOK_URL_REFUSED" or isinstance(error, InvalidArgument):
            return MCPError(types.INVALID_PARAMS, error.message, said)
        case NotFound():
            return MCPError(NOT_FOUND, error.message, {"kind": "subscription", **said})
        case Forbidden() | Unauthorized():
            return MCPError(FORBIDDEN, error.message, said)
        case _:
            return MCPError(types.INTERNAL_ERROR, error.message, said)
