from __future__ import annotations

import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, operator, raw
from wakeline.testing.server import ServerProcess


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("own") / "data") as process:
        yield process


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def over_unix(server: ServerProcess, path: str, **headers: str) -> tuple[int, bytes]:
    connection = server.connect_unix()
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.guarantee("G-OPERATOR")
def test_only_the_owner_can_open_the_socket(own: ServerProcess) -> None:
    assert stat.S_ISSOCK(own.socket.stat().st_mode)
    assert (mode(own.socket), mode(own.socket.parent), mode(own.data)) == (0o600, 0o700, 0o700)
    assert own.socket.is_relative_to(own.data)


def test_who_comes_over_the_socket_is_the_operator(own: ServerProcess) -> None:
    me = operator(own).get("/v1/whoami")
    assert (me["handle"], me["kind"], me["role"], me["operator"]) == ("@human", "human", "human", True)


def test_a_token_over_the_socket_is_who_it_says(own: ServerProcess) -> None:
    agent = new_agent(own)
    status, body = over_unix(own, "/v1/whoami", Authorization=f"Bearer {agent.token}")
    assert (status, agent.handle.encode() in body) == (200, True)


@pytest.mark.guarantee("G-OPERATOR")
@pytest.mark.parametrize("credentials", ["Bearer x", "Bearer ", "Basic x", ""])
def test_a_bad_token_over_the_socket_is_not_the_operator(own: ServerProcess, credentials: str) -> None:
    status, body = over_unix(own, "/v1/whoami", Authorization=credentials)
    assert (status, b"TOKEN_INVALID" in body) == (401, True)


@pytest.mark.guarantee("G-OPERATOR")
@pytest.mark.parametrize(
    "claim",
    [
        b"",
        b"Wakeline-Workspace: default\r\n",
        b"X-Forwarded-For: 127.0.0.1\r\n",
        b"X-Forwarded-For: unix\r\n",
        b"Forwarded: for=unix\r\n",
        b"X-Forwarded-Proto: unix\r\n",
        b"Host: localhost\r\nHost: localhost\r\n",
        b"Authorization: \r\n",
    ],
)
def test_nobody_is_the_operator_over_tcp(own: ServerProcess, claim: bytes) -> None:
    status, _, body = raw(own, b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n" + claim + b"\r\n")
    assert status in (400, 401)
    assert b"@human" not in body


def test_a_workspace_is_chosen_by_its_name(own: ServerProcess) -> None:
    operator(own).post("/v1/workspaces", name="team-b")
    assert operator(own, "team-b").get("/v1/whoami")["workspace"] == "team-b"
    assert operator(own).get("/v1/whoami")["workspace"] == "default"
    operator(own, "no-such-team").refused("WORKSPACE_NOT_FOUND", "GET", "/v1/whoami")
    operator(own, "\u00e9").refused("WORKSPACE_NOT_FOUND", "GET", "/v1/whoami")
    agent = new_agent(own, workspace="team-b")
    assert agent.get("/v1/whoami")["workspace"] == "team-b"
    elsewhere = Actor(own, agent.handle, agent.token, "default")
    elsewhere.refused("WORKSPACE_MISMATCH", "GET", "/v1/whoami")
    assert Actor(own, agent.handle, agent.token, "team-b").get("/v1/whoami")["handle"] == agent.handle


def test_a_path_too_long_for_a_socket_falls_back_and_is_recorded(tmp_path: Path) -> None:
    runtime = Path(tempfile.mkdtemp(prefix="wl-"))  # short, as a runtime directory is
    data = tmp_path / ("long-" * 30) / "data"
    with ServerProcess(data, environ={"XDG_RUNTIME_DIR": str(runtime)}) as server:
        record = data / "run" / "socket"
        assert server.socket == Path(record.read_text(encoding="utf-8").strip())
        assert server.socket.is_relative_to(runtime)
        assert (mode(server.socket), mode(server.socket.parent)) == (0o600, 0o700)
        assert operator(server).get("/v1/whoami")["operator"] is True
        left = server.socket
    assert not left.exists()
    shutil.rmtree(runtime)


def test_a_dead_servers_socket_is_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data).start()
    server.kill()
    assert server.socket.exists()
    with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.socket))
    with ServerProcess(data) as again:
        assert operator(again).get("/v1/whoami")["operator"] is True


def test_metrics_are_for_loopback_or_a_token(own: ServerProcess) -> None:
    status, _, body = raw(own, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, b"wakeline_request_seconds" in body) == (200, True)
    forwarded = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\n"  # as a proxy on this machine
    assert raw(own, forwarded + b"\r\n")[0] == 401
    token = str(new_agent(own).token).encode()
    assert raw(own, forwarded + b"Authorization: Bearer " + token + b"\r\n\r\n")[0] == 200


def test_metrics_count_strangers_and_refusals(own: ServerProcess) -> None:
    agent = new_agent(own)
    raw(own, b"GET /v1/inbox HTTP/1.1\r\nHost: x\r\n\r\n")
    error_of(agent.call("POST", "/v1/prune", {}), "ROLE_FORBIDDEN")
    text = own.call("GET", "/metrics").body.decode()
    assert "wakeline_unauthenticated_total" in text
    assert 'wakeline_refusals_total{code="ROLE_FORBIDDEN"}' in text
    assert 'operation="prune_log"' in text
