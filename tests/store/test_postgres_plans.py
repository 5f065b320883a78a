"""A batch costs what it asks for, not what is stored: every lookup goes by its key, whatever the planner believes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from tests.store.builders import agent, human, new_id, open_workspace, send
from tests.store.places import PostgresPlace
from wakeline.core.picture import Changes
from wakeline.flow.convene import CreateThread
from wakeline.store import statements
from wakeline.store.postgres.connection import Server
from wakeline.store.postgres.facts import CUTS, cut, whole
from wakeline.store.postgres.writer import statement_for

# The only lookups that may go by the workspace alone: its own row, everyone in it, who holds roles, what is worked on,
# the threads of roles, who waits.
BY_WORKSPACE = {
    "workspaces_pkey", "principals_pkey", "role_holders_pkey", "threads_working", "threads_of_roles", "waits_pkey",
    "activations_open",
}  # fmt: skip
STATEMENTS = {
    "load": whole().text,
    **{f"load of {len(names)} kinds": cut(names).text for names in CUTS},
    "write": statement_for(tuple(Changes.__slots__)),
}


def scans(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every place where the plan enters a table: by which index (or by none), and by what condition."""
    if node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Index Scan"):
        yield node["Index Name"], node.get("Index Cond", "")
    elif node["Node Type"] == "Seq Scan":
        yield f"all of {node['Relation Name']}", ""
    for child in node.get("Plans", []):
        yield from scans(child)


def goes_by_key(index: str, condition: str) -> bool:
    compared = condition.replace("workspace_id + 0", "workspace_id").count(" = ") + condition.count(" >= ")
    return compared > condition.count("workspace_id") or (compared > 0 and index in BY_WORKSPACE)


async def plan_of(connection: asyncpg.Connection[asyncpg.Record], text: str) -> dict[str, Any]:
    count = max(number for number in range(1, 60) if f"${number}" in text)
    await connection.execute(f"DEALLOCATE ALL; PREPARE asked AS {text}")
    [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE asked({', '.join(['NULL'] * count)})")
    plan: dict[str, Any] = json.loads(row[0])[0]["Plan"]
    return plan


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("state", ["small", "small and analyzed"])
async def test_every_lookup_of_a_batch_goes_by_its_key(postgres: PostgresPlace, name: str, state: str) -> None:
    connection = await Server.parse(postgres.url).connect("test", by_key=True)
    await fill(postgres)  # of an empty table any plan is right, and autovacuum may have looked at it or not
    if state == "small and analyzed":
        await connection.execute("ANALYZE")
    found = list(scans(await plan_of(connection, STATEMENTS[name])))
    await connection.close()
    assert found
    assert [scan for scan in found if not goes_by_key(*scan)] == []


async def fill(postgres: PostgresPlace) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, *(f"@a{n}" for n in range(20)))
    for n in range(20):
        await send(node, agent(workspace, f"@a{n}"), f"@a{(n + 1) % 20}", idempotency_key="k")
        lead = CreateThread(human(workspace), new_id(), "A job", "workflow", (f"@a{n}",), "@a0", None, "")
        await node.submit(lead)


# Many agents, who have read much and have nearly nothing to read; many attempts, all of them over.
CROWD = """
INSERT INTO principals SELECT {workspace}, '@a' || n, 'agent', '[]', NULL, 0, '@human', NULL
FROM generate_series(1, 500) n;
INSERT INTO receipts SELECT '@a' || n, {workspace}, 100 * n + k, 1, NULL, 1, 1, 1, NULL, NULL
FROM generate_series(1, 500) n, generate_series(1, 50) k;
INSERT INTO receipts VALUES ('@a1', {workspace}, 151, 1, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO sessions (session_id, workspace_id, handle, harness, wake_mode, replyable, capabilities, levels, presence,
  presence_source, presence_at, resumable, started_at, heartbeat_at)
SELECT 's' || n || '.' || k, {workspace}, '@a' || n, 'tool', 'none', 1, '[]', '{{}}', 'idle', 'test', 0, 1, 0, k
FROM generate_series(1, 500) n, generate_series(1, 10) k;
INSERT INTO dormancies SELECT {workspace}, '@a' || n, NULL, 0, 0, 0, NULL, 0, NULL, NULL, 0
FROM generate_series(1, 500) n;
INSERT INTO activations (activation_id, workspace_id, handle, way, log_id, attempt, result, fence, created_at,
  settled_at)
SELECT 'a' || n, {workspace}, '@a1', 'trigger', n, 1, 'triggered', 0, 0, 0 FROM generate_series(1, 5000) n;
"""


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("name", ["dormant_agents", "dormancy_list", "lapsed_activations"])
@pytest.mark.parametrize("state", ["unknown", "analyzed"])
async def test_dormancy_is_asked_about_by_key(postgres: PostgresPlace, name: str, state: str) -> None:
    workspace = await open_workspace(await postgres.open())
    connection = await Server.parse(postgres.url).connect("test")  # as reads do, which follow the planner
    await connection.execute(CROWD.format(workspace=workspace.workspace_id))
    if state == "analyzed":
        await connection.execute("ANALYZE")
    statement = statements.load("postgres", name)
    given = {"workspace_id": str(workspace.workspace_id), "limit": "200", "after": "''", "handle": "''"}
    values = ", ".join(given.get(parameter, "1") for parameter in statement.parameters)
    await connection.execute(f"DEALLOCATE ALL; PREPARE asked AS {statement.text}")
    [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE asked({values})")
    await connection.close()
    found = dict(scans(json.loads(row[0])[0]["Plan"]))
    if name == "lapsed_activations":
        assert {*found} <= {"activations_open", "activations_once"}  # both hold what is open, and nothing else
    else:  # of agents there are as many as there are; what each of them has is found by the agent
        assert "(recipient = p.handle)" in found["receipts_by_box"]
        assert "(handle = p.handle)" in found["sessions_by_handle"]
        assert not {"all of receipts", "all of sessions"} & {*found}


# Much was rung and a little waits.
RUNG = """
INSERT INTO subscriptions SELECT 'k' || n, {workspace}, '@a', 'SENT_TO_ME', '{{}}', 'r' || n, 'none', NULL, NULL,
  '{{}}', 'immediate', NULL, NULL, NULL, 'active', NULL, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0
FROM generate_series(1, 500) n;
INSERT INTO wakes (subscription_id, log_id, workspace_id, handle, addressed, event_type, policy, payload, occurred_at,
  state, updated_at)
SELECT 'k' || n, l, {workspace}, '@a', 0, 'wake/sent_to_me', 'immediate', '{{}}', 0,
  CASE WHEN l = 1 AND n < 20 THEN 'held' ELSE 'rung' END, 0
FROM generate_series(1, 500) n, generate_series(1, 20) l;
INSERT INTO deliveries (delivery_id, workspace_id, subscription_id, handle, target, event_id, event_type, log_id,
  events, body, replay, step, outcome, attempts, fence, steps, occurred_at, created_at, settled_at)
SELECT 'd' || n, {workspace}, 'k' || n % 500, '@a', 'a2a-webhook', 'e' || n, 'wake/sent_to_me', 1, 1, '', 0,
  'triggered', 'delivered', 1, 1, 1, 0, 0, 0
FROM generate_series(1, 5000) n;
"""


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("state", ["unknown", "analyzed"])
async def test_what_waits_is_walked_through_by_its_own_index(postgres: PostgresPlace, state: str) -> None:
    workspace = await open_workspace(await postgres.open())
    connection = await Server.parse(postgres.url).connect("test")
    await connection.execute(RUNG.format(workspace=workspace.workspace_id))
    if state == "analyzed":
        await connection.execute("ANALYZE subscriptions, wakes, deliveries")
    statement = statements.load("postgres", "unrung_subscriptions")
    given = {"after": "''", "limit": "100"}
    values = ", ".join(given.get(parameter, "1") for parameter in statement.parameters)
    await connection.execute(f"DEALLOCATE ALL; PREPARE asked AS {statement.text}")
    [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE asked({values})")
    await connection.close()
    found = dict(scans(json.loads(row[0])[0]["Plan"]))
    assert {index for index in found if "wakes" in index} == {"wakes_open"}
    assert {index for index in found if "deliveries" in index} == {"deliveries_open"}
