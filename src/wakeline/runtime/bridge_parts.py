"""Put a bridge together and run it: beside a server in the same process, or alone against one elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from wakeline.adapters import starting
from wakeline.adapters.codex.adapter import Codex
from wakeline.adapters.codex.queue import CodexQueue
from wakeline.adapters.command.adapter import Commands
from wakeline.adapters.command.book import Book
from wakeline.adapters.harness import HarnessAdapter
from wakeline.adapters.opencode.adapter import OpencodeServed
from wakeline.adapters.opencode.api import OpencodeServer
from wakeline.adapters.seat import Seats
from wakeline.adapters.tmux.adapter import Tmux
from wakeline.core.log import Workspace
from wakeline.core.queries import AllWorkspaces
from wakeline.core.store import Store
from wakeline.endpoint import invalid
from wakeline.errors import Conflict, InvalidArgument, Unavailable, WakelineError
from wakeline.harnesses.claude_code.registry import folder as claude_sessions
from wakeline.harnesses.claude_code.registry import process_of
from wakeline.runtime import clock, keeper, processes
from wakeline.runtime.bridge import Bridge
from wakeline.runtime.crew import Crew
from wakeline.runtime.desk import Desk, workspace_in
from wakeline.runtime.host import HostLock, bind_seats
from wakeline.runtime.lines import Line, LocalLine, RemoteLine
from wakeline.runtime.orders import Orders, clean
from wakeline.runtime.settings import Settings, commands_path
from wakeline.runtime.starter import Starter
from wakeline.service import Services
from wakeline.version import VERSION
from wakeline.wire.seat import LINE_BYTES

NEW_WORKSPACES_SECONDS = 10.0
AGAIN_SECONDS = 2.0

_log = logging.getLogger(__name__)


def adapters(desk: Desk, settings: Settings, environ: Mapping[str, str]) -> list[HarnessAdapter]:
    """Those that call out to a harness; companions come to us."""
    homes = [Path(home).expanduser() for home in settings.codex_homes or [environ.get("CODEX_HOME") or "~/.codex"]]
    return [
        Codex(homes, desk.register, version=VERSION, steer=settings.codex_steer),
        CodexQueue(processes.look),
        OpencodeServed(_opencode_servers(settings, environ), desk.register, desk.announce),
        Tmux(processes.look, processes.foreground),
        Commands(_orders(settings), environ, time.monotonic, processes.look),
    ]


def _orders(settings: Settings) -> Book:
    path = commands_path(settings)
    try:
        return Book(path)
    except (OSError, ValueError) as error:
        raise invalid("commands_file", str(path), str(error)) from error


def _opencode_servers(settings: Settings, environ: Mapping[str, str]) -> list[OpencodeServer]:
    password = environ.get("OPENCODE_SERVER_PASSWORD")
    if settings.opencode_servers and settings.opencode_password_file:
        path = Path(settings.opencode_password_file).expanduser()
        try:
            password = path.read_text("utf-8").strip()
        except OSError as error:
            raise invalid("opencode_password_file", str(path), str(error.strerror)) from error
    return [OpencodeServer(url, password) for url in settings.opencode_servers]


def _starter(settings: Settings) -> Starter:
    environ = clean(os.environ)
    return Starter(
        Orders(settings.data / "activations", processes.look),
        processes.look,
        starting.program_for,
        starting.session_in,
        lambda harness, native_id: (
            harness == "claude-code" and process_of(claude_sessions(environ), native_id) is not None
        ),
        environ,
        {"codex": starting.IN_USE},
    )


def runtime_directory(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())


@asynccontextmanager
async def seated(settings: Settings, host: str, lines: list[Line], *, strict: bool) -> AsyncIterator[Bridge]:
    """A bridge with its seats open.  Whoever enters runs it."""
    _note_name(settings.data / processes.BRIDGED, f"{host}\n")
    desk = Desk(host, processes.look)
    seats = Seats(desk)
    crew = Crew(seats, adapters(desk, settings, os.environ))
    bridge = Bridge(lines, crew, _starter(settings), strict=strict, monotonic=time.monotonic)
    desk.serve(bridge)
    listener, path = bind_seats(settings.data, runtime_directory(os.environ), os.environ)
    server = await asyncio.start_unix_server(seats.serve, sock=listener, limit=LINE_BYTES)
    try:
        yield bridge
    finally:
        server.close()
        await seats.close()
        await bridge.stop()
        with contextlib.suppress(OSError):  # the next one replaces it
            path.unlink()


async def run_beside(services: Services, store: Store, settings: Settings) -> None:
    """The bridge of a server's own host, for every workspace, until cancelled."""
    name = settings.bridge_host or processes.host_name()
    with HostLock(settings.data, clock.new_id()) as lock:

        async def lines() -> list[Line]:
            return [LocalLine(services, each, name, lock.bridge_id) for each in await _workspaces(store)]

        async with seated(settings, name, await lines(), strict=False) as bridge, asyncio.TaskGroup() as group:
            group.create_task(bridge.run())
            while True:
                await asyncio.sleep(NEW_WORKSPACES_SECONDS)
                for line in await lines():
                    bridge.add(line)


def _note_name(path: Path, text: str) -> None:
    """For who registers a session of this host by hand.  A full disk is no reason to ring nobody."""
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            keeper.put(path, text)
    except OSError as error:
        _log.warning("the name of this host cannot be written to %s: %s", path, error)


async def _workspaces(store: Store) -> list[Workspace]:
    """A store that is away is waited for: it must end neither the bridge nor, with it, the server."""
    while True:
        try:
            return await store.read(AllWorkspaces())
        except WakelineError as error:
            _log.warning("the bridge cannot see the workspaces yet: %s", error.message)
            await asyncio.sleep(AGAIN_SECONDS)


async def run_alone(settings: Settings, token: str, *, url: str | None, socket: str | None, host: str | None) -> None:
    """Until told to stop.  Raises WakelineError when it may not serve this host."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with HostLock(settings.data, clock.new_id()) as lock:
        workspace = workspace_in(token)
        line = RemoteLine(workspace, lock.bridge_id, url=url, socket=socket, token=token)
        try:
            name = await _named(line, host)
        except BaseException:
            await line.close()
            raise
        async with seated(settings, name, [line], strict=True) as bridge:
            await _until(stop, bridge, name)


async def _named(line: RemoteLine, host: str | None) -> str:
    """The host that the token is for.  A server that is away is waited for."""
    attended = None
    while attended is None:
        try:
            attended = await line.attend([], started=False)
        except Unavailable as error:
            _log.warning("the server cannot be reached yet: %s", error.message)
            await asyncio.sleep(AGAIN_SECONDS)
    if host is not None and host != attended.host:
        await line.leave()
        raise InvalidArgument(
            "INVALID_ARGUMENT", f"The token is for the host {attended.host}, not {host}.", "Make one for this host."
        )
    return attended.host


async def _until(stop: asyncio.Event, bridge: Bridge, name: str) -> None:
    running = asyncio.create_task(bridge.run())
    stopping = asyncio.create_task(stop.wait())
    ready = asyncio.create_task(bridge.attended())
    await asyncio.wait([running, stopping, ready], return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        print(f"Wakeline's bridge is ready: {name}", flush=True)  # noqa: T201 - the one promised line
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (running, stopping, ready):
        task.cancel()
    try:
        await running
    except* Conflict as group:
        raise group.exceptions[0] from None
    except* asyncio.CancelledError:
        pass
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(stopping, ready, return_exceptions=True)
