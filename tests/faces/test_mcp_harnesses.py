"""The real harnesses show our server as connected, without a login."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.faces.http_calls import Actor, new_agent
from wakeline.faces.mcp.tools import TOOLS
from wakeline.testing.server import ServerProcess

STDIO = [sys.executable, "-m", "wakeline", "mcp"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    with ServerProcess(tmp_path_factory.mktemp("harness") / "data") as server:
        yield new_agent(server, "harness")


def claude(home: Path, *words: str) -> str:
    done = subprocess.run(
        [*harness_tools.claude(), "mcp", *words],
        env=harness_tools.world(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.guarantee("G-MCP-HARNESSES")
def test_claude_code_is_connected_over_http_and_stdio(agent: Actor, tmp_path: Path) -> None:
    url = f"{agent.server.url}/mcp"
    harness_tools.world(tmp_path)
    claude(
        tmp_path,
        "add",
        "-s",
        "user",
        "--transport",
        "http",
        "web",
        url,
        "--header",
        f"Authorization: Bearer {agent.token}",
    )
    given = ("-e", f"WAKELINE_TOKEN={agent.token}", "-e", f"WAKELINE_DATA={agent.server.data}")
    claude(tmp_path, "add", "-s", "user", "pipe", *given, "--", *STDIO)
    listed = claude(tmp_path, "list")
    assert sum("Connected" in line for line in listed.splitlines()) == 2, listed


class Codex:
    """`codex app-server`, spoken to by hand."""

    def __init__(self, home: Path, **environ: str) -> None:
        self._process = subprocess.Popen(
            [*harness_tools.codex(), "app-server"],
            env=harness_tools.world(home, **environ),
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._number = 0

    def say(self, method: str, **fields: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **fields}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self.say(method, id=self._number, params=params)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                return answer["result"]
        pytest.fail("codex ended")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.mark.guarantee("G-MCP-HARNESSES")
def test_codex_lists_the_tools_over_http_and_stdio(agent: Actor, tmp_path: Path) -> None:
    config = tmp_path / ".codex"
    config.mkdir()
    words = ", ".join(json.dumps(word) for word in STDIO[1:])
    (config / "config.toml").write_text(
        f'[mcp_servers.web]\nurl = "{agent.server.url}/mcp"\nbearer_token_env_var = "WAKELINE_TOKEN"\n\n'
        f'[mcp_servers.pipe]\ncommand = "{STDIO[0]}"\nargs = [{words}]\n'
        f'env = {{ WAKELINE_TOKEN = "{agent.token}", WAKELINE_DATA = "{agent.server.data}" }}\n'
    )
    codex = Codex(tmp_path, WAKELINE_TOKEN=agent.token or "")
    try:
        codex.ask("initialize", clientInfo={"name": "test", "version": "1"})
        codex.say("initialized")
        found = {one["name"]: one for one in codex.ask("mcpServerStatus/list")["data"]}
    finally:
        codex.close()
    for name in ("web", "pipe"):
        assert found[name]["serverInfo"]["name"] == "wakeline", found[name]
        assert set(found[name]["tools"]) == {tool.name for tool in TOOLS}
