"""Bind the sockets ourselves and serve the application on them.

The Unix socket is 0600 in a 0700 directory: whoever can open it is the owner of the data directory.  A socket's
path has about a hundred bytes; where the data directory's is longer, the socket lies in a private runtime directory
and the data directory records where.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

from wakeline.errors import Unusable
from wakeline.faces.http.app import Application
from wakeline.faces.http.connection import LocalProtocol, TcpProtocol

MAX_SOCKET_PATH = 100
BACKLOG = 2048
RECORD = "socket"


def bind_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Unusable(
            "ADDRESS_UNAVAILABLE", f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another with --port."
        ) from error
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def bind_unix(data: Path, runtimes: Sequence[Path]) -> tuple[socket.socket, Path]:
    run = data / "run"
    _private(run)
    path = run / "wakeline.sock"
    record = run / RECORD
    record.unlink(missing_ok=True)
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        path = _runtime_directory(data, runtimes) / "wakeline.sock"
        record.write_text(f"{path}\n", encoding="utf-8")
    path.unlink(missing_ok=True)  # we hold the data directory's lock, so a socket that is there is a dead server's
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener, path


def _private(directory: Path) -> None:
    directory.mkdir(mode=0o700, exist_ok=True, parents=True)
    directory.chmod(0o700)


def _runtime_directory(data: Path, runtimes: Sequence[Path]) -> Path:
    name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
    places = [runtime / f"wakeline-{os.getuid()}-{name}" for runtime in runtimes]
    short = [place for place in places if len(os.fsencode(place / "wakeline.sock")) <= MAX_SOCKET_PATH]
    if not short:
        raise Unusable("ADDRESS_UNAVAILABLE", "Every place for the socket has too long a path.")
    directory = short[0]
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or directory.is_symlink():
        raise Unusable("ADDRESS_UNAVAILABLE", f"{directory} belongs to somebody else.", "Choose a shorter --data.")
    directory.chmod(0o700)
    return directory


class _Server(uvicorn.Server):
    """Signals are the supervisor's business: there are two of these in one process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Config(uvicorn.Config):
    receive_seconds: float = 30  # for our protocol class, which is given nothing but this


class Listeners:
    def __init__(
        self,
        application: Application,
        tcp: socket.socket,
        unix: socket.socket,
        *,
        drain_seconds: float,
        receive_seconds: float,
    ) -> None:
        self._servers = []
        for listener, protocol in ((tcp, TcpProtocol), (unix, LocalProtocol)):
            config = _Config(
                application,
                http=protocol,
                loop="none",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,  # who is on loopback must not be a matter of a header
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, round(drain_seconds)),
                backlog=BACKLOG,
            )
            config.receive_seconds = receive_seconds
            self._servers.append((_Server(config), listener))

    async def serve(self) -> None:
        """Until told to stop; then what is being answered is answered first."""
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in self._servers))

    @property
    def started(self) -> bool:
        return all(server.started for server, _ in self._servers)

    def stop(self) -> None:
        for server, _ in self._servers:
            server.should_exit = True
