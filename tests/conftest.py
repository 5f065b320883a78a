from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.databases import fresh_postgres
from wakeline.testing.server import ServerProcess

# How long an example takes says something about the machine, not about the code.
settings.register_profile("wakeline", deadline=None)
settings.load_profile("wakeline")

# The inner loop: decisions, the store on SQLite, and one module that goes through a real server.
QUICK = (
    "tests/core/",
    "tests/flow/",
    "tests/runtime/",
    "tests/store/",
    "tests/harnesses/test_claude_code_turns",
    "tests/faces/test_client_calls",
    "tests/faces/test_http_messages",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "postgres" in item.nodeid or not item.nodeid.startswith(QUICK):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A fresh server on SQLite."""
    with ServerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that the tests of one module share, once on each database.  Use handles of your own."""
    data = tmp_path_factory.mktemp("node") / "data"
    if request.param == "sqlite":
        with ServerProcess(data) as process:
            yield process
        return
    with fresh_postgres() as url, ServerProcess(data, database=url) as process:
        yield process
