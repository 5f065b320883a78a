from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import fresh_postgres
from wakeline.testing.server import ServerProcess


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
