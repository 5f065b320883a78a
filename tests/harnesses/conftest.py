from __future__ import annotations

from collections.abc import Iterator

import pytest

from wakeline.testing.model import ModelServer


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server
