"""Who reads while the log is pruned is told that rows are gone; nobody goes on as if there had been none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.builders import UNGUARDED, agent, coordinator, human, log_of, new_id, send
from tests.store.places import Place, SqlitePlace
from wakeline import wire
from wakeline.core.log import Workspace
from wakeline.core.principal import Caller
from wakeline.core.queries import LogMembers, Query, TokenFor
from wakeline.core.store import Store
from wakeline.errors import Gone, Unauthorized
from wakeline.flow.enrol import ChangePrincipal, RevokeToken
from wakeline.runtime import clock
from wakeline.runtime.parts import assemble
from wakeline.runtime.settings import Settings
from wakeline.service import Hub, Published, Stream, log
from wakeline.service.context import Context
from wakeline.service.log import Logs

READERS = pytest.mark.parametrize("reader", [agent, coordinator])


class Interrupted:
    """A store in which something happens just before a read of one kind."""

    def __init__(self, store: Store, kind: type[Query[Any]], interrupt: Callable[[], Awaitable[Any]]) -> None:
        self._store = store
        self._kind = kind
        self._interrupt = interrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, query: Query[Any]) -> list[Any]:
        [found] = await self.read_together(query)
        return found

    async def read_together(self, *queries: Query[Any]) -> list[list[Any]]:
        if any(isinstance(query, self._kind) for query in queries):
            await self._interrupt()
        return await self._store.read_together(*queries)


async def prune(store: Store, workspace: Workspace, keep: int) -> None:
    await store.index()  # pruning waits for it
    assert await store.prune(workspace.workspace_id, before=None, keep=keep)


async def post(store: Store, workspace: Workspace, count: int) -> list[int]:
    return [(await send(store, agent(workspace, "@ann"), "@bob", str(n))).log_id for n in range(count)]


async def logs_of(store: Store) -> Logs:
    hub = Hub(store)
    await hub.start()
    return Logs(Context(store, UNGUARDED, new_id), hub)


@READERS
@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_who_catches_up_is_told_when_the_log_is_pruned_between_two_pages(
    store: Store,
    workspace: Workspace,
    reader: Callable[[Workspace, str], Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "PAGE", 2)
    posted = await post(store, workspace, 8)
    pages = aiter((await logs_of(store)).catch_up(reader(workspace, "@bob"), posted[0] - 1))
    assert [row.log.log_id for row in await anext(pages)] == posted[:2]
    await prune(store, workspace, keep=6)
    assert [row.log.log_id for row in await anext(pages)] == posted[2:4]  # nothing of it is gone yet
    await prune(store, workspace, keep=2)
    with pytest.raises(Gone) as gone:
        await anext(pages)
    assert gone.value.code == "POSITION_EXPIRED"
    assert gone.value.details == {"unread": 8, "position": f"e1-{posted[-1]}"}


@READERS
@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_a_page_of_the_log_is_refused_when_its_rows_are_pruned_after_its_position_was_checked(
    store: Store, workspace: Workspace, reader: Callable[[Workspace, str], Caller]
) -> None:
    posted = await post(store, workspace, 4)
    kind = type(log._page_of(reader(workspace, "@bob"), 0, 0, 0))  # noqa: SLF001 - what the page is read with
    racing: Any = Interrupted(store, kind, lambda: prune(store, workspace, keep=1))
    with pytest.raises(Gone) as gone:
        await (await logs_of(racing)).page(reader(workspace, "@bob"), wire.LogQuery(after=f"e1-{posted[0]}"))
    assert gone.value.code == "POSITION_EXPIRED"


async def listening(store: Store, caller: Caller) -> tuple[Hub, Stream[Published]]:
    """A listener that has all, and whose hub has yet to look at what comes now."""
    hub = Hub(store)
    await hub.start()
    stream = hub.open(caller, lambda: None)
    hub.join(stream, hub.tail(caller.workspace_id))
    hub.look(caller.workspace_id)
    return hub, stream


async def follow_until(hub: Hub, is_done: Callable[[], bool]) -> None:
    running = asyncio.create_task(hub.run())
    async with asyncio.timeout(20):
        while not is_done():  # noqa: ASYNC110 - the hub tells only its listeners, and here they are closed
            await asyncio.sleep(0)
    running.cancel()


@READERS
@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_who_listens_begins_again_when_rows_are_pruned_before_the_hub_has_come_to_them(
    store: Store, workspace: Workspace, reader: Callable[[Workspace, str], Caller]
) -> None:
    hub, stream = await listening(store, reader(workspace, "@bob"))
    own = await hub.attach(human(workspace))
    waiter = hub.expect_reply(reader(workspace, "@bob"), "message")
    *_, last = await post(store, workspace, 4)
    await prune(store, workspace, keep=1)
    await follow_until(hub, lambda: hub.tail(workspace.workspace_id) == last)
    assert stream.closed
    assert own.closed
    assert waiter.closed
    assert not stream.queue


@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_who_listens_begins_again_when_rows_are_pruned_while_their_readers_are_looked_up(
    store: Store, workspace: Workspace
) -> None:
    once = [prune]
    racing: Any = Interrupted(
        store, LogMembers, lambda: once.pop()(store, workspace, keep=1) if once else asyncio.sleep(0)
    )
    hub, stream = await listening(racing, agent(workspace, "@bob"))
    *_, last = await post(store, workspace, 4)
    await follow_until(hub, lambda: hub.tail(workspace.workspace_id) == last)
    assert stream.closed


async def test_rows_that_are_all_there_end_no_stream(store: Store, workspace: Workspace) -> None:
    hub, stream = await listening(store, human(workspace))
    await store.submit(ChangePrincipal(human(workspace), "@cat", ("reviewer",), None, None))
    [*_, last] = await post(store, workspace, 2)
    await follow_until(hub, lambda: hub.tail(workspace.workspace_id) == last)
    assert not stream.closed
    assert [one.entry for one in stream.queue if one is not None] == (await log_of(store, workspace))[-3:]


@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_no_right_is_remembered_when_rows_are_pruned_that_may_have_ended_it(
    place: Place, store: Store, workspace: Workspace, tmp_path: Path
) -> None:
    if isinstance(place, SqlitePlace):
        place.now = clock.now()  # tokens are dated
    services = (await assemble(Settings(data=tmp_path), store)).services
    made = await services.principals.create_token(human(workspace), wire.CreateToken(handle="@ann"))
    assert (await services.identity.verify(made.token)).handle == "@ann"
    told: list[str | None] = []
    services.hub.on_control(lambda row: told.append(row.subject))
    services.hub.look(workspace.workspace_id)
    [token] = await store.read(TokenFor(made.jti))
    await store.submit(RevokeToken(human(workspace), made.jti, token))  # as another node does
    await store.submit(ChangePrincipal(human(workspace), "@cat", ("reviewer",), None, None))
    await prune(store, workspace, keep=1)
    await follow_until(services.hub, lambda: bool(told))
    assert told == ["@cat"]
    with pytest.raises(Unauthorized) as refused:
        await services.identity.verify(made.token)
    assert refused.value.code == "TOKEN_REVOKED"
