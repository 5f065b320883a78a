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
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvloop

from wakeline.core.guardrail import Guardrails
from wakeline.core.log import LogEntry
from wakeline.core.principal import Caller
from wakeline.core.queries import AllWorkspaces, IssuerKeys
from wakeline.core.store import Store
from wakeline.faces.http.app import Application
from wakeline.faces.http.listener import Listeners, bind_tcp, bind_unix
from wakeline.faces.http.telemetry import Telemetry
from wakeline.runtime import clock, secrets
from wakeline.runtime.jwks import Jwks
from wakeline.runtime.settings import Settings
from wakeline.runtime.sweeper import Indexer, Retention, follow, keep_alive, sweep
from wakeline.service import Services
from wakeline.service.audit import Audit
from wakeline.service.context import Context
from wakeline.service.dead_letters import DeadLetters
from wakeline.service.hub import Hub
from wakeline.service.identity import External, Identity
from wakeline.service.inbox import Inboxes
from wakeline.service.log import Logs
from wakeline.service.messages import Messages
from wakeline.service.operations import Operations
from wakeline.service.principals import Principals
from wakeline.service.threads import Threads
from wakeline.store.sqlite.connection import translated
from wakeline.store.sqlite.lock import DataLock
from wakeline.store.sqlite.store import SqliteStore
from wakeline.version import VERSION

# The event loop and the writer thread share one interpreter.  The default of 5 ms would make the writer wait that long
# after every statement while the loop is busy; this keeps both moving (measured: ten times the posts under load).
SWITCH_SECONDS = 0.0005
# Requests leave hardly any cycles behind.  Looking for them at the default of every 700 new objects took a tenth of the
# event loop's time, and now and then a request waited for a look at everything.
GARBAGE_THRESHOLDS = (20_000, 20, 50)


@dataclass(frozen=True, slots=True)
class Parts:
    store: Store
    services: Services
    hub: Hub
    retention: Retention


def serve(settings: Settings) -> int:
    """Run a server until it is told to stop.  Raises WakelineError when it cannot start."""
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    os.umask(0o077)  # whatever this process makes is its owner's alone
    with translated():
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataLock(settings.data):
        uvloop.run(_run(settings))
    return 0


async def _run(settings: Settings) -> None:
    store = await open_store(settings)
    try:
        with translated():
            parts = await assemble(settings, store)
        _settle_memory()
        await _serve(settings, parts)
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
    identity = await _identity(settings, store)
    hub.on_control(identity.hear)
    hub.on_control(lambda row: hub.dismiss(lambda caller: _concerns(row, caller)))
    retention = Retention(
        store,
        log_days=settings.log_retention_days,
        log_rows=settings.log_retention_rows,
        closed_thread_days=settings.closed_thread_retention_days,
    )
    messages = Messages(context, hub)
    services = Services(
        identity=identity,
        messages=messages,
        inboxes=Inboxes(context),
        threads=Threads(context),
        principals=Principals(context, identity, timedelta(days=settings.token_days)),
        logs=Logs(context, hub),
        dead_letters=DeadLetters(context, messages),
        operations=Operations(
            context,
            hub,
            version=VERSION,
            database="postgresql" if settings.database else "sqlite",
            human=settings.human_handle,
            retention=retention.apply,
        ),
        audit=Audit(context),
        hub=hub,
    )
    return Parts(store, services, hub, retention)


def _concerns(row: LogEntry, caller: Caller) -> bool:
    return caller.workspace_id == row.workspace_id and row.subject in (caller.jti, caller.handle)


async def _first_start(settings: Settings, store: Store) -> None:
    names = {workspace.name for workspace in await store.read(AllWorkspaces())}
    if settings.default_workspace not in names:
        await store.add_workspace(settings.default_workspace, dice.token_hex(4), settings.human_handle)


async def _identity(settings: Settings, store: Store) -> Identity:
    rows = await store.read(IssuerKeys())
    box = secrets.load_box(settings.data, settings.key, make=not rows)
    if not rows:
        row = secrets.make_issuer_key(box, f"wakeline-{dice.token_hex(6)}", clock.now())
        await store.add_issuer_key(row)
        rows = [row]
    signing = rows[-1].kid, secrets.open_issuer_key(box, rows[-1])
    external = None
    if settings.jwks_url:
        external = External(
            Jwks(settings.jwks_url, clock.now).find,
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


def _runtime_directories() -> list[Path]:
    given = os.environ.get("XDG_RUNTIME_DIR")
    return [Path(given) if given else Path(tempfile.gettempdir()), Path(tempfile.gettempdir())]


async def _serve(settings: Settings, parts: Parts) -> None:
    application = Application(
        parts.services,
        Telemetry(),
        body_limit=settings.body_limit,
        clock=clock.now_datetime,
        new_request_id=clock.request_ids(),
        metrics_public=settings.metrics_public,
    )
    tcp = bind_tcp(settings.host, settings.port)
    with translated():
        unix, path = bind_unix(settings.data, _runtime_directories())
    listeners = Listeners(application, tcp, unix, settings.drain_seconds)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as group:
            chores = [
                group.create_task(follow(parts.hub)),
                group.create_task(sweep(parts.store, parts.retention, settings.sweep_seconds, clock.now)),
                group.create_task(Indexer(parts.store).run()),
                group.create_task(keep_alive(parts.hub, settings.keepalive_seconds, clock.now)),
            ]
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
