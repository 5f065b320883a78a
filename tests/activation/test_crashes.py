"""What is killed between two steps: nothing is started twice, and nothing is left behind that nobody owns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.activation.ward import SWIFT, Ward, end_all, eventually, is_there
from tests.faces.command_line import WAKELINE
from tests.faces.http_calls import Actor
from wakeline.core.ids import ulid
from wakeline.core.launch import fill
from wakeline.runtime import processes
from wakeline.runtime.orders import Folder, Order, keep_command
from wakeline.runtime.processes import host_name
from wakeline.testing.server import ServerProcess

BRIDGE_ID = ulid(1, 1)


@pytest.fixture(autouse=True)
def _ended(tmp_path: Path) -> Iterator[None]:
    yield
    end_all(tmp_path)


def server_in(folder: Path, *, bridge: bool) -> ServerProcess:
    return ServerProcess(folder / "data", bridge=bridge, **SWIFT)


@contextmanager
def bridgeless(folder: Path) -> Iterator[Ward]:
    with server_in(folder, bridge=False) as server:
        ward = Ward(server, folder)
        ward.fall_silent()
        yield ward


def bridge_token(ward: Ward) -> str:
    token: str = ward.human.post("/v1/tokens", handle="@system", bridge=host_name())["token"]
    return token


@contextmanager
def remote_bridge(ward: Ward) -> Iterator[subprocess.Popen[bytes]]:
    """A bridge in a process of its own, for a server elsewhere."""
    environ = {**ward.server.environ, "WAKELINE_TOKEN": bridge_token(ward), "WAKELINE_DATA": str(ward.folder / "far")}
    command = [str(WAKELINE), "bridge", "--server", ward.server.url]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_a_bridge_elsewhere_starts_it_is_killed_and_adopts_it(tmp_path: Path) -> None:
    with bridgeless(tmp_path) as ward:
        ward.allow("resume", "linger")
        with remote_bridge(ward):
            ward.send()
            running = ward.wait_state("running")
        assert is_there(running["pid"])
        (tmp_path / "go").touch()
        with remote_bridge(ward):
            row = ward.wait_result("fallback_resumed")
        assert row["activation_id"] == running["activation_id"]
        assert len(ward.ledger) == 1


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
@pytest.mark.parametrize("written", [False, True], ids=["before it was written down", "before it was begun"])
def test_what_was_claimed_and_never_begun_is_called_off(tmp_path: Path, written: bool) -> None:  # noqa: FBT001 - a case
    with bridgeless(tmp_path) as ward:
        ward.allow("resume")
        order = claimed(ward)
        ward.server.stop()
        if written:
            folder = folder_of(ward, order)
            folder.mkdir(parents=True)
            document = {"workspace": "default", "harness": "tool", "command": ["true"]}
            kept = {**document, "activation_id": order["activation_id"], "fence": order["fence"]}
            (folder / "order").write_text(json.dumps(kept))
        with again(ward):
            row = ward.wait_result("fallback_resumed")
            first = ward.attempts("resume")[0]
            assert (first["activation_id"], first["reason"]) == (order["activation_id"], "bridge_restarted")
            assert row["activation_id"] != order["activation_id"]
            assert len(ward.ledger) == 1


def claimed(ward: Ward) -> dict[str, Any]:
    """Claimed by a bridge that dies with the order in its hand."""
    bridge = attend(ward)
    ward.send()

    def claim() -> dict[str, Any] | None:
        orders: list[dict[str, Any]] = bridge.post("/v1/bridge/activations/claim", bridge_id=BRIDGE_ID)["orders"]
        return orders[0] if orders else None

    found: dict[str, Any] = eventually(claim, ward.listed)
    return found


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_was_planned_before_a_crash_is_started_after_it(tmp_path: Path) -> None:
    with bridgeless(tmp_path) as ward:
        attend(ward)
        ward.allow("resume")
        ward.send()
        planned = ward.wait_state("planned")
        ward.server.kill()
        with again(ward):
            row = ward.wait_result("fallback_resumed")
        assert row["activation_id"] == planned["activation_id"]
        assert len(ward.ledger) == 1


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_was_begun_before_the_server_heard_of_it_is_adopted(tmp_path: Path) -> None:
    with bridgeless(tmp_path) as ward:
        ward.allow("resume", "linger")
        order = claimed(ward)
        keeper = begin(ward, order)
        eventually(lambda: ward.ledger, ward.listed)
        ward.server.kill()
        with again(ward):
            running = ward.wait_state("running")
            (tmp_path / "go").touch()
            row = ward.wait_result("fallback_resumed")
        assert keeper.wait() == 0
        assert row["activation_id"] == running["activation_id"] == order["activation_id"]
        assert len(ward.ledger) == 1


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_has_ended_while_the_server_was_away_is_settled(tmp_path: Path) -> None:
    with server_in(tmp_path, bridge=True) as server:
        ward = Ward(server, tmp_path)
        ward.fall_silent()
        ward.allow("resume", "quit")
        ward.send()
        running = ward.wait_state("running")
        server.kill()
        (tmp_path / "go").touch()
        eventually((folder_of(ward, running) / "exit").exists, lambda: list(folder_of(ward, running).iterdir()))
        with again(ward):
            row = ward.wait_result("fallback_resumed")
            eventually(lambda: not folder_of(ward, running).exists(), ward.listed)
        assert (row["activation_id"], row["reason"]) == (running["activation_id"], "mail_unread")
        assert (row["exit_status"], row["output"]) == (0, "the last words\n")


def attend(ward: Ward) -> Actor:
    """A bridge that is there, and dies before it does anything."""
    bridge = Actor(ward.server, "@system", bridge_token(ward))
    bridge.post("/v1/bridge/attend", bridge_id=BRIDGE_ID, version="1", started=True)
    (ward.folder / "data" / "bridge.lock").write_text(f"{BRIDGE_ID}\n")
    return bridge


def folder_of(ward: Ward, row: dict[str, Any]) -> Path:
    return ward.folder / "data" / "activations" / str(row["activation_id"])


def begin(ward: Ward, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """As the bridge that claimed it would, up to the moment at which it dies."""
    given = {"prompt": order["prompt"], "session": order["native_id"]}
    folder = Folder(folder_of(ward, order), processes.look)
    command = fill(order["command"], given)
    folder.begin(Order("default", order["activation_id"], order["fence"], order["harness"], command))
    return subprocess.Popen(keep_command(folder.path, 60), start_new_session=True)


@contextmanager
def again(ward: Ward) -> Iterator[None]:
    """The server comes back, with a bridge."""
    with server_in(ward.folder, bridge=True) as ward.server:
        ward.human.server = ward.bob.server = ward.server
        yield


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_the_server_has_given_up_is_ended_by_who_comes_back(tmp_path: Path) -> None:
    with server_in(tmp_path, bridge=True) as server:
        ward = Ward(server, tmp_path)
        ward.fall_silent()
        ward.allow("resume", "linger")
        ward.send()
        running = ward.wait_state("running")
        eventually(ward.children, ward.listed)
        ours = [running["pid"], json.loads(ward.ledger[0])["pid"], *ward.children()]
        server.kill()
    expire(tmp_path / "data" / "wakeline.db")
    with server_in(tmp_path, bridge=True) as server:
        ward.human.server = server
        eventually(lambda: not any(map(is_there, ours)), lambda: (ward.listed(), server.output))
        first = ward.attempts("resume")[0]
        assert (first["result"], first["reason"]) == ("failed", "lease_expired")
        (tmp_path / "go").touch()
        ward.wait_result("fallback_resumed")


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_was_given_up_and_ends_slowly_is_gone_before_the_next_begins(tmp_path: Path) -> None:
    with server_in(tmp_path, bridge=True) as server:
        ward = Ward(server, tmp_path)
        ward.fall_silent()
        ward.allow("resume", "stubborn")
        ward.send()
        ward.wait_state("running")
        eventually(lambda: ward.ledger, ward.listed)
        server.kill()
        expire(tmp_path / "data" / "wakeline.db")
        with again(ward):
            eventually(lambda: len(ward.ledger) > 1, lambda: (ward.listed(), ward.server.output))
            assert not is_there(json.loads(ward.ledger[0])["pid"])
            (tmp_path / "go").touch()
            ward.wait_result("fallback_resumed")
        assert len(ward.ledger) == 2


def expire(file: Path) -> None:
    """As if the bridge had been away for longer than the process may run, and the server had seen it."""
    connection = apsw.Connection(str(file))
    connection.execute(
        "UPDATE activations SET result = 'failed', reason = 'lease_expired', settled_at = created_at, "
        "lease_owner = NULL, "
        "lease_until = NULL, fence = fence + 1 WHERE result IS NULL"
    )
    connection.close()
