"""MCP over HTTP, 16 calls in flight: `post_message`, durable, beside a tool that only echoes, in both eras."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
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
    content = json.dumps({"jsonrpc": "2.0", "id": 1, **body}).encode()
    lines = {
        "Host": "localhost",
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + content


def open_session(server: ServerProcess, token: str) -> str:
    """A session of the handshake era."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    connection = load.connect(port_of(server))
    connection.sendall(request(token, {"method": "initialize", "params": params}))
    answer = connection.recv(65_536)
    while not load.is_whole(answer):
        answer += connection.recv(65_536)
    connection.close()
    head = answer.partition(b"\r\n\r\n")[0].decode().lower()
    return head.partition("mcp-session-id: ")[2].partition("\r\n")[0]


class Contender:
    """Sixteen agents that call one tool, each over a connection of its own."""

    def __init__(self, server: ServerProcess, era: str, tool: str, seconds: float, agents: list[Any]) -> None:
        self._server, self._seconds = server, seconds
        self._session, self._reader = Session(server), agents[0].token
        self._requests = [[self._request(era, tool, agent, agents[number - 1])] for number, agent in enumerate(agents)]

    def _request(self, era: str, tool: str, agent: Any, other: Any) -> bytes:
        arguments = {"body": text(agent.handle), "to": [other.handle]}
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if era == STATELESS:
            headers = {"MCP_Protocol_Version": era, "Mcp_Method": "tools/call", "Mcp_Name": tool}
            return request(agent.token, {"method": "tools/call", "params": {**params, "_meta": _META}}, **headers)
        session = open_session(self._server, agent.token)
        return request(agent.token, {"method": "tools/call", "params": params}, Mcp_Session_Id=session)

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
            contenders: dict[str, Callable[[], float]] = {
                f"{tool} {era}": Contender(server, era, tool, plan.seconds, agents)
                for era in (STATELESS, HANDSHAKE)
                for tool in ("post_message", "echo")
            }
            measured = take_turns(NAME, plan.rounds, contenders, UNIT)
    rates = {name: median(values) for name, values in measured.items()}
    note = "reference: a tool that echoes its arguments, on the same server, same authentication, 16 in flight"
    return [
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
