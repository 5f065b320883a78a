"""Who is in a role's thread follows from who holds the role, and what an older program left behind is put right."""

from __future__ import annotations

import pytest

from tests.store.builders import agent, human, new_id, open_workspace, send
from tests.store.places import Place, PostgresPlace, SqlitePlace
from tests.store.test_schema import change_ledger
from wakeline.core.log import Workspace
from wakeline.core.principal import PARTICIPANT, Kind
from wakeline.core.queries import LogMembers, MembersOf, MessageFor, ThreadFor, ThreadGlimpses
from wakeline.core.store import Store
from wakeline.core.thread import Status
from wakeline.errors import NotFound
from wakeline.flow.ack import AckThread
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.enrol import AddPrincipal, ChangePrincipal
from wakeline.store import migrate


async def give(store: Store, workspace: Workspace, handle: str, *roles: str) -> None:
    await store.submit(ChangePrincipal(human(workspace), handle, (PARTICIPANT, *roles), None, None))


async def members(store: Store, thread_id: str) -> list[str]:
    return sorted(member.handle for member in await store.read(MembersOf(thread_id)))


async def glimpsed(store: Store, thread_id: str, reader: str, since: int = 0, limit: int = 10) -> list[str]:
    page = await store.read(ThreadGlimpses(thread_id, since, reader, limit))
    return [found.message.body for found in page]


async def test_holders_are_in_the_thread_of_their_role_and_nobody_else(store: Store, workspace: Workspace) -> None:
    await give(store, workspace, "@bob", "reviewer")
    sent = await send(store, agent(workspace, "@ann"), "role:reviewer", "one")
    assert await members(store, sent.thread_id) == ["@bob"]
    await give(store, workspace, "@cat", "reviewer")
    await store.submit(AddPrincipal(human(workspace), "@dan", Kind.AGENT, ("reviewer",), None, None))
    assert await members(store, sent.thread_id) == ["@bob", "@cat", "@dan"]
    await give(store, workspace, "@bob")
    await store.submit(ChangePrincipal(human(workspace), "@dan", None, None, retired=True))
    assert await members(store, sent.thread_id) == ["@cat"]
    await store.submit(ChangePrincipal(human(workspace), "@dan", None, None, retired=False))
    assert await members(store, sent.thread_id) == ["@cat", "@dan"]


async def test_a_closed_thread_of_a_role_follows_it_too(store: Store, workspace: Workspace) -> None:
    await give(store, workspace, "@bob", "reviewer")
    sent = await send(store, agent(workspace, "@ann"), "role:reviewer")
    closing = ChangeStatus(human(workspace), sent.thread_id, new_id(), Status.CLOSED, "done", None, override=False)
    await store.submit(closing)
    await give(store, workspace, "@bob")
    await give(store, workspace, "@cat", "reviewer")
    assert await members(store, sent.thread_id) == ["@cat"]


async def test_who_comes_and_goes_has_what_came_while_they_were_in(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    await give(store, workspace, "@cat", "reviewer")
    thread_id = ""
    for n in range(3):
        await give(store, workspace, "@bob", "reviewer")
        thread_id = (await send(store, ann, "role:reviewer", f"in {n}")).thread_id
        await give(store, workspace, "@bob")
        await send(store, ann, "role:reviewer", f"out {n}")
        await send(store, agent(workspace, "@bob"), "role:reviewer", f"from outside {n}")
    own = [f"{where} {n}" for n in range(3) for where in ("in", "from outside")]
    assert await glimpsed(store, thread_id, "@bob") == own
    assert await glimpsed(store, thread_id, "@bob", since=1, limit=2) == own[1:3]
    assert await glimpsed(store, thread_id, "@ann") == [f"{w} {n}" for n in range(3) for w in ("in", "out")]
    assert await glimpsed(store, thread_id, "@human") == []
    [seen] = await store.read(ThreadFor(workspace.workspace_id, thread_id, "@ann"))
    assert (seen.is_member, seen.glimpsed_seq, seen.thread.last_seq) == (False, 8, 9)


async def test_a_row_is_offered_once_to_who_may_see_it(store: Store, workspace: Workspace) -> None:
    await give(store, workspace, "@bob", "reviewer")
    asked = await send(store, agent(workspace, "@ann"), "role:reviewer", "who?")
    answer = await send(store, agent(workspace, "@bob"), in_reply_to=asked.message_id)
    alone = await send(store, agent(workspace, "@bob"), thread_id=asked.thread_id)
    assert sorted(await store.read(LogMembers(workspace.workspace_id, asked.log_id - 1, alone.log_id))) == [
        (asked.log_id, "@ann"),
        (asked.log_id, "@bob"),
        (answer.log_id, "@ann"),
        (answer.log_id, "@bob"),
        (alone.log_id, "@bob"),
    ]


async def test_a_stranger_acknowledges_nothing_in_a_roles_thread(store: Store, workspace: Workspace) -> None:
    await give(store, workspace, "@bob", "reviewer")
    sent = await send(store, agent(workspace, "@ann"), "role:reviewer")
    with pytest.raises(NotFound):
        await store.submit(AckThread(agent(workspace, "@cat"), sent.thread_id, 1))
    assert await store.submit(AckThread(agent(workspace, "@ann"), sent.thread_id, 1)) == 0


# -- what an older program left behind --------------------------------------------------------------------------------

# @ann wrote to the role and was in its thread for good; @bob holds it; @cat got it later; @dan lost it.
LEGACY = """
INSERT INTO workspaces VALUES (1, 'default', 'e1', 0, 0, 1, 0);
INSERT INTO principals VALUES (1, '@bob', 'agent', 'reviewer', NULL, 0, '@human', NULL);
INSERT INTO principals VALUES (1, '@cat', 'agent', 'reviewer', NULL, 0, '@human', NULL);
INSERT INTO role_holders VALUES (1, 'reviewer', '@bob');
INSERT INTO role_holders VALUES (1, 'reviewer', '@cat');
INSERT INTO threads VALUES
  ('open', 1, 'conversation', 'active', 'role:reviewer', 'role:reviewer', '@ann', NULL, NULL, 2, 0, 0, NULL);
INSERT INTO threads VALUES
  ('shut', 1, 'conversation', 'closed', 'role:reviewer', NULL, '@ann', NULL, NULL, 1, 0, 0, 5);
INSERT INTO threads VALUES
  ('plan', 1, 'conversation', 'closed', 'role:reviewer', NULL, '@ann', NULL, NULL, 1, 0, 0, 5);
INSERT INTO members SELECT thread_id, handle, 1, 0, 1, 0, NULL
  FROM threads, (SELECT '@ann' AS handle UNION SELECT '@bob' UNION SELECT '@dan') AS three;
"""
MESSAGE = """
INSERT INTO messages (message_id, workspace_id, thread_id, seq, log_id, sender, kind, body, recipients, priority,
  wake_policy, tags, schema_version, created_at)
VALUES ('{0}{1}', 1, '{0}', {1}, {5}, '{2}', 'chat', '{3}', '{4}', 'normal', 'silent', '[]', 1, 0);
"""
RECEIPT = """
INSERT INTO receipts (thread_id, seq, recipient, workspace_id, log_id, rank, box)
VALUES ('{0}', {1}, '{2}', 1, {3}, 1, 0);
"""


async def old_database(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real = migrate.migrations
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda engine: real(engine)[:1])
        await (await place.open()).close()
    said = [
        MESSAGE.format("open", 1, "@ann", "asks", '["role:reviewer"]', 1),
        MESSAGE.format("open", 2, "@bob", "among us", '["role:reviewer"]', 2),
        MESSAGE.format("shut", 1, "@ann", "asked", '["role:reviewer"]', 3),
        MESSAGE.format("plan", 1, "@ann", "a thread that only has such a title", '["@bob"]', 4),
        RECEIPT.format("open", 1, "@bob", 1),
        RECEIPT.format("open", 1, "@dan", 1),
        RECEIPT.format("open", 2, "@dan", 2),
    ]
    await change_ledger(place, LEGACY + "".join(said))


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_database_of_before_is_put_right(
    sqlite: SqlitePlace, blank: PostgresPlace, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Place = sqlite if engine == "sqlite" else blank
    await old_database(place, monkeypatch)
    store = await place.open()
    for thread_id in ("open", "shut"):
        assert await members(store, thread_id) == ["@bob", "@cat"]
    assert await members(store, "plan") == ["@ann", "@bob", "@dan"]
    assert await glimpsed(store, "open", "@ann") == ["asks"]
    assert await glimpsed(store, "open", "@dan") == ["asks", "among us"]
    assert await glimpsed(store, "shut", "@ann") == ["asked"]
    assert await store.read(MessageFor(1, "open2", "@ann", False)) == []


async def test_two_workspaces_share_no_role(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@ann", "@bob", name="other", roles=("reviewer",))
    await give(store, workspace, "@bob", "reviewer")
    sent = await send(store, agent(workspace, "@ann"), "role:reviewer")
    await send(store, agent(other, "@ann"), "role:reviewer")
    await give(store, other, "@bob")
    assert await members(store, sent.thread_id) == ["@bob"]
