"""The Python client: every call of the HTTP face as a typed coroutine, and the event stream as an iterator.

    async with wakeline.Client.from_environment() as client:
        await client.post_message("The tests pass now.", to=["@bob"])
        async for event in client.events():
            print(event.kind, event.subject)

A refusal raises the class of `wakeline.errors` that the server meant.  A lost connection or a 503 is tried again, after
a growing pause and only where a second sending cannot be a second effect: creating calls carry an idempotency key, one
of our own if none is given.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import wraps
from http import HTTPStatus
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from wakeline import calls, wire
from wakeline.calls import LONGEST_WAIT, SAFE, Call, refusal
from wakeline.endpoint import Endpoint, find_endpoint, unreachable, unreadable
from wakeline.errors import RateLimited, Unavailable

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
SILENCE_SECONDS = 60.0  # servers show life every 15 s; a stream that is silent for longer has died
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
ATTEMPTS = 6

P = ParamSpec("P")
A = TypeVar("A", bound=wire.Answer)

_decode_event = msgspec.json.Decoder(wire.EventView).decode


def _operation(make: Callable[P, Call], answer: type[A]) -> Callable[Concatenate[Client, P], Coroutine[Any, Any, A]]:
    """The method that sends what `make` describes and answers `answer`, with `make`'s own arguments and text."""
    decode = msgspec.json.Decoder(answer).decode

    @wraps(make)
    async def operation(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> A:
        return decode(await client.send(make(*args, **kwargs)))

    return operation


class Client:
    """A connection to one server as one caller.  Give `url` or `socket`; without a token only the socket answers."""

    post_message = _operation(calls.post_message, wire.Posted)
    get_message = _operation(calls.get_message, wire.MessageView)
    retract_message = _operation(calls.retract_message, wire.MessageView)
    get_inbox = _operation(calls.get_inbox, wire.Inbox)
    wait_for_mail = _operation(calls.wait_for_mail, wire.Mail)
    ack_messages = _operation(calls.ack_messages, wire.Acked)
    archive_messages = _operation(calls.archive_messages, wire.Archived)
    search = _operation(calls.search, wire.Found)

    create_thread = _operation(calls.create_thread, wire.ThreadView)
    list_threads = _operation(calls.list_threads, wire.Threads)
    get_thread = _operation(calls.get_thread, wire.ThreadView)
    add_members = _operation(calls.add_members, wire.ThreadView)
    remove_members = _operation(calls.remove_members, wire.ThreadView)
    change_status = _operation(calls.change_status, wire.ThreadView)
    read_thread = _operation(calls.read_thread, wire.ThreadMessages)
    ack_thread = _operation(calls.ack_thread, wire.ThreadAcked)
    summarize_thread = _operation(calls.summarize_thread, wire.ThreadSummary)

    heartbeat_session = _operation(calls.heartbeat_session, wire.Attended)
    end_session = _operation(calls.end_session, wire.SessionView)
    list_sessions = _operation(calls.list_sessions, wire.Sessions)
    list_peers = _operation(calls.list_peers, wire.Peers)
    subscribe_wake = _operation(calls.subscribe_wake, wire.WakeSubscribed)
    list_wake_subscriptions = _operation(calls.list_wake_subscriptions, wire.WakeSubscriptions)
    get_wake_subscription = _operation(calls.get_wake_subscription, wire.WakeSubscriptionView)
    update_wake_subscription = _operation(calls.update_wake_subscription, wire.WakeSubscriptionView)
    unsubscribe_wake = _operation(calls.unsubscribe_wake, wire.WakeUnsubscribed)
    resume_wake_subscription = _operation(calls.resume_wake_subscription, wire.WakeSubscriptionView)
    rotate_wake_key = _operation(calls.rotate_wake_key, wire.WakeKey)
    manage_wake_subscription = _operation(calls.manage_wake_subscription, wire.ManagedWake)
    record_proof = _operation(calls.record_proof, wire.ProofView)
    list_proofs = _operation(calls.list_proofs, wire.Proofs)
    allow_activation = _operation(calls.allow_activation, wire.MandateView)
    get_mandate = _operation(calls.get_mandate, wire.MandateView)
    list_activations = _operation(calls.list_activations, wire.Activations)
    get_activation = _operation(calls.get_activation, wire.ActivationView)
    stop_activation = _operation(calls.stop_activation, wire.ActivationView)
    claim_activations = _operation(calls.claim_activations, wire.ActivationOrders)
    start_activation = _operation(calls.start_activation, wire.ActivationSettled)
    settle_activation = _operation(calls.settle_activation, wire.ActivationSettled)
    attend_bridge = _operation(calls.attend_bridge, wire.BridgeAttended)
    leave_bridge = _operation(calls.leave_bridge, wire.BridgeLeft)
    list_bridge_sessions = _operation(calls.list_bridge_sessions, wire.Sessions)
    claim_rings = _operation(calls.claim_rings, wire.Rings)
    settle_ring = _operation(calls.settle_ring, wire.RingSettled)
    report_observations = _operation(calls.report_observations, wire.Reported)
    announce_turn = _operation(calls.announce_turn, wire.Announced)

    list_agents = _operation(calls.list_agents, wire.Agents)
    add_agent = _operation(calls.add_agent, wire.AgentAdded)
    change_agent = _operation(calls.change_agent, wire.AgentView)
    create_token = _operation(calls.create_token, wire.TokenCreated)
    list_tokens = _operation(calls.list_tokens, wire.TokenList)
    revoke_token = _operation(calls.revoke_token, wire.TokenView)
    put_grant = _operation(calls.put_grant, wire.GrantView)
    remove_grant = _operation(calls.remove_grant, wire.GrantView)
    list_grants = _operation(calls.list_grants, wire.Grants)
    put_block = _operation(calls.put_block, wire.BlockView)
    remove_block = _operation(calls.remove_block, wire.BlockView)
    list_blocks = _operation(calls.list_blocks, wire.Blocks)
    list_refusals = _operation(calls.list_refusals, wire.Refusals)
    whoami = _operation(calls.whoami, wire.WhoAmI)

    read_log = _operation(calls.read_log, wire.LogPage)
    list_dead_letters = _operation(calls.list_dead_letters, wire.DeadLetters)
    redrive = _operation(calls.redrive, wire.Posted)
    list_deliveries = _operation(calls.list_deliveries, wire.Deliveries)
    get_delivery = _operation(calls.get_delivery, wire.DeliveryView)
    retry_delivery = _operation(calls.retry_delivery, wire.DeliveryView)
    resync = _operation(calls.resync, wire.Resynced)
    list_workspaces = _operation(calls.list_workspaces, wire.Workspaces)
    add_workspace = _operation(calls.add_workspace, wire.WorkspaceView)
    prune = _operation(calls.prune, wire.Pruned)
    get_status = _operation(calls.get_status, wire.StatusAnswer)

    def __init__(
        self,
        *,
        url: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        token: str | None = None,
        workspace: str | None = None,
    ) -> None:
        if (url is None) == (socket is None):
            raise TypeError("a Client needs either url or socket")
        path = None if socket is None else os.fspath(socket)
        self.endpoint = Endpoint(url=url, socket=path, token=token, workspace=workspace)
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """A client with the settings that the command line has too; see `wakeline config`."""
        found = find_endpoint({}, os.environ if environ is None else environ)
        return cls(url=found.url, socket=found.socket, token=found.token, workspace=found.workspace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        body: str,
        *,
        to: Sequence[str] | str | None = None,
        thread_id: str | None = None,
        subject: str | None = None,
        in_reply_to: str | None = None,
        wait_seconds: float = LONGEST_WAIT,
    ) -> wire.MessageView | None:
        """Post a message and wait for the first reply to it; None when there was none in time."""
        key = secrets.token_hex(16)
        while True:  # one request waits only so long; with the same key again, it is the same question that waits on
            posted = await self.post_message(
                body,
                to=to,
                thread_id=thread_id,
                subject=subject,
                in_reply_to=in_reply_to,
                idempotency_key=key,
                wait_seconds=min(wait_seconds, LONGEST_WAIT),
            )
            wait_seconds -= LONGEST_WAIT
            if isinstance(posted.reply, wire.MessageView):
                return posted.reply
            if wait_seconds <= 0:
                return None

    def events(self, *, after: str | None = None) -> Events:
        """What happens from now on, or from a position on, for as long as it is iterated."""
        return Events(self, after)

    async def wakes(self, *, events: Iterable[str] | None = None) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Hints for this principal, as (kind, event), on one connection until it ends.  The inbox is the truth.

        `events` are those that whoever listens can be told of, all if it is not given: a wake counts as delivered when
        it is sent here.
        """
        timeout = aiohttp.ClientTimeout(None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        async with self.request(
            calls.stream_wakes(events=events), timeout, {"Accept": "text/event-stream"}
        ) as response:
            async for frame in frames(response.content.iter_any()):
                yield frame.event, msgspec.json.decode(frame.data)

    async def send(self, call: Call) -> bytes:
        """The content of the answer to a call, after as many attempts as are safe and sensible."""
        call = call.with_key(secrets.token_hex(16))
        pauses = backoff()
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._attempt(call)
            except Unavailable as error:
                never_sent = isinstance(error.__cause__, aiohttp.ClientConnectorError)
                if error.code == "ANSWER_UNREADABLE" or not (call.repeat == SAFE or never_sent):
                    raise
            await asyncio.sleep(next(pauses))
        return await self._attempt(call)

    async def _attempt(self, call: Call) -> bytes:
        body = None if call.body is None else msgspec.json.encode(call.body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        seconds = ANSWER_SECONDS + call.wait_seconds
        async with self.request(call, aiohttp.ClientTimeout(seconds), headers, body) as response:
            return await response.read()

    @asynccontextmanager
    async def request(
        self, call: Call, timeout: aiohttp.ClientTimeout, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One sending: the answer if it is a good one, else the error that it stands for."""
        url = URL(f"{(self.endpoint.url or 'http://localhost').rstrip('/')}{call.target}", encoded=True)
        try:
            async with self._connections().request(
                call.method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                await self._check(response)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreachable(self.endpoint, str(error) or "it did not answer in time") from error

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            path = self.endpoint.socket
            connector = aiohttp.TCPConnector() if path is None else aiohttp.UnixConnector(path)
            self._session = aiohttp.ClientSession(connector=connector, headers=self.endpoint.headers())
        return self._session

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return
        content = await response.read()
        try:
            envelope = msgspec.json.decode(content, type=wire.ErrorAnswer)
        except msgspec.DecodeError:
            raise unreadable(self.endpoint, response.status) from None
        raise refusal(response.status, msgspec.to_builtins(envelope))


class Events:
    """The event stream.  It reconnects by itself, yields every event once, in order, and never skips one.

    `position` is where it stands: give it as `after` to go on later.  A position that is no longer kept raises `Gone`,
    whose details hold the position to go on from after reading the inbox.
    """

    def __init__(self, client: Client, after: str | None) -> None:
        self.position = after
        self._client = client
        self._has_connected = False
        self._last: tuple[str, int] | None = None

    async def __aiter__(self) -> AsyncIterator[wire.EventView]:
        if self.position is None:
            # Without a position, a connection that breaks before its first event would have nothing to resume from.
            self.position = (await self._client.get_status()).position
        failures, pauses = 0, backoff()
        while True:
            try:
                async with aclosing(self._connection()) as connection:
                    async for event in connection:
                        failures, pauses = 0, backoff()
                        yield event
            except (Unavailable, RateLimited) as error:
                failures += 1
                if not self._has_connected and failures >= ATTEMPTS:
                    raise
                await asyncio.sleep(float(error.details.get("retry_after_seconds", 0)))
            await asyncio.sleep(next(pauses))

    async def _connection(self) -> AsyncGenerator[wire.EventView, None]:
        """The events of one connection, until it ends."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self.position)}
        timeout = aiohttp.ClientTimeout(None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        async with self._client.request(calls.stream_events(), timeout, headers) as response:
            self._has_connected = True
            async for frame in frames(response.content.iter_any()):
                event = _decode_event(frame.data) if frame.data else None
                if event is not None and not self._is_new(event):
                    continue
                self.position = frame.id or self.position
                if event is not None:
                    yield event

    def _is_new(self, event: wire.EventView) -> bool:
        if self._last is not None and self._last[0] == event.epoch and event.log_id <= self._last[1]:
            return False
        self._last = event.epoch, event.log_id
        return True


class Frame(NamedTuple):
    """One server-sent event."""

    id: str
    event: str
    data: bytes


async def frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """Server-sent events.  What the end of the connection cut off is not one."""
    rest, position, event, data = b"", "", "", list[bytes]()
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (raw.rstrip(b"\r") for raw in lines):
            name, _, value = line.partition(b":")
            if name == b"id":
                position = value.strip().decode()
            elif name == b"event":
                event = value.strip().decode()
            elif name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and (data or position):
                yield Frame(position, event, b"\n".join(data))
                position, event, data = "", "", []


def backoff() -> Iterator[float]:
    """Growing pauses, spread so that those who lost the same server do not come back at the same moment."""
    pause = FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - nothing depends on it being unpredictable
        pause = min(2 * pause, LONGEST_PAUSE)
