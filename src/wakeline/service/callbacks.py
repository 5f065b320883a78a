"""Callbacks of the draft MCP Events: URLs that are called with each event that their owner asked for.

Nobody is called who does not want it: before a callback is made, whoever answers at its URL must say a challenge back.
What a caller learns of an endpoint is a word out of a short list, so that nobody explores a network through us.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core.cursor import Cursor
from wakeline.core.destination import Network, check_private, check_url
from wakeline.core.instant import plus, to_datetime
from wakeline.core.log import Position
from wakeline.core.parcel import Absent, Accepted, Parcel, Result
from wakeline.core.principal import Caller
from wakeline.core.queries import WorkspaceById
from wakeline.core.signature import PREFIX, decode_key
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target, callback_id, callback_of, ends_at
from wakeline.core.subscription_queries import OneSubscription
from wakeline.core.wake_queries import CursorFor, WakeReplay
from wakeline.errors import Conflict, Gone, InvalidArgument, Unusable
from wakeline.flow.amend import Unsubscribe, unknown
from wakeline.flow.evidence import STREAM, consumer_of
from wakeline.flow.find import find_messages
from wakeline.flow.match import Found
from wakeline.flow.register import FillCallback, RegisterCallback, Registered
from wakeline.service.context import Context
from wakeline.service.log import Logs
from wakeline.service.subscriptions import Keys

SECRET_BYTES = range(24, 65)
LIFE = timedelta(days=1)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=30)
REPLAYED = 50  # of what came before the callback, the latest
PAGE = 2_000
CHALLENGE_FAILED = "challenge_failed"

_encode = msgspec.json.Encoder().encode
_MILLISECOND = timedelta(milliseconds=1)

# Why nobody answered, in the draft's words.
_UNREACHABLE = {
    "timeout": "timeout",
    "host_busy": "timeout",
    "tls": "tls_error",
    "network": "connection_refused",
    "name_unknown": "connection_refused",
    "address_refused": "connection_refused",
}
_ERRORS = {**_UNREACHABLE, "server_error": "http_5xx", "bad_answer": "http_5xx"}

Ask = Callable[[Parcel, str], Awaitable[Result]]  # whether whoever answers there says the challenge back


class Callbacks:
    def __init__(
        self,
        context: Context,
        keys: Keys,
        logs: Logs,
        ask: Ask,
        *,
        allowed: Sequence[Network],
        limit: int,
        budget: int,
        timeout: timedelta,
    ) -> None:
        self._context = context
        self._keys = keys
        self._logs = logs
        self._ask = ask
        self._allowed = allowed
        self._limit = limit
        self._budget = budget
        self._timeout = timeout

    async def subscribe(self, caller: Caller, request: wire.SubscribeEvents) -> wire.EventsSubscribed:
        """Make a callback, or renew it: the same caller and URL are the same callback."""
        check_private(check_url(request.url, self._allowed), self._allowed)
        secret = _secret(request.secret)
        after, lost = await self._position(caller, request.cursor)
        command = await self._command(caller, request, secret, after)
        # Before it is renewed: what is delivered again because of that would hide the error that is asked for.
        before = await self._cursor(caller, command.subscription_id)
        made = await self._context.store.submit(command)
        if made is None:
            await self._require_echo(command, secret)
            made = await self._context.store.submit(msgspec.structs.replace(command, verified=True))
        made, cut = await self._fill(_there(made, command.subscription_id), request.max_age_ms)
        return _answer(made, before, truncated=lost or cut)

    async def unsubscribe(self, caller: Caller, url: str) -> None:
        subscription_id = callback_id(caller.workspace_id, caller.handle, url)
        if await self._find(caller, subscription_id) is None:
            raise unknown(subscription_id)
        await self._context.store.submit(Unsubscribe(caller, subscription_id))

    async def _find(self, caller: Caller, subscription_id: str) -> Subscription | None:
        rows = await self._context.store.read(OneSubscription(caller.workspace_id, subscription_id))
        return rows[0] if rows else None

    async def _position(self, caller: Caller, cursor: str | None) -> tuple[int | None, bool]:
        """After which row of the log the client wants events, and whether some of them are not there any more."""
        if cursor is None:
            return None, False
        try:
            return (await self._logs.start(caller, cursor)).after, False
        except Gone:
            return None, True

    async def _command(
        self, caller: Caller, request: wire.SubscribeEvents, secret: bytes, after: int | None
    ) -> RegisterCallback:
        subscription_id = callback_id(caller.workspace_id, caller.handle, request.url)
        before = await self._find(caller, subscription_id)
        return RegisterCallback(
            caller=caller,
            subscription_id=subscription_id,
            url=request.url,
            sealed_key=self._keys.seal(secret),
            same_key=before is not None and self._opens(before.signing_key) == secret,
            overlap=self._keys.overlap,
            life=_life(request.ttl_ms),
            after=after,
            limit=self._limit,
            budget=self._budget,
        )

    def _opens(self, sealed: str | None) -> bytes | None:
        try:
            return None if sealed is None else self._keys.unseal(sealed)
        except Unusable:
            return None

    # -- asking the URL's owner ---------------------------------------------------------------------------------------

    async def _require_echo(self, command: RegisterCallback, secret: bytes) -> None:
        challenge = self._keys.make().hex()
        parcel = Parcel(
            delivery_id="",
            event_id=f"msg_verification_{self._context.new_id()}",
            subscription_id=command.subscription_id,
            attempt=1,
            target=Target.WEBHOOK,
            url=command.url,
            body=_encode({"type": "verification", "challenge": challenge}),
            keys=(secret,),
            timeout=self._timeout,
            callback=True,
        )
        result = await self._ask(parcel, challenge)
        if isinstance(result, Accepted):
            return
        reason = CHALLENGE_FAILED if isinstance(result, Absent) else _UNREACHABLE.get(result.reason, CHALLENGE_FAILED)
        raise Conflict("CALLBACK_UNVERIFIED", f"The endpoint did not confirm the callback: {reason}.", reason=reason)

    # -- what came before ---------------------------------------------------------------------------------------------

    async def _fill(self, made: Registered, max_age_ms: int | None) -> tuple[Registered, bool]:
        """Queue it, and say whether there was too much, or too old a part, of it, or some was pruned meanwhile."""
        row = made.subscription
        callback = callback_of(row)
        if callback is None or callback.replay_after is None:
            return made, False
        now = await self._context.store.now()
        floor = 0 if max_age_ms is None else plus(now, -_span(max_age_ms))
        kept, number = deque[Found](maxlen=REPLAYED), 0
        async for found in self._missed(row, callback.replay_after, now):
            number += 1
            if found is not None and found.occurred_at >= floor:
                kept.append(found)
        filled = await self._context.store.submit(FillCallback(row.workspace_id, row.subscription_id, tuple(kept)))
        again = msgspec.structs.replace(_there(filled, row.subscription_id), was=made.was)
        return again, number > len(kept)

    async def _missed(self, row: Subscription, after: int, now: int) -> AsyncIterator[Found | None]:
        """None stands for rows of the log that nobody has any more."""
        while True:
            asked = WakeReplay(row.workspace_id, after, row.from_log_id, row.subscription_id, now, PAGE)
            rows, [workspace] = await self._context.store.read_together(asked, WorkspaceById(row.workspace_id))
            if workspace.first_log_id > after + 1:
                yield None
            for found in find_messages(rows):
                yield found
            if len(rows) < PAGE:
                return
            after = rows[-1].log_id

    async def _cursor(self, caller: Caller, subscription_id: str) -> Cursor | None:
        place = (caller.workspace_id, consumer_of(subscription_id), STREAM, "")
        return next(iter(await self._context.store.read(CursorFor(*place))), None)


# -- the answer -------------------------------------------------------------------------------------------------------


def _answer(made: Registered, before: Cursor | None, *, truncated: bool) -> wire.EventsSubscribed:
    end = ends_at(made.subscription)
    return wire.EventsSubscribed(
        id=made.subscription.subscription_id,
        refresh_before=None if end is None else to_datetime(end),
        cursor=str(Position(made.epoch, made.confirmed)),
        truncated=truncated,
        delivery_status=UNSET if made.was is None else _status(before, made.was),
    )


def _status(before: Cursor | None, was: str) -> wire.CallbackStatus:
    delivered = None if before is None else before.last_delivered_at
    error = None if before is None else before.last_error
    return wire.CallbackStatus(
        active=was == SubscriptionStatus.ACTIVE,
        last_delivery_at=None if delivered is None else to_datetime(delivered),
        last_error=None if error is None else _ERRORS.get(error.partition(":")[0], "http_4xx"),
    )


def _secret(text: str) -> bytes:
    try:
        secret = decode_key(text)
    except ValueError:
        secret = b""
    if not text.startswith(PREFIX) or len(secret) not in SECRET_BYTES:
        raise InvalidArgument(
            "INVALID_ARGUMENT", "A secret is 'whsec_' and base 64 of 24 to 64 bytes.", "Make one at random."
        )
    return secret


def _life(ttl_ms: int | UnsetType | None) -> timedelta | None:
    if ttl_ms is None:
        return None
    return LIFE if isinstance(ttl_ms, UnsetType) else max(SHORTEST, min(LONGEST, _span(ttl_ms)))


def _span(milliseconds: int) -> timedelta:
    """Whatever a client says, within what a timedelta and a database hold."""
    return max(0, min(milliseconds, 10**12)) * _MILLISECOND


def _there(made: Registered | None, subscription_id: str) -> Registered:
    if made is None:  # removed while we looked
        raise unknown(subscription_id)
    return made
