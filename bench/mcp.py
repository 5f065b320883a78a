"""MCP over HTTP, 16 calls in flight: `post_message`, durable, beside a tool that only echoes, in both eras.

Then once more with a stream open in each session, so that every message makes a wake for its receiver.  An echo has
nothing like it, so that figure is for information.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import load
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, take_turns
from bench.servers import ROOT, UNLIMITED, Session, enrol, port_of, text
from wakeline.testing.server import ServerProcess

NAME = "mcp"
UNIT = "calls/s"
IN_FLIGHT = 16
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(token: str, body: dict[str, Any], **headers: str) -> bytes:
    content = json.dumps({"jsonrpc": "2.0", **body}).encode()
    about = {"Content_Type": "application/json", "Content_Length": str(len(content))}
    return head_of("POST", token, **about, **headers) + content


def head_of(method: str, token: str, **headers: str) -> bytes:
    lines = {
        "Host": "localhost",
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    said = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} /mcp HTTP/1.1\r\n{said}\r\n".encode()


def open_session(server: ServerProcess, token: str) -> str:
    """A session of the handshake era, with its handshake complete, as every client completes it."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    answer = exchange(server, request(token, {"id": 1, "method": "initialize", "params": params}))
    head = answer.partition(b"\r\n\r\n")[0].decode().lower()
    session = head.partition("mcp-session-id: ")[2].partition("\r\n")[0]
    exchange(server, request(token, {"method": "notifications/initialized"}, Mcp_Session_Id=session))
    return session


def open_stream(server: ServerProcess, token: str, session: str) -> socket.socket:
    """From then on the agent can be told of wakes.  They are few, so nobody need read them."""
    connection = load.connect(port_of(server))
    connection.sendall(head_of("GET", token, Mcp_Session_Id=session))
    require_served(connection.recv(65_536))
    return connection


def exchange(server: ServerProcess, asked: bytes) -> bytes:
    connection = load.connect(port_of(server))
    connection.sendall(asked)
    answer = connection.recv(65_536)
    while not load.is_whole(answer):
        answer += connection.recv(65_536)
    connection.close()
    require_served(answer)
    return answer


def require_served(answer: bytes) -> None:
    if not answer.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(f"expected to be served, got {answer[:600]!r}")


class Contender:
    """Sixteen agents that call one tool, each over a connection of its own, and in the older era in its one session."""

    def __init__(
        self, server: ServerProcess, era: str, tool: str, seconds: float, agents: list[Any], sessions: dict[str, str]
    ) -> None:
        self._server, self._seconds, self._sessions = server, seconds, sessions
        self._session, self._reader = Session(server), agents[0].token
        self._requests = [[self._request(era, tool, agent, agents[number - 1])] for number, agent in enumerate(agents)]

    def _request(self, era: str, tool: str, agent: Any, other: Any) -> bytes:
        arguments = {"body": text(agent.handle), "to": [other.handle]}
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if era == STATELESS:
            headers = {"MCP_Protocol_Version": era, "Mcp_Method": "tools/call", "Mcp_Name": tool}
            call = {"id": 1, "method": "tools/call", "params": {**params, "_meta": _META}}
            return request(agent.token, call, **headers)
        call = {"id": 1, "method": "tools/call", "params": params}
        return request(agent.token, call, Mcp_Session_Id=self._sessions[agent.handle])

    def __call__(self) -> float:
        rate = isolated(load.drive, port_of(self._server), self._requests, self._seconds, 200).rate
        self._session.settle(self._reader)
        return rate


def measure(plan: Plan) -> list[Figure]:
    command = [sys.executable, "-m", "bench.mcp_server"]
    with tempfile.TemporaryDirectory(prefix="wakeline-bench-") as folder:
        server = ServerProcess(Path(folder) / "data", command=command, environ={"PYTHONPATH": str(ROOT)}, **UNLIMITED)
        with server:
            agents = enrol(Session(server), "caller", IN_FLIGHT)
            sessions = {agent.handle: open_session(server, agent.token) for agent in agents}
            contenders: dict[str, Callable[[], float]] = {
                f"{tool} {era}": Contender(server, era, tool, plan.seconds, agents, sessions)
                for era in (STATELESS, HANDSHAKE)
                for tool in ("post_message", "echo")
            }
            measured = take_turns(NAME, plan.rounds, contenders, UNIT)
            with ExitStack() as streams:
                for agent in agents:
                    streams.enter_context(open_stream(server, agent.token, sessions[agent.handle]))
                woken = {f"{name}, woken": run for name, run in contenders.items() if HANDSHAKE in name}
                measured |= take_turns(NAME, plan.rounds, woken, UNIT)
    rates = {name: median(values) for name, values in measured.items()}
    note = "reference: a tool that echoes its arguments, on the same server, same authentication, 16 in flight"
    figures = [
        figure(
            f"{NAME}: post_message, {era}",
            rates[f"post_message {era}"],
            rates[f"echo {era}"],
            UNIT,
            note,
            at_least=0.75,
        )
        for era in (STATELESS, HANDSHAKE)
    ]
    posts, echoes = (rates[f"{tool} {HANDSHAKE}, woken"] for tool in ("post_message", "echo"))
    name = f"{NAME}: post_message, {HANDSHAKE}, every receiver woken"
    return [*figures, figure(name, posts, echoes, UNIT, f"{note}; each message makes a wake for its receiver")]
