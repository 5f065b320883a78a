"""Several nodes on one PostgreSQL: forced interleavings, and what a reader sees of them."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.databases import until_alone
from tests.store import bells
from tests.store.builders import HOUR, agent, human, log_of, new_id, open_workspace, post, send, unread
from tests.store.elsewhere import Meanwhile, is_locked, on_another_node, until_waiting
from tests.store.places import PostgresPlace
from wakeline.core.log import Workspace
from wakeline.core.message import Box
from wakeline.core.parcel import Failed
from wakeline.core.queries import LogAfter, ReceiptsOf, WorkspaceById
from wakeline.core.store import Command, Search
from wakeline.core.waking import WakeRules
from wakeline.errors import Conflict, Unusable
from wakeline.flow.ack import MarkSeen
from wakeline.flow.deliver import Claim
from wakeline.flow.plan import Planned, Stamp
from wakeline.flow.post import Accepted
from wakeline.store.postgres import memory
from wakeline.store.postgres.connection import Connection, Links, Server
from wakeline.store.postgres.migration import renew_epoch
from wakeline.store.postgres.store import PostgresStore
from wakeline.store.postgres.writer import PATIENCE, Writer


@pytest.fixture
async def node(postgres: PostgresPlace) -> PostgresStore:
    return await postgres.open()


@pytest.fixture
async def workspace(node: PostgresStore) -> Workspace:
    return await open_workspace(node, "@ann", "@bob", "@cat")


async def ids(node: PostgresStore, workspace: Workspace) -> list[int]:
    return [entry.log.log_id for entry in await log_of(node, workspace)]


# -- another node commits between our load and our write ---------------------------------------------------------------


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_a_batch_that_was_overtaken_is_decided_again(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    theirs: list[Accepted] = []

    async def overtake(other: PostgresStore) -> None:
        theirs.append(await send(other, agent(workspace, "@cat"), "@ann @bob", "theirs"))

    slow = Meanwhile(post(agent(workspace, "@ann"), "@bob @cat", "ours"), lambda: on_another_node(postgres, overtake))
    ours = await node.submit(slow)
    assert slow.decisions == 2
    assert (theirs[0].log_id, ours.log_id) == (4, 5)
    assert (theirs[0].thread_id, theirs[0].seq, ours.seq) == (ours.thread_id, 1, 2)
    assert await ids(node, workspace) == [1, 2, 3, 4, 5]


@pytest.mark.guarantee("G-ONCE")
async def test_one_key_on_two_nodes_at_once_is_applied_once(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    theirs: list[Accepted] = []

    async def overtake(other: PostgresStore) -> None:
        theirs.append(await send(other, agent(workspace, "@ann"), "@bob", idempotency_key="k"))

    same = Meanwhile(
        post(agent(workspace, "@ann"), "@bob", idempotency_key="k"), lambda: on_another_node(postgres, overtake)
    )
    assert await node.submit(same) == theirs[0]
    assert await unread(node, agent(workspace, "@bob")) == 1


async def test_a_conflict_with_another_node_is_noticed(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    async def overtake(other: PostgresStore) -> None:
        await send(other, agent(workspace, "@ann"), "@bob", "theirs", idempotency_key="k")

    other_payload = post(agent(workspace, "@ann"), "@bob", "ours", idempotency_key="k")
    with pytest.raises(Conflict):
        await node.submit(Meanwhile(other_payload, lambda: on_another_node(postgres, overtake)))


async def test_a_chore_between_load_and_write_is_noticed(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    async def sweep(other: PostgresStore) -> None:
        assert await other.lapse_expired() == 1

    expired = await send(node, agent(workspace, "@ann"), "@bob", expires_at=await node.now() - 1)
    seen = Meanwhile(
        MarkSeen(agent(workspace, "@bob"), (expired.message_id,)), lambda: on_another_node(postgres, sweep)
    )
    await node.submit(seen)
    [receipt] = await node.read(ReceiptsOf(workspace.workspace_id, expired.log_id))
    assert (receipt.box, receipt.lapsed, receipt.seen_at is not None) == (Box.LAPSED, "expired", True)


async def fall_due(node: PostgresStore, workspace: Workspace, bare: asyncpg.Connection[asyncpg.Record]) -> Planned:
    """A webhook that failed once, and whose next attempt is due."""
    bell = bells.Bell(node, workspace)
    await bell.subscribe("@bob")
    await send(node, agent(workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Failed("server_error", "HTTP 500"))
    await bare.execute("UPDATE deliveries SET next_attempt_at = 1")
    return planned


def claim(planned: Planned, owner: str) -> Claim:
    delivery, stamp = planned.delivery, Stamp(new_id(), owner, bells.CLAIMS)
    ids = (delivery.delivery_id,), (delivery.subscription_id,)
    return Claim(delivery.workspace_id, *ids, WakeRules(), stamp)


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_a_claim_that_was_overtaken_takes_nothing(
    postgres: PostgresPlace,
    node: PostgresStore,
    workspace: Workspace,
    bare: asyncpg.Connection[asyncpg.Record],
) -> None:
    planned = await fall_due(node, workspace, bare)
    theirs: list[Planned] = []

    async def overtake(other: PostgresStore) -> None:
        theirs.extend(await other.submit(claim(planned, "other")))

    slow = Meanwhile(claim(planned, "ours"), lambda: on_another_node(postgres, overtake))
    assert await node.submit(slow) == []
    assert slow.decisions == 2
    [row] = await bells.Bell(node, workspace).deliveries()
    assert (row.lease_owner, row.attempts, row.fence) == ("other", 2, theirs[0].delivery.fence)


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_several_nodes_that_claim_at_once_send_once(
    postgres: PostgresPlace,
    node: PostgresStore,
    workspace: Workspace,
    bare: asyncpg.Connection[asyncpg.Record],
) -> None:
    nodes = [node, await postgres.open(), await postgres.open()]
    planned = await fall_due(node, workspace, bare)
    await bare.execute("BEGIN")
    await bare.execute("SELECT 1 FROM workspaces FOR UPDATE")  # so that none of them is done before the next begins
    claiming = [asyncio.create_task(one.submit(claim(planned, f"n{n}"))) for n, one in enumerate(nodes)]
    await until_waiting(bare)
    await bare.execute("COMMIT")
    taken = [one for found in await asyncio.gather(*claiming) for one in found]
    [row] = await bells.Bell(node, workspace).deliveries()
    assert [(one.delivery.lease_owner, one.delivery.fence) for one in taken] == [(row.lease_owner, row.fence)]
    assert row.attempts == 2


# -- another node holds the row when our write arrives -----------------------------------------------------------------


async def hold(bare: asyncpg.Connection[asyncpg.Record], workspace: Workspace) -> int:
    """Do what another node's write does, short of the commit; answers the log_id that it takes."""
    await bare.execute("BEGIN")
    log_id: int = await bare.fetchval(
        "UPDATE workspaces SET version = version + 1, last_log_id = last_log_id + 1 WHERE workspace_id = $1 "
        "RETURNING last_log_id",
        workspace.workspace_id,
    )
    await bare.execute(
        "INSERT INTO log VALUES ($1, $2, 'test', 'workspace', 0, '@system', NULL, NULL, 0)",
        workspace.workspace_id,
        log_id,
    )
    return log_id


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_a_write_that_waited_for_another_commit_writes_nothing_and_is_decided_again(
    postgres: PostgresPlace,
    node: PostgresStore,
    workspace: Workspace,
    bare: asyncpg.Connection[asyncpg.Record],
) -> None:
    theirs = await hold(bare, workspace)
    slow = Meanwhile(post(agent(workspace, "@ann"), "@bob"))
    writing = asyncio.create_task(node.submit(slow))
    await until_waiting(bare)
    assert slow.decisions == 1
    await bare.execute("COMMIT")
    ours = await writing
    assert (ours.log_id, slow.decisions) == (theirs + 1, 2)
    assert await ids(node, workspace) == list(range(1, ours.log_id + 1))
    assert await unread(node, agent(workspace, "@bob")) == 1


async def test_a_write_that_waited_for_another_rollback_goes_through_as_decided(
    postgres: PostgresPlace,
    node: PostgresStore,
    workspace: Workspace,
    bare: asyncpg.Connection[asyncpg.Record],
) -> None:
    theirs = await hold(bare, workspace)
    slow = Meanwhile(post(agent(workspace, "@ann"), "@bob"))
    writing = asyncio.create_task(node.submit(slow))
    await until_waiting(bare)
    await bare.execute("ROLLBACK")
    ours = await writing
    assert (ours.log_id, slow.decisions) == (theirs, 1)
    assert await ids(node, workspace) == list(range(1, ours.log_id + 1))


# -- the pessimistic way -----------------------------------------------------------------------------------------------


async def test_after_a_conflict_the_workspace_is_held_while_deciding_and_later_no_more(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    held: list[bool] = []

    def look() -> None:
        held.append(is_locked(postgres, workspace.workspace_id))

    async def overtake(other: PostgresStore) -> None:
        await send(other, agent(workspace, "@cat"), "@bob")

    command = post(agent(workspace, "@ann"), "@bob")
    await node.submit(Meanwhile(command, lambda: on_another_node(postgres, overtake), look))
    for _ in range(PATIENCE):
        await node.submit(Meanwhile(post(agent(workspace, "@ann"), "@bob"), look))
    assert held == [True] * PATIENCE + [False]
    assert await ids(node, workspace) == list(range(1, 3 + PATIENCE + 3))


async def test_a_batch_is_one_query_or_two_and_after_conflicts_four(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "FRESH_SECONDS", 3600)  # however slow the machine is
    queries: list[str] = []

    async def connect() -> Connection:
        connection = await Server.parse(postgres.url).connect("writer", by_key=True)
        connection.add_query_logger(lambda query: queries.append(query.query))
        return connection

    async def cost(command: Command[Accepted]) -> int:
        queries.clear()
        await writer.submit(command)
        return len(queries)

    async def overtake(other: PostgresStore) -> None:
        await send(other, agent(workspace, "@cat"), "@bob")

    links = Links(connect, 1, lambda: 0.0)
    writer = Writer(links, lambda _workspace_id, _log_id: None)
    mail = [post(agent(workspace, "@ann"), "@bob") for _ in range(6)]
    assert [await cost(mail[0]), await cost(mail[1])] == [2, 1]  # loaded, and then from memory
    assert await cost(Meanwhile(mail[2], lambda: on_another_node(postgres, overtake))) == 1 + 2
    assert await cost(mail[3]) == 1
    again = [lambda: on_another_node(postgres, overtake)] * 2
    assert await cost(Meanwhile(mail[4], *again)) == 1 + 2 + 4
    assert await cost(mail[5]) == 4
    assert (queries[0].split()[0], queries[-1]) == ("BEGIN", "COMMIT")
    await links.close()


async def test_a_refusal_and_a_bug_under_the_lock_let_go_of_it(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    async def overtake(other: PostgresStore) -> None:
        await send(other, agent(workspace, "@cat"), "@bob")

    def fail() -> None:
        raise AttributeError("a bug")

    await node.submit(Meanwhile(post(agent(workspace, "@ann"), "@bob"), lambda: on_another_node(postgres, overtake)))
    with pytest.raises(Exception, match="bug"):
        await node.submit(Meanwhile(post(agent(workspace, "@ann"), "@bob"), fail))
    assert not is_locked(postgres, workspace.workspace_id)
    assert caplog.records
    await send(node, agent(workspace, "@ann"), "@bob")


async def test_nodes_that_write_all_the_time_all_get_on(postgres: PostgresPlace, workspace: Workspace) -> None:
    nodes = [await postgres.open() for _ in range(3)]
    commands = [Meanwhile(post(agent(workspace, "@ann"), "@bob")) for _ in range(90)]

    async def write(node: PostgresStore, mine: list[Meanwhile[Accepted]]) -> None:
        for command in mine:
            await node.submit(command)

    await asyncio.gather(*(write(node, commands[n::3]) for n, node in enumerate(nodes)))
    assert max(command.decisions for command in commands) <= 3  # from memory, after a load, under the lock
    assert await ids(nodes[0], workspace) == list(range(1, 94))


# -- readers -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_a_tailing_reader_never_skips_or_repeats_a_row(postgres: PostgresPlace, workspace: Workspace) -> None:
    *writers, reader = [await postgres.open() for _ in range(4)]
    total = 3 + len(writers) * 8 * 10
    seen: list[int] = []

    async def tail() -> None:
        while len(seen) < total:
            page = await reader.read(LogAfter(workspace.workspace_id, seen[-1] if seen else 0, 17))
            seen.extend(entry.log.log_id for entry in page)
            assert seen == list(range(1, len(seen) + 1))

    async def write(node: PostgresStore, sender: str) -> None:
        for _ in range(10):
            await send(node, agent(workspace, sender), "@bob")

    writing = [write(node, sender) for node in writers for sender in ("@ann", "@bob", "@cat", "@human") * 2]
    await asyncio.gather(tail(), *writing)
    assert len(seen) == total


# -- doorbells ---------------------------------------------------------------------------------------------------------


class Bell:
    """Collects rings; `wait_for` ends when a certain one was heard since it was last waited for."""

    def __init__(self, node: PostgresStore) -> None:
        self._rings: asyncio.Queue[int] = asyncio.Queue()
        node.on_commit(self._rings.put_nowait)

    async def wait_for(self, workspace_id: int) -> None:
        while await self._rings.get() != workspace_id:
            pass

    @property
    def is_quiet(self) -> bool:
        return self._rings.empty()


async def detail(node: PostgresStore, name: str) -> str:
    return next(text for check, _, text in await node.check() if check == name)


async def test_a_commit_rings_at_every_node(postgres: PostgresPlace, node: PostgresStore, workspace: Workspace) -> None:
    other = await postgres.open()
    bells = [Bell(node), Bell(other)]
    assert await detail(other, "doorbell") == "LISTEN works"
    await send(node, agent(workspace, "@ann"), "@bob")
    await asyncio.gather(*(bell.wait_for(workspace.workspace_id) for bell in bells))


async def test_our_own_commit_rings_once(postgres: PostgresPlace, node: PostgresStore, workspace: Workspace) -> None:
    other = await postgres.open()
    ours, theirs = Bell(node), Bell(other)
    await send(node, agent(workspace, "@ann"), "@bob")
    await ours.wait_for(workspace.workspace_id)
    await theirs.wait_for(workspace.workspace_id)
    await send(other, agent(workspace, "@ann"), "@bob")
    await ours.wait_for(workspace.workspace_id)  # whatever came before it has come by now
    assert ours.is_quiet


@pytest.mark.guarantee("G-DOORBELL")
async def test_a_lost_doorbell_costs_latency_and_no_message(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    other = await postgres.open()
    bell = Bell(node)
    await bare.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'wakeline doorbell' AND datname = current_database()"
    )
    sent = await send(other, agent(workspace, "@ann"), "@bob")
    await bell.wait_for(0)
    assert (await ids(node, workspace))[-1] == sent.log_id
    while await detail(node, "doorbell") != "LISTEN works":
        await bell.wait_for(0)
    await send(other, agent(workspace, "@ann"), "@bob")
    await bell.wait_for(workspace.workspace_id)


# -- chores and search on several nodes --------------------------------------------------------------------------------


async def test_chores_of_several_nodes_do_not_lock_each_other_out(postgres: PostgresPlace) -> None:
    nodes = [await postgres.open() for _ in range(3)]
    workspaces = [await open_workspace(nodes[0], "@ann", "@bob", name=f"w{n}") for n in range(4)]

    async def chores(node: PostgresStore) -> None:
        for where in workspaces:
            await node.lapse_expired()
            await send(node, agent(where, "@ann"), "@bob")
            await node.prune(where.workspace_id, before=None, keep=1000)

    await asyncio.gather(*map(chores, nodes))


async def test_nodes_index_each_message_once_between_them(postgres: PostgresPlace, workspace: Workspace) -> None:
    nodes = [await postgres.open() for _ in range(3)]
    await asyncio.gather(*(send(nodes[0], agent(workspace, "@ann"), "@bob", f"needle w{n}") for n in range(600)))
    assert sum(await asyncio.gather(*(node.index() for node in nodes))) == 600


@pytest.mark.guarantee("G-SEARCH")
async def test_a_search_waits_for_the_node_that_is_indexing(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    await node.index()
    sent = await send(node, agent(workspace, "@ann"), "@bob", "needle")
    await bare.execute("BEGIN")
    await bare.execute("SELECT 1 FROM consumers WHERE name = 'search' FOR UPDATE")
    assert await node.index() == 0
    searching = asyncio.create_task(
        node.search(Search(workspace.workspace_id, ("needle",), "@ann", False, None, None, 10))
    )
    await until_waiting(bare)
    await bare.execute("ROLLBACK")
    assert [found.message_id for found in await searching] == [sent.message_id]


async def test_a_forgotten_message_leaves_no_words_behind(
    node: PostgresStore, workspace: Workspace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    sent = await send(node, agent(workspace, "@ann"), "@bob", "needle")
    await node.index()
    assert await bare.fetchval("SELECT count(*) FROM search_index") == 1
    await node.transact([("forget_messages", {"thread_id": sent.thread_id})])
    assert await bare.fetchval("SELECT count(*) FROM search_index") == 0


# -- operations --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-EPOCH")
async def test_a_restored_copy_gets_a_new_epoch(
    postgres: PostgresPlace, workspace: Workspace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    await postgres.close()
    await until_alone(bare)
    epoch = await renew_epoch(postgres.url)
    node = await postgres.open()
    [row] = await node.read(WorkspaceById(workspace.workspace_id))
    assert (row.epoch, row.last_log_id) == (epoch, 3)
    assert epoch != workspace.epoch
    assert (await send(node, agent(workspace, "@ann"), "@bob")).epoch == epoch


async def test_the_epoch_stays_while_a_node_runs(
    postgres: PostgresPlace, node: PostgresStore, workspace: Workspace
) -> None:
    with pytest.raises(Unusable, match="nothing was changed") as refused:
        await renew_epoch(postgres.url)
    assert refused.value.code == "STORE_LOCKED"
    [row] = await node.read(WorkspaceById(workspace.workspace_id))
    assert row.epoch == workspace.epoch


async def test_nothing_relies_on_the_session_behind_a_pooler(postgres: PostgresPlace) -> None:
    separator = "&" if "?" in postgres.url else "?"
    pooled = PostgresPlace(f"{postgres.url}{separator}pgbouncer=true")
    node = await pooled.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    sent = [await send(node, agent(workspace, "@ann"), "@bob", "needle") for _ in range(2)]
    assert [accepted.seq for accepted in sent] == [1, 2]
    assert len(await node.search(Search(workspace.workspace_id, ("needle",), "@ann", False, None, None, 10))) == 2
    assert await node.prune(workspace.workspace_id, before=await node.now() + HOUR, keep=None) == 4
    await send(node, human(workspace), "everyone")
    await pooled.close()
