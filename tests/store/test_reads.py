"""Reads: every query runs on both databases and gives what its type says."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, get_args

import msgspec
import pytest

from tests.store.builders import HOUR, HUMAN, agent, human, log_of, open_workspace, send
from wakeline.core import queries
from wakeline.core.log import Workspace
from wakeline.core.queries import (
    AllWorkspaces,
    BlockList,
    Figures,
    GrantList,
    IssuerKeys,
    LogMembers,
    LogVisible,
    PrincipalFor,
    PrincipalList,
    Query,
    StatusFigures,
    TokenList,
    UnreadCount,
    WorkspaceById,
)
from wakeline.core.records import IssuerKey, Token
from wakeline.core.store import Store
from wakeline.errors import Conflict, Forbidden, InvalidArgument, Unauthorized
from wakeline.flow.enrol import ChangePrincipal, IssueToken, RevokeToken
from wakeline.flow.permit import ChangeBlock, ChangeGrant
from wakeline.wire import QuietHours

QUERIES = sorted(
    (
        kind
        for kind in vars(queries).values()
        if isinstance(kind, type) and issubclass(kind, Query) and kind is not Query
    ),
    key=lambda kind: kind.__name__,
)
_SAMPLES = {bool: False, int: 1, str: "x"}


def sample(kind: type[Query[Any]]) -> Query[Any]:
    fields = msgspec.structs.fields(kind)
    return kind(**{field.name: _SAMPLES[(get_args(field.type) or (field.type,))[0]] for field in fields})


async def test_every_query_runs(store: Store) -> None:
    for kind in QUERIES:
        assert isinstance(await store.read(sample(kind)), list), kind.__name__
    assert len(await store.read_together(*map(sample, QUERIES))) == len(QUERIES)


async def test_reads_together_are_of_one_moment(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    done = asyncio.Event()

    async def keep_sending() -> None:
        while not done.is_set():
            await send(store, agent(workspace, "@ann"), "@bob")

    sending = asyncio.create_task(keep_sending())
    asked = (
        UnreadCount(bob.workspace_id, "@bob", await store.now()),
        WorkspaceById(workspace.workspace_id),
        UnreadCount(bob.workspace_id, "@bob", await store.now()),
    )
    seen: set[int] = set()
    while len(seen) < 5:
        [before], [row], [after] = await store.read_together(*asked)
        assert before == after == row.last_log_id - 3
        seen.add(before)
        await asyncio.sleep(0)
    done.set()
    await sending


@pytest.mark.guarantee("G-VISIBLE")
async def test_the_log_shows_a_reader_only_what_concerns_it(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    await send(store, agent(workspace, "@ann"), "@cat")
    seen = await store.read(LogVisible(workspace.workspace_id, 0, 100, "@bob", 100))
    assert [(entry.log.kind, entry.log.subject) for entry in seen] == [
        ("agent.added", "@bob"),
        ("message.posted", sent.message_id),
    ]
    assert seen[-1].message is not None
    members = await store.read(LogMembers(workspace.workspace_id, 0, 100))
    assert sorted(members) == [(4, "@ann"), (4, "@bob"), (5, "@ann"), (5, "@cat")]
    assert [entry.log.log_id for entry in await log_of(store, workspace, 3)] == [4, 5]


async def test_figures_are_whole_numbers(store: Store, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), "@bob")
    await send(store, agent(workspace, "@ann"), "@bob")
    [figures] = await store.read(StatusFigures(workspace.workspace_id))
    assert figures == Figures(agents=3, threads=1, messages=2, open_dead_letters=0)
    assert all(type(number) is int for number in msgspec.structs.astuple(figures))


async def test_a_workspace_begins_with_the_system_and_its_human(store: Store) -> None:
    workspace = await open_workspace(store)
    assert workspace.name == "default"
    assert [one.handle for one in await store.read(PrincipalList(workspace.workspace_id))] == [HUMAN]
    [system] = await store.read(PrincipalFor(workspace.workspace_id, "@system"))
    assert system.kind == "system"
    await send(store, human(workspace), HUMAN)


async def test_a_workspace_that_exists_is_refused_and_stays_as_it_is(store: Store, workspace: Workspace) -> None:
    with pytest.raises(Conflict, match="exists already"):
        await store.add_workspace("default", "e2", "@intruder")
    assert await store.read(PrincipalFor(workspace.workspace_id, "@intruder")) == []
    [row] = await store.read(AllWorkspaces())
    assert (row.epoch, row.created_at) == ("e1", workspace.created_at)


async def test_nodes_that_start_together_make_one_workspace(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.add_workspace("default", f"e{n}", HUMAN) for n in range(4)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 3 + ["Workspace"]
    assert len(await store.read(AllWorkspaces())) == 1


@pytest.mark.usefixtures("workspace")
async def test_nodes_that_start_together_make_one_issuer_key(store: Store) -> None:
    keys = [IssuerKey(f"k{n}", "public", "private", 9 - n) for n in range(4)]
    await asyncio.gather(*(store.add_first_issuer_key(key) for key in keys))
    [kept] = await store.read(IssuerKeys())
    assert kept in keys
    await store.add_first_issuer_key(IssuerKey("late", "public", "private", 0))
    assert await store.read(IssuerKeys()) == [kept]


async def test_tokens_are_issued_and_revoked_for_good(store: Store, workspace: Workspace) -> None:
    token = Token("j1", workspace.workspace_id, "@ann", "participant", None, "note", 1, HUMAN, await store.now() + HOUR)
    await store.submit(IssueToken(human(workspace), token))
    revoked = await store.submit(RevokeToken(human(workspace), "j1", token))
    assert revoked.revoked_at is not None
    assert await store.submit(RevokeToken(human(workspace), "j1", token)) == revoked
    assert await store.read(TokenList(workspace.workspace_id, "@ann")) == [revoked]


async def test_a_retired_agent_can_do_nothing(store: Store, workspace: Workspace) -> None:
    await store.submit(ChangePrincipal(human(workspace), "@ann", None, None, retired=True))
    with pytest.raises(Unauthorized):
        await send(store, agent(workspace, "@ann"), "@bob")
    await store.submit(ChangePrincipal(human(workspace), "@ann", None, None, retired=False))
    await send(store, agent(workspace, "@ann"), "@bob")


async def test_quiet_hours_and_do_not_disturb_come_back(store: Store, workspace: Workspace) -> None:
    ann, hours = agent(workspace, "@ann"), QuietHours(from_="22:00", until="07:00", time_zone="Europe/Berlin")
    changed = await store.submit(ChangePrincipal(ann, "@ann", quiet=hours, dnd_until=7))
    assert await store.read(PrincipalFor(workspace.workspace_id, "@ann")) == [changed]
    assert (changed.quiet, changed.dnd_until) == ('{"from":"22:00","until":"07:00","time_zone":"Europe/Berlin"}', 7)
    renamed = await store.submit(ChangePrincipal(human(workspace), "@ann", display_name="Ann"))
    assert (renamed.quiet, renamed.dnd_until) == (changed.quiet, 7)
    await store.submit(ChangePrincipal(ann, "@ann", quiet=None, dnd_until=None))
    [row] = await store.read(PrincipalFor(workspace.workspace_id, "@ann"))
    assert (row.quiet, row.dnd_until, row.display_name) == (None, None, "Ann")


async def test_blocks_and_grants_can_be_given_taken_and_given_again(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    for held in (True, False, True):
        await store.submit(ChangeBlock(bob, "@bob", "@ann", set=held))
        await store.submit(ChangeGrant(bob, "CAN_REPLY_TO", "@cat", "@bob", granted=held))
        assert len(await store.read(BlockList(workspace.workspace_id, "@bob"))) == held
        assert len(await store.read(GrantList(workspace.workspace_id, ""))) == held
    with pytest.raises(Forbidden, match="blocked"):
        await send(store, agent(workspace, "@ann"), "@bob")


async def test_doorbells_ring_for_the_workspace_whose_log_grew(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@ann", "@bob", name="other")
    rung: set[int] = set()
    heard = asyncio.Event()

    def ring(workspace_id: int) -> None:
        rung.add(workspace_id)
        if workspace_id == other.workspace_id:
            heard.set()

    store.on_commit(ring)
    await send(store, agent(other, "@ann"), "@bob")
    await heard.wait()
    assert workspace.workspace_id not in rung


async def test_a_sound_store_says_so(store: Store, workspace: Workspace) -> None:
    [(name, sound, detail), *_] = await store.check()
    assert (name, sound) == ("store", True)
    assert "writable" in detail


@pytest.mark.parametrize("handle", ["@nul\0", "@" + "x" * 10_000, "'; DROP TABLE log; --", "@\U0001f680"])
async def test_no_text_breaks_a_read(store: Store, workspace: Workspace, handle: str) -> None:
    with contextlib.suppress(InvalidArgument):  # PostgreSQL has no text with a NUL in it
        assert await store.read(PrincipalFor(workspace.workspace_id, handle)) == []
    assert len(await store.read(PrincipalFor(workspace.workspace_id, "@ann"))) == 1
