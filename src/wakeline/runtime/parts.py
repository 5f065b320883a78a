"""Put the parts together: the only place that names concrete ones."""

from __future__ import annotations

import secrets as dice
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from cryptography.fernet import Fernet

from wakeline.adapters.mcp_push import McpPush
from wakeline.adapters.webhook import Webhooks
from wakeline.core.activation import ActivationRules
from wakeline.core.destination import parse_networks
from wakeline.core.event import SENT_TO_ME
from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import SECOND
from wakeline.core.log import LogEntry
from wakeline.core.principal import Caller
from wakeline.core.queries import AllWorkspaces, IssuerKeys
from wakeline.core.records import IssuerKey
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.waking import WakeRules
from wakeline.errors import Conflict
from wakeline.flow.attend import Attention
from wakeline.runtime import clock, processes, secrets
from wakeline.runtime.activator import Activator
from wakeline.runtime.jwks import Jwks
from wakeline.runtime.parcels import Packer
from wakeline.runtime.settings import Settings
from wakeline.runtime.sweeper import Retention
from wakeline.runtime.waker import Waker
from wakeline.service import Services
from wakeline.service.activations import Activations
from wakeline.service.audit import Audit
from wakeline.service.bridges import Bridges
from wakeline.service.callbacks import Callbacks
from wakeline.service.context import Context
from wakeline.service.dead_letters import DeadLetters
from wakeline.service.deliveries import Deliveries
from wakeline.service.hub import Hub
from wakeline.service.identity import External, Identity
from wakeline.service.inbox import Inboxes
from wakeline.service.launches import Launches
from wakeline.service.log import Logs
from wakeline.service.messages import Messages
from wakeline.service.operations import Operations
from wakeline.service.principals import Principals
from wakeline.service.proofs import Proofs
from wakeline.service.pushes import Pushes
from wakeline.service.sessions import Sessions, Surroundings
from wakeline.service.subscriptions import Keys, Subscriptions
from wakeline.service.threads import Threads
from wakeline.service.wake_protocol import WakeProtocol
from wakeline.store.sqlite.store import SqliteStore
from wakeline.version import VERSION


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
    activator: Activator


async def open_store(settings: Settings) -> Store:
    if settings.database:
        # Imported only when it is used: who runs on SQLite does not wait for the other driver.
        from wakeline.store.postgres.store import PostgresStore  # noqa: PLC0415 - as said above

        return await PostgresStore.open(settings.database, clock.now)
    return await SqliteStore.open(settings.data / "wakeline.db", clock.now, apart=True)


async def assemble(settings: Settings, store: Store) -> Parts:
    await _first_start(settings, store)
    rails = Guardrails(**{name: getattr(settings, name) for name in Guardrails.__struct_fields__})
    context = Context(store, rails, clock.new_id)
    hub = Hub(store, max_streams=settings.max_streams, buffer=settings.stream_buffer)
    await hub.start()
    issuer = _issuer(settings)
    box, rows = await _open_secrets(settings, store)
    identity = _identity(settings, store, box, rows, issuer)
    _connect(hub, identity, issuer)
    retention = _retention(settings, store)
    messages = Messages(context, hub)
    logs = Logs(context, hub)
    deliveries = Deliveries(context, logs)
    inboxes = Inboxes(context, hub)
    threads = Threads(context)
    pushes = Pushes(hub, inboxes)
    keys = _keys(settings, box)
    subscriptions = _subscriptions(settings, context, keys, pushes)
    webhooks = _webhooks(settings)
    sessions = _sessions(settings, context, subscriptions)
    services = Services(
        identity=identity,
        messages=messages,
        inboxes=inboxes,
        threads=threads,
        principals=Principals(context, identity, timedelta(days=settings.token_days)),
        sessions=sessions,
        logs=logs,
        dead_letters=DeadLetters(context, messages),
        deliveries=deliveries,
        subscriptions=subscriptions,
        callbacks=_callbacks(settings, context, keys, logs, webhooks),
        wake_protocol=WakeProtocol(subscriptions, deliveries),
        operations=_operations(settings, context, hub, retention, issuer),
        audit=Audit(context),
        hub=hub,
        pushes=pushes,
        bridges=Bridges(context, _rules(settings), sessions.view, pushes.push),
        proofs=Proofs(context, _attention(settings)),
        activations=Activations(context, _activation_rules(settings)),
        launches=Launches(context, _activation_rules(settings), _attention(settings), threads, settings.human_handle),
    )
    waker = _waker(settings, store, box, webhooks, pushes)
    _tell(waker, services)
    activator = Activator(store, _activation_rules(settings), _rules(settings), settings.human_handle, clock.new_id)
    return Parts(store, services, hub, retention, issuer, webhooks, waker, rails, activator)


def _tell(waker: Waker, services: Services) -> None:
    """Of who comes and goes."""
    services.pushes.on_arrival(partial(_greet, services, waker))
    services.sessions.on_seat(waker.seated)
    services.hub.on_control(waker.hear)
    services.hub.on_lost(waker.look)


def _operations(
    settings: Settings, context: Context, hub: Hub, retention: Retention, issuer: Jwks | None
) -> Operations:
    return Operations(
        context,
        hub,
        version=VERSION,
        database="postgresql" if settings.database else "sqlite",
        human=settings.human_handle,
        retention=retention.apply,
        issuer=None if issuer is None else issuer.describe,
    )


def _connect(hub: Hub, identity: Identity, issuer: Jwks | None) -> None:
    """Whose right ends is not remembered any longer, and what they listen to ends."""
    if issuer is not None:
        issuer.on_withdrawn(lambda kids: identity.forget(kids=kids))
        issuer.on_withdrawn(lambda kids: hub.dismiss(lambda caller: caller.kid in kids))
    hub.on_control(identity.hear)
    hub.on_lost(lambda workspace_id: identity.forget(workspace_id=workspace_id))
    hub.on_control(lambda row: hub.dismiss(lambda caller: _concerns(row, caller)))


def _retention(settings: Settings, store: Store) -> Retention:
    return Retention(
        store,
        log_days=settings.log_retention_days,
        log_rows=settings.log_retention_rows,
        closed_thread_days=settings.closed_thread_retention_days,
        delivery_days=settings.delivery_retention_days,
    )


async def _greet(services: Services, waker: Waker, caller: Caller) -> None:
    """Somebody listens: it is woken for its mail unless it has decided otherwise, and what waits for it goes out."""
    if SENT_TO_ME in services.pushes.heard(caller.workspace_id, caller.handle):
        await services.subscriptions.ensure_default(caller, mcp_connected=True)
    waker.seated(caller.workspace_id, caller.handle)


def _rules(settings: Settings) -> WakeRules:
    return WakeRules(**{name: getattr(settings, name) for name in WakeRules.__struct_fields__})


def _activation_rules(settings: Settings) -> ActivationRules:
    return ActivationRules(**{name: getattr(settings, name) for name in ActivationRules.__struct_fields__})


def _waker(settings: Settings, store: Store, box: Fernet, webhooks: Webhooks, pushes: Pushes) -> Waker:
    packer = Packer(box, clock.now, timedelta(seconds=settings.webhook_timeout_seconds))
    return Waker(
        store,
        _rules(settings),
        {Target.WEBHOOK: webhooks, Target.MCP: McpPush(pushes.push)},
        # On SQLite there is one server, so its name survives it; among nodes each life has a name of its own.
        node="local" if not settings.database else f"node-{dice.token_hex(6)}",
        new_id=clock.new_id,
        pack=packer.pack,
        connections=pushes,
        monotonic=time.monotonic,
    )


def _keys(settings: Settings, box: Fernet) -> Keys:
    overlap = timedelta(hours=settings.webhook_key_overlap_hours)
    return Keys(clock.new_key, partial(secrets.seal, box), partial(secrets.unseal, box), overlap)


def _callbacks(settings: Settings, context: Context, keys: Keys, logs: Logs, webhooks: Webhooks) -> Callbacks:
    return Callbacks(
        context,
        keys,
        logs,
        webhooks.verify,
        allowed=parse_networks(settings.webhook_allow),
        limit=settings.subscriptions_per_agent,
        budget=settings.wake_budget_per_hour,
        timeout=timedelta(seconds=settings.webhook_timeout_seconds),
    )


def _subscriptions(settings: Settings, context: Context, keys: Keys, pushes: Pushes) -> Subscriptions:
    return Subscriptions(
        context,
        keys,
        allowed=parse_networks(settings.webhook_allow),
        limit=settings.subscriptions_per_agent,
        heard=pushes.heard,
    )


def _webhooks(settings: Settings) -> Webhooks:
    return Webhooks(
        clock.now,
        allowed=parse_networks(settings.webhook_allow),
        connections_per_host=settings.webhook_connections_per_host,
        user_agent=f"Wakeline/{VERSION}",
    )


def _sessions(settings: Settings, context: Context, subscriptions: Subscriptions) -> Sessions:
    here = Surroundings(frozenset({processes.host_name(), settings.bridge_host} - {""}), processes.look)
    return Sessions(
        context, here, _attention(settings), settings.dormant_seconds * SECOND, subscriptions.ensure_default
    )


def _attention(settings: Settings) -> Attention:
    return Attention(settings.presence_stale_seconds * SECOND, settings.context_gate_tokens)


def _concerns(row: LogEntry, caller: Caller) -> bool:
    return caller.workspace_id == row.workspace_id and row.subject in (caller.jti, caller.handle)


async def _first_start(settings: Settings, store: Store) -> None:
    names = {workspace.name for workspace in await store.read(AllWorkspaces())}
    if settings.default_workspace in names:
        return
    try:
        await store.add_workspace(settings.default_workspace, dice.token_hex(4), settings.human_handle)
    except Conflict as conflict:
        if conflict.code != "WORKSPACE_EXISTS":  # another node was faster
            raise


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
        made = secrets.make_issuer_key(box, f"wakeline-{dice.token_hex(6)}", clock.now())
        await store.add_first_issuer_key(made)
        rows = await store.read(IssuerKeys())  # another node's, if it was faster
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
