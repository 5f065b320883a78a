"""Nodes that are started together on an empty database: each finds it empty, one fills it, and all serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from tests.store.places import PostgresPlace
from wakeline import wire
from wakeline.core.queries import AllWorkspaces, IssuerKeys, Query
from wakeline.core.store import Store
from wakeline.errors import Unusable
from wakeline.runtime.parts import assemble
from wakeline.runtime.settings import Settings
from wakeline.service import Services


class Overtaken:
    """A store in which something happens just after the first read of one kind."""

    def __init__(self, store: Store, kind: type[Query[Any]], overtake: Callable[[], Awaitable[Any]]) -> None:
        self._store = store
        self._kind = kind
        self._overtake = [overtake]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, query: Query[Any]) -> list[Any]:
        found = await self._store.read(query)
        if isinstance(query, self._kind) and self._overtake:
            await self._overtake.pop()()
        return found


async def start(place: PostgresPlace, data: Path, key: str) -> Services:
    return (await assemble(Settings(data=data, key=key), await place.open())).services


async def token_of(services: Services, handle: str) -> str:
    operator = await services.identity.operator(None)
    return str((await services.principals.add(operator, wire.AddAgent(handle=handle))).token)


@pytest.mark.parametrize("kind", [AllWorkspaces, IssuerKeys])
async def test_a_node_that_is_overtaken_in_its_first_start_serves_like_the_other(
    postgres: PostgresPlace, tmp_path: Path, kind: type[Query[Any]]
) -> None:
    key = Fernet.generate_key().decode()
    faster: list[Services] = []

    async def overtake() -> None:
        faster.append(await start(postgres, tmp_path, key))

    store: Any = Overtaken(await postgres.open(), kind, overtake)
    slower = (await assemble(Settings(data=tmp_path, key=key), store)).services
    assert len(await store.read(AllWorkspaces())) == len(await store.read(IssuerKeys())) == 1
    for here, there, handle in ((slower, faster[0], "@ann"), (faster[0], slower, "@bob")):
        token = await token_of(here, handle)
        assert (await there.identity.verify(token)).handle == handle


async def test_a_node_with_another_key_that_is_overtaken_in_its_first_start_is_refused(
    postgres: PostgresPlace, tmp_path: Path
) -> None:
    async def overtake() -> None:
        await start(postgres, tmp_path / "one", Fernet.generate_key().decode())

    store: Any = Overtaken(await postgres.open(), IssuerKeys, overtake)
    with pytest.raises(Unusable) as refused:
        await assemble(Settings(data=tmp_path / "two", key=Fernet.generate_key().decode()), store)
    assert refused.value.code == "KEY_MISMATCH"
