"""A load that was cut down finds what the whole one finds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell
from tests.store.builders import agent, human, open_workspace, send
from tests.store.places import PostgresPlace
from wakeline.core.log import Workspace
from wakeline.core.parcel import Failed
from wakeline.core.picture import Facts, Needs
from wakeline.store.postgres.facts import CUTS, load_for
from wakeline.store.postgres.facts import whole as whole_load

# Keys of everything that is there, by what asks for them.
KEYS = {
    "handles": "SELECT handle FROM principals",
    "roles": "SELECT DISTINCT role FROM role_holders",
    "senders": "SELECT handle FROM principals",
    "threads": "SELECT thread_id FROM threads LIMIT 1",
    "guests": "SELECT thread_id, handle FROM members",
    "audience_keys": "SELECT audience_key FROM threads WHERE audience_key IS NOT NULL",
    "idempotency": "SELECT sender, operation, key FROM idempotency",
    "messages": "SELECT message_id FROM messages",
    "receipts": "SELECT m.message_id, r.recipient FROM messages m JOIN receipts r USING (log_id, workspace_id)",
    "receipts_of": "SELECT message_id FROM messages",
    "unread_until": "SELECT thread_id, recipient, seq FROM messages JOIN receipts USING (log_id, workspace_id)",
    "workflows_of": "SELECT handle FROM principals",
    "subscriptions": "SELECT subscription_id FROM subscriptions",
    "plans": "SELECT subscription_id FROM subscriptions",
    "deliveries": "SELECT delivery_id FROM deliveries",
    "consumers": "SELECT name FROM consumers",
    "proofs": "SELECT route FROM proofs",
}


async def fill(postgres: PostgresPlace) -> Workspace:
    """Mail that was answered, rung for, rung for in vain, and that waits."""
    store = await postgres.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cem")
    bell = Bell(store, workspace)
    for handle in ("@bob", "@cem"):
        await bell.subscribe(handle, coalesce_window=0)
    sent = await send(store, agent(workspace, "@ann"), "@bob", idempotency_key="k")
    await send(store, agent(workspace, "@bob"), "@ann", in_reply_to=sent.message_id)
    await send(store, human(workspace), "@cem")
    for planned in await bell.match():
        await bell.settle(planned, Failed("http_500", "Broken.", True))
    await send(store, agent(workspace, "@ann"), "@bob", "@cem")
    await bell.match()
    return workspace


async def needs_of_everything(connection: Any, names: frozenset[str]) -> Needs:
    needs = Needs(waits="waits" in names)
    for name in names - {"waits"}:
        rows = await connection.fetch(KEYS[name])
        setattr(needs, name, {row[0] if len(row) == 1 else tuple(row) for row in rows})
    return needs


def found(document: str) -> dict[str, Any]:
    facts = msgspec.json.decode(document, type=Facts)
    facts.now = 0
    return {
        name: sorted(map(repr, value)) if isinstance(value, list) else value
        for name, value in msgspec.structs.asdict(facts).items()
    }


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("names", CUTS, ids=["said", "mail", "waking"])
async def test_a_cut_load_finds_the_same(postgres: PostgresPlace, names: frozenset[str]) -> None:
    workspace = await fill(postgres)
    connection = await postgres.connect()
    needs = await needs_of_everything(connection, names)
    text, values = load_for(workspace.workspace_id, needs)
    assert text != whole_load().text
    needs_all = msgspec.structs.replace(needs, dead_letters={"none"}, sessions={"none"})
    whole, all_values = load_for(workspace.workspace_id, needs_all)
    assert whole == whole_load().text
    ours, theirs = found(await connection.fetchval(text, *values)), found(await connection.fetchval(whole, *all_values))
    await connection.close()
    assert ours == theirs
    assert sum(len(rows) for rows in ours.values() if isinstance(rows, list)) > len(names)


def test_what_no_cut_is_made_for_gets_the_whole_load() -> None:
    text, _ = load_for(1, Needs(handles={"@ann"}, plans={"s"}))
    assert text == whole_load().text
    posting, _ = load_for(1, Needs(handles={"@ann"}, senders={"@ann"}, threads={"t"}))
    assert "deliveries" not in posting
    assert "wakes" not in posting
