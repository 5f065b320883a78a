"""`wakeline bridge` against a server elsewhere: one for a host, through restarts and kills of either side."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.household import House
from wakeline.testing.server import ServerProcess

HOST = "buildhost"
READY = "Wakeline's bridge is ready"


class Alone:
    """The real command, in its own data directory."""

    def __init__(self, house: House, data: Path, token: str) -> None:
        self.data = data
        data.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self._environ = {**kept, "WAKELINE_DATA": str(data), "WAKELINE_TOKEN": token}
        self._command = [sys.executable, "-m", "wakeline", "bridge", "--server", house.server.url]
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    def start(self, *options: str) -> Alone:
        self.process = subprocess.Popen(
            [*self._command, *options],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self.process, ready), daemon=True).start()
        assert ready.wait(60)
        return self

    def _listen(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.output.append(line)
                if line.startswith(READY):
                    ready.set()
        ready.set()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    quick: dict[str, Any] = {"lease_seconds": 15, "coalesce_seconds": 0, "loop_turn_limit": 0, "loop_repeat_limit": 0}
    with ServerProcess(tmp_path / "data", bridge="false", port=free_port(), **quick) as server:
        async with House(server) as made:
            yield made


def free_port() -> int:
    """A server that comes back must be found where it was."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def new_token(house: House) -> str:
    return (await house.human.create_token("@system", bridge=HOST)).token


@pytest.fixture
async def alone(house: House, tmp_path: Path) -> AsyncIterator[Alone]:
    bridge = Alone(house, tmp_path / "elsewhere", await new_token(house)).start()
    yield bridge
    bridge.kill()


async def test_a_bridge_elsewhere_rings_in_the_sessions_of_its_host(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        [shown] = (await house.bob.list_sessions()).sessions
        assert shown.host == HOST
        await house.mail()
        ring = await session.next()
        await session.turn(ring.text)
        await house.until_outcomes(("processed", "delivered"))
    assert alone.stop() == 0


@pytest.mark.guarantee("G-BRIDGE-ONE")
async def test_a_second_bridge_is_refused_by_the_lock_and_by_the_lease(house: House, alone: Alone) -> None:
    token = await new_token(house)
    same = Alone(house, alone.data, token).start()
    assert (same.wait(), "Another bridge runs" in "".join(same.output)) == (5, True)
    other = Alone(house, alone.data.parent / "other", token).start()
    assert (other.wait(), "Another bridge serves" in "".join(other.output)) == (1, True)
    wrong = Alone(house, alone.data.parent / "wrong", token).start("--host", "another")
    assert wrong.wait() != 0
    async with house.session(data=alone.data) as session:
        await house.mail()
        await session.next()


async def test_a_bridge_needs_a_token_for_a_host(house: House, tmp_path: Path) -> None:
    for token, code in (("", 4), (house.tokens["@bob"], 4)):
        refused = Alone(house, tmp_path / "refused", token).start()
        assert refused.wait() == code, refused.output


@pytest.mark.slow
async def test_a_bridge_outlives_its_server(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        await house.mail()
        ring = await session.next()
        house.server.kill()
        house.server.start()
        for client in house.clients:
            await client.close()
        await session.turn(ring.text)
        await house.until_outcomes(("processed", "delivered"))
        await house.mail()
        await session.turn((await session.next()).text)
        await house.until_outcomes(("processed", "delivered"), ("processed", "delivered"))


@pytest.mark.slow
@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_a_killed_bridge_comes_back_at_once_and_rings_nothing_twice_blindly(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        session.answer = None
        await house.mail()
        first = await session.next()
        alone.kill()
        alone.start()
        await house.until_outcomes(("queued", "unknown"))
    async with house.session(data=alone.data, presence="active") as session:
        await session.start_turn(first.text, "t1")  # it had arrived after all
        session.end_turn("t1")
        await house.until_outcomes(("processed", "unknown"))
        await house.mail(subject="another")
        ring = await session.next()
        await session.turn(ring.text, "t2")
        await house.until_outcomes(("processed", "unknown"), ("processed", "delivered"))
        assert session.rings.empty()
