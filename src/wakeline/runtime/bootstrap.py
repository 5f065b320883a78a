"""Run a server: its listeners, its loops, until it is told to stop.  `parts.py` puts it together."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvloop

from wakeline.core.store import Store
from wakeline.errors import WakelineError
from wakeline.faces.http.app import Application, Mounted, request_limit
from wakeline.faces.http.listener import Listeners, bind_tcp, bind_unix
from wakeline.faces.http.telemetry import Telemetry
from wakeline.faces.mcp.mount import Mount, Prepare
from wakeline.runtime import clock
from wakeline.runtime.bridge_parts import run_beside
from wakeline.runtime.heart import beat
from wakeline.runtime.parts import Parts, assemble, open_store
from wakeline.runtime.settings import Settings
from wakeline.runtime.sweeper import Indexer, follow, keep_alive, sweep
from wakeline.service import Services
from wakeline.store.sqlite.connection import translated
from wakeline.store.sqlite.lock import DataLock

_log = logging.getLogger(__name__)

# The event loop shares its interpreter with threads that read large pages and index for search.  The default of 5 ms
# would make each of them wait that long after every statement while the loop is busy; this keeps all moving.
SWITCH_SECONDS = 0.0005
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Requests leave hardly any cycles behind.  Looking for them at the default of every 700 new objects took a tenth of the
# event loop's time, and now and then a request waited for a look at everything.
GARBAGE_THRESHOLDS = (20_000, 20, 50)


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


async def _bridge(parts: Parts, settings: Settings) -> None:
    """A bridge that cannot run does not take the server with it."""
    if not settings.bridge:
        return
    try:
        await run_beside(parts.services, parts.store, settings)
    except* (WakelineError, OSError) as group:
        _log.error("this server runs without a bridge: %s", "; ".join(_messages(group)))


def _messages(group: BaseExceptionGroup[WakelineError | OSError]) -> Iterator[str]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _messages(error)
        else:
            yield error.message if isinstance(error, WakelineError) else str(error)


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
                group.create_task(parts.activator.run(settings.supervisor_seconds)),
                *_hearts(settings, parts.store, group),
                group.create_task(parts.services.pushes.run()),
                *(group.create_task(mount.run()) for mount in mcp.values()),
                group.create_task(sweep(parts.store, parts.retention, parts.rails, settings.sweep_seconds, clock.now)),
                group.create_task(Indexer(parts.store).run()),
                group.create_task(keep_alive(parts.hub, settings.keepalive_seconds, clock.now)),
            ]
            bridge = group.create_task(_bridge(parts, settings))
            if parts.issuer is not None:
                chores.append(group.create_task(parts.issuer.run()))
            serving = group.create_task(listeners.serve())
            host, port = tcp.getsockname()[:2]
            print(f"Wakeline is ready: http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)  # noqa: T201 - the one promised line
            await stop.wait()
            bridge.cancel()
            await asyncio.wait([bridge])
            parts.hub.close()
            listeners.stop()
            await serving
            for chore in chores:
                chore.cancel()
    finally:
        path.unlink(missing_ok=True)
