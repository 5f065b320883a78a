"""Put the parts together and run them: the only place that names concrete ones."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets as dice
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import uvloop
from cryptography.fernet import Fernet

from wakeline.adapters.mcp_push import McpPush
from wakeline.adapters.webhook import Webhooks
from wakeline.core.destination import parse_networks
from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import SECOND
from wakeline.core.log import LogEntry
from wakeline.core.principal import Caller
from wakeline.core.queries import AllWorkspaces, IssuerKeys
from wakeline.core.records import IssuerKey
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.waking import WakeRules
from wakeline.faces.http.app import Application, Mounted, request_limit
from wakeline.faces.http.listener import Listeners, bind_tcp, bind_unix
from wakeline.faces.http.telemetry import Telemetry
from wakeline.faces.mcp.mount import Mount, Prepare
from wakeline.flow.attend import Attention
from wakeline.runtime import clock, processes, secrets
from wakeline.runtime.heart import beat
from wakeline.runtime.jwks import Jwks
from wakeline.runtime.parcels import Packer
from wakeline.runtime.settings import Settings
from wakeline.runtime.sweeper import Indexer, Retention, follow, keep_alive, sweep
from wakeline.runtime.waker import Waker
from wakeline.service import Services
from wakeline.service.audit import Audit
from wakeline.service.context import Context
from wakeline.service.dead_letters import DeadLetters
from wakeline.service.deliveries import Deliveries
from wakeline.service.hub import Hub
from wakeline.service.identity import External, Identity
from wakeline.service.inbox import Inboxes
from wakeline.service.log import Logs
from wakeline.service.messages import Messages
from wakeline.service.operations import Operations
from wakeline.service.principals import Principals
from wakeline.service.pushes import Pushes
from wakeline.service.sessions import Sessions, Surroundings
from wakeline.service.subscriptions import Keys, Subscriptions
from wakeline.service.threads import Threads
from wakeline.service.wake_protocol import WakeProtocol
from wakeline.store.sqlite.connection import translated
from wakeline.store.sqlite.lock import DataLock
from wakeline.store.sqlite.store import SqliteStore
from wakeline.version import VERSION

# The event loop and the writer thread share one interpreter.  The default of 5 ms would make the writer wait that long
# after every statement while the loop is busy; this keeps both moving (measured: ten times the posts under load).
SWITCH_SECONDS = 0.0005
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Requests leave hardly any cycles behind.  Looking for them at the default of every 700 new objects took a tenth of the
# event loop's time, and now and then a request waited for a look at everything.
GARBAGE_THRESHOLDS = (20_000, 20, 50)


@dataclass(frozen=True, slots=True)
class Parts:
    store: Store
    services: Services
    hub: Hub
    retention: Retention
    issuer: Jwks | None
    webhooks: Webhooks
    waker: Waker
    rails: Guardrails


@dataclass(frozen=True, slots=True)
class Additions:
    """What a test adds to the real server: something at another path, or to the MCP server before it serves.

    `plain`: MCP calls are answered as JSON, without room for notifications inside the answer, which ours never have.
    """

    mounts: Callable[[Services], Mapping[str, Mounted]] = lambda _services: {}
    prepare: Prepare | None = None
    plain: bool = True


def serve(settings: Settings, additions: Additions | None = None) -> int:
    """Run a server until it is told to stop.  Raises WakelineError when it cannot start."""
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    if settings.log_level == "info":  # the SDK tells of every session
        logging.getLogger("mcp").setLevel(logging.WARNING)
    sys.setswitchinterval(SWITCH_SECONDS)
    os.umask(0o077)  # whatever this process makes is its owner's alone
    with translated():
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataLock(settings.data):
        uvloop.run(_run(settings, additions or Additions()))
    return 0


async def _run(settings: Settings, additions: Additions) -> None:
    store = await open_store(settings)
    try:
        with translated():
            parts = await assemble(settings, store)
        _settle_memory()
        try:
            await _serve(settings, parts, additions)
        finally:
            await parts.webhooks.close()
    finally:
        await store.close()


def _settle_memory() -> None:
    """What is there by now stays until the end: nobody needs to look through it for garbage again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


async def open_store(settings: Settings) -> Store:
    if settings.database:
        # Imported only when it is used: who runs on SQLite does not wait for the other driver.
        from wakeline.store.postgres.store import PostgresStore  # noqa: PLC0415 - as said above

        return await PostgresStore.open(settings.database, clock.now)
    return await SqliteStore.open(settings.data / "wakeline.db", clock.now)


async def assemble(settings: Settings, store: Store) -> Parts:
    await _first_start(settings, store)
    rails = Guardrails(**{name: getattr(settings, name) for name in Guardrails.__struct_fields__})
    context = Context(store, rails, clock.new_id)
    hub = Hub(store, max_streams=settings.max_streams, buffer=settings.stream_buffer)
    await hub.start()
    issuer = _issuer(settings)
    box, rows = await _open_secrets(settings, store)
    identity = _identity(settings, store, box, rows, issuer)
    if issuer is not None:
        issuer.on_withdrawn(lambda kids: identity.forget(kids=kids))
        issuer.on_withdrawn(lambda kids: hub.dismiss(lambda caller: caller.kid in kids))
    hub.on_control(identity.hear)
    hub.on_control(lambda row: hub.dismiss(lambda caller: _concerns(row, caller)))
    retention = Retention(
        store,
        log_days=settings.log_retention_days,
        log_rows=settings.log_retention_rows,
        closed_thread_days=settings.closed_thread_retention_days,
        delivery_days=settings.delivery_retention_days,
    )
    messages = Messages(context, hub)
    logs = Logs(context, hub)
    deliveries = Deliveries(context, logs)
    inboxes = Inboxes(context, hub)
    pushes = Pushes(hub, inboxes)
    subscriptions = _subscriptions(settings, context, box, pushes)
    services = Services(
        identity=identity,
        messages=messages,
        inboxes=inboxes,
        threads=Threads(context),
        principals=Principals(context, identity, timedelta(days=settings.token_days)),
        sessions=_sessions(settings, context, subscriptions),
        logs=logs,
        dead_letters=DeadLetters(context, messages),
        deliveries=deliveries,
        subscriptions=subscriptions,
        wake_protocol=WakeProtocol(subscriptions, deliveries),
        operations=Operations(
            context,
            hub,
            version=VERSION,
            database="postgresql" if settings.database else "sqlite",
            human=settings.human_handle,
            retention=retention.apply,
            issuer=None if issuer is None else issuer.describe,
        ),
        audit=Audit(context),
        hub=hub,
        pushes=pushes,
    )
    webhooks = _webhooks(settings)
    push = McpPush(pushes.push)
    waker = _waker(settings, store, box, webhooks, push)
    pushes.on_arrival(partial(_greet, subscriptions, waker))
    pushes.on_departure(waker.disconnected)
    return Parts(store, services, hub, retention, issuer, webhooks, waker, rails)


async def _greet(subscriptions: Subscriptions, waker: Waker, caller: Caller) -> None:
    """Somebody listens: it is woken for its mail unless it has decided otherwise, and what waits for it goes out."""
    await subscriptions.ensure_default(caller, mcp_connected=True)
    waker.connected(caller.workspace_id, caller.handle)


def _waker(settings: Settings, store: Store, box: Fernet, webhooks: Webhooks, push: McpPush) -> Waker:
    rules = WakeRules(**{name: getattr(settings, name) for name in WakeRules.__struct_fields__})
    packer = Packer(box, clock.now, timedelta(seconds=settings.webhook_timeout_seconds))
    return Waker(
        store,
        rules,
        {Target.WEBHOOK: webhooks, Target.MCP: push},
        # On SQLite there is one server, so its name survives it; among nodes each life has a name of its own.
        node="local" if not settings.database else f"node-{dice.token_hex(6)}",
        new_id=clock.new_id,
        pack=packer.pack,
        hint=push.hint,
        monotonic=time.monotonic,
    )


def _subscriptions(settings: Settings, context: Context, box: Fernet, pushes: Pushes) -> Subscriptions:
    overlap = timedelta(hours=settings.webhook_key_overlap_hours)
    return Subscriptions(
        context,
        Keys(clock.new_key, partial(secrets.seal, box), overlap),
        allowed=parse_networks(settings.webhook_allow),
        limit=settings.subscriptions_per_agent,
        is_listening=pushes.is_listening,
    )


def _webhooks(settings: Settings) -> Webhooks:
    return Webhooks(
        clock.now,
        allowed=parse_networks(settings.webhook_allow),
        connections_per_host=settings.webhook_connections_per_host,
        user_agent=f"Wakeline/{VERSION}",
    )


def _sessions(settings: Settings, context: Context, subscriptions: Subscriptions) -> Sessions:
    here = Surroundings(processes.host_name(), processes.look)
    attention = Attention(settings.presence_stale_seconds * SECOND, settings.context_gate_tokens)
    return Sessions(context, here, attention, settings.dormant_seconds * SECOND, subscriptions.ensure_default)


def _concerns(row: LogEntry, caller: Caller) -> bool:
    return caller.workspace_id == row.workspace_id and row.subject in (caller.jti, caller.handle)


async def _first_start(settings: Settings, store: Store) -> None:
    names = {workspace.name for workspace in await store.read(AllWorkspaces())}
    if settings.default_workspace not in names:
        await store.add_workspace(settings.default_workspace, dice.token_hex(4), settings.human_handle)


def _issuer(settings: Settings) -> Jwks | None:
    if not settings.jwks_url:
        return None
    return Jwks(
        settings.jwks_url,
        clock.now,
        refresh_seconds=settings.jwks_refresh_seconds,
        keep_seconds=settings.jwks_keep_seconds,
    )


async def _open_secrets(settings: Settings, store: Store) -> tuple[Fernet, list[IssuerKey]]:
    rows = await store.read(IssuerKeys())
    box = secrets.load_box(settings.data, settings.key, make=not rows)
    if not rows:
        row = secrets.make_issuer_key(box, f"wakeline-{dice.token_hex(6)}", clock.now())
        await store.add_issuer_key(row)
        rows = [row]
    return box, rows


def _identity(settings: Settings, store: Store, box: Fernet, rows: list[IssuerKey], issuer: Jwks | None) -> Identity:
    signing = rows[-1].kid, secrets.open_issuer_key(box, rows[-1])
    external = None
    if issuer is not None:
        external = External(
            issuer.find,
            settings.jwks_issuer or None,
            settings.jwks_audience or None,
            settings.auto_provision,
        )
    return Identity(
        store,
        clock.now,
        lambda: secrets.public_keys(store),
        signing,
        human=settings.human_handle,
        default_workspace=settings.default_workspace,
        external=external,
    )


def _hearts(settings: Settings, store: Store, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
    if not settings.heartbeat_seconds:
        return []
    every = timedelta(seconds=settings.heartbeat_seconds)
    look_every = min(settings.supervisor_seconds, settings.heartbeat_seconds)
    return [group.create_task(beat(store, every, look_every, bypass=settings.heartbeat_bypass))]


def _runtime_directories() -> list[Path]:
    given = os.environ.get("XDG_RUNTIME_DIR")
    return [Path(given) if given else Path(tempfile.gettempdir()), Path(tempfile.gettempdir())]


def _mcp_hosts(settings: Settings) -> tuple[str, ...]:
    """The names under which /mcp is spoken to, against browsers that were lied to about them.  None: any."""
    if "*" in settings.mcp_hosts or (settings.host not in LOOPBACK and not settings.mcp_hosts):
        return ()
    return (*("127.0.0.1", "localhost", "[::1]"), *settings.mcp_hosts)


def _mcp_mounts(settings: Settings, services: Services, additions: Additions) -> dict[str, Mount]:
    limit, hosts = request_limit(settings.body_limit), _mcp_hosts(settings)
    mounts = {
        "/mcp": Mount(
            services,
            request_limit=limit,
            hosts=hosts,
            prepare=additions.prepare,
            plain=additions.plain,
            events_too=settings.mcp_events,
        )
    }
    if settings.mcp_channel:
        mounts["/channel/mcp"] = Mount(services, request_limit=limit, hosts=hosts, channel=True)
    return mounts


async def _serve(settings: Settings, parts: Parts, additions: Additions) -> None:
    mcp = _mcp_mounts(settings, parts.services, additions)
    application = Application(
        parts.services,
        Telemetry(None if parts.issuer is None else parts.issuer.age_seconds),
        body_limit=settings.body_limit,
        clock=clock.now_datetime,
        new_request_id=clock.request_ids(),
        metrics_public=settings.metrics_public,
        mounts={**mcp, **additions.mounts(parts.services)},
    )
    tcp = bind_tcp(settings.host, settings.port)
    with translated():
        unix, path = bind_unix(settings.data, _runtime_directories())
    listeners = Listeners(
        application, tcp, unix, drain_seconds=settings.drain_seconds, receive_seconds=settings.receive_seconds
    )
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as group:
            chores = [
                group.create_task(follow(parts.hub)),
                group.create_task(parts.waker.run()),
                *_hearts(settings, parts.store, group),
                group.create_task(parts.services.pushes.run()),
                *(group.create_task(mount.run()) for mount in mcp.values()),
                group.create_task(sweep(parts.store, parts.retention, parts.rails, settings.sweep_seconds, clock.now)),
                group.create_task(Indexer(parts.store).run()),
                group.create_task(keep_alive(parts.hub, settings.keepalive_seconds, clock.now)),
            ]
            if parts.issuer is not None:
                chores.append(group.create_task(parts.issuer.run()))
            serving = group.create_task(listeners.serve())
            host, port = tcp.getsockname()[:2]
            print(f"Wakeline is ready: http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)  # noqa: T201 - the one promised line
            await stop.wait()
            parts.hub.close()
            listeners.stop()
            await serving
            for chore in chores:
                chore.cancel()
    finally:
        path.unlink(missing_ok=True)
