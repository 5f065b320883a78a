"""The official MCP conformance suite against the real server, with the fixtures that it asks for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.conformance.fixtures import COMMAND
from tests.conformance.proxy import TokenProxy
from wakeline.testing.server import COMMAND as SHIPPED
from wakeline.testing.server import ServerProcess

# Scenarios that judge the transport and need no fixtures: they also run against the server as it is shipped.
BARE = {
    "2025-11-25": ("server-initialize", "ping", "tools-list", "logging-set-level", "dns-rebinding-protection"),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
    ),
}


@pytest.fixture(scope="module", params=["fixtures", "shipped"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Which server, and where the suite finds it."""
    harness_tools.conformance()
    data = tmp_path_factory.mktemp("conformance") / "data"
    command = COMMAND if request.param == "fixtures" else SHIPPED
    with ServerProcess(data, command=command) as server, TokenProxy(server, server.add_agent("@suite")) as proxy:
        yield request.param, proxy.url
        assert "Traceback" not in server.output


def run(where: Path, *options: str) -> str:
    command = [*harness_tools.conformance(), "server", *options]
    done = subprocess.run(
        command, cwd=where, env=harness_tools.world(where), capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    return done.stdout


@pytest.mark.guarantee("G-MCP-CONFORMANCE")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_required_scenario_passes(served: tuple[str, str], tmp_path: Path, revision: str) -> None:
    kind, url = served
    if kind == "fixtures":
        scenarios = run(tmp_path, "--url", url, "--requirements", revision)
        required = scenarios.partition("=== SUMMARY ===")[2]
        unscored = set(re.findall(r"^  [✓✗] (\S+) \(", required, re.MULTILINE))
        passed = set(re.findall(r"^✓ ([\w./-]+):", required, re.MULTILINE)) - unscored
        failed = set(re.findall(r"^✗ ([\w./-]+):", required, re.MULTILINE)) - unscored
        assert not failed
        assert len(passed) >= 30
        return
    for scenario in BARE[revision]:
        run(tmp_path, "--url", url, "--scenario", scenario, "--spec-version", revision)
