from __future__ import annotations

import re
from pathlib import Path

import apsw
import apsw.ext
import pytest

from wakeline.core.picture import Changes
from wakeline.store import statements
from wakeline.store.sqlite.connection import prepare
from wakeline.store.sqlite.facts import PARTS

# These are asked for a whole workspace, or for its few active workflows, waits and threads of roles.
WHOLE = {"everyone", "workflow_threads", "workflow_members", "role_threads", "role_memberships", "waits"}
LOOKUPS = sorted({part for parts in PARTS.values() for part, _ in parts} - WHOLE)
FOLDERS = [Path(statements.__file__).parent / folder for folder in ("sql", "sqlite/sql")]
# But for what is put by its key, and for what is asked of the search index.
READS = sorted(
    {file.stem for folder in FOLDERS for file in folder.glob("*.sql") if not file.stem.startswith("put_")}
    - {"close_batch", "forget_role_holders", "index_slice", "search", "visible"}
)


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    return prepare(tmp_path / "wakeline.db", 0)


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("part", LOOKUPS)
def test_what_a_batch_asks_for_is_found_by_its_key(connection: apsw.Connection, part: str) -> None:
    statement = statements.load("sqlite", f"facts_{part}")
    values = tuple(1 if name == "workspace_id" else "[]" for name in statement.parameters)
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]
    steps = [step for step in plan if step.startswith(("SCAN", "SEARCH")) and "VIRTUAL TABLE" not in step]
    assert steps
    for step in steps:
        assert step.startswith("SEARCH"), plan
        assert not step.endswith("(workspace_id=?)"), plan


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize(
    "name",
    [
        "message_for",
        "first_reply",
        "thread_for",
        "thread_glimpses",
        "control_after",
        "thread_questions",
        "thread_decisions",
    ],
)
def test_who_may_read_what_is_found_by_keys(connection: apsw.Connection, name: str) -> None:
    statement = statements.load("sqlite", name)
    values = tuple(1 for _ in statement.parameters)
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]
    assert not [step for step in plan if step.startswith("SCAN") or "TEMP B-TREE" in step], plan


def test_active_workflows_have_an_index_of_their_own(connection: apsw.Connection) -> None:
    for part in ("workflow_threads", "workflow_members"):
        statement = statements.load("sqlite", f"facts_{part}")
        values = tuple(1 if name == "workspace_id" else "[]" for name in statement.parameters)
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]
        assert any("threads_working" in step for step in plan), plan


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("part", ["plan_wakes", "plan_receipts", "plan_threads", "plan_members"])
def test_planning_does_not_read_what_was_rung_long_ago(connection: apsw.Connection, part: str) -> None:
    statement = statements.load("sqlite", f"facts_{part}")
    values = tuple(1 if name == "workspace_id" else "[]" for name in statement.parameters)
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]
    assert any("wakes_open" in step for step in plan), plan


@pytest.mark.guarantee("G-COST")
@pytest.mark.parametrize("name", ["dormant_agents", "dormancy_list"])
def test_who_is_dormant_is_asked_agent_by_agent(connection: apsw.Connection, name: str) -> None:
    statement = statements.load("sqlite", name)
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", _ones(statement))]
    [all_agents, *lookups] = [step for step in plan if step.startswith(("SCAN", "SEARCH"))]
    assert all_agents.startswith(("SEARCH p USING PRIMARY KEY", "SEARCH d USING PRIMARY KEY")), plan
    assert any("receipts_by_box (workspace_id=? AND recipient=? AND box=?)" in step for step in lookups), plan
    assert not [step for step in lookups if "handle=?" not in step and "recipient=?" not in step], plan
    assert not [step for step in plan if "TEMP B-TREE" in step], plan


@pytest.mark.guarantee("G-COST")
def test_what_has_lapsed_is_looked_for_among_what_is_open(connection: apsw.Connection) -> None:
    statement = statements.load("sqlite", "lapsed_activations")
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", _ones(statement))]
    assert plan == ["SEARCH activations USING INDEX activations_open (<expr>>?)"]


@pytest.mark.guarantee("G-COST")
def test_what_waits_is_walked_through_by_its_own_index(connection: apsw.Connection) -> None:
    statement = statements.load("sqlite", "unrung_subscriptions")
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", _ones(statement))]
    stored = [step for step in plan if step.startswith(("SCAN", "SEARCH")) and step.split()[1] not in ("u", "unrung")]
    assert all(step.startswith("SEARCH") for step in stored), plan
    assert sum("wakes_open (subscription_id>?)" in step for step in stored) == 2, plan


def _ones(statement: statements.Statement) -> tuple[int, ...]:
    return tuple(1 for _ in statement.parameters)


def test_a_statement_is_not_compiled_again_for_another_value(connection: apsw.Connection) -> None:
    assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)


@pytest.mark.parametrize("table", Changes.__slots__)
def test_a_row_is_written_without_building_a_table_for_it(connection: apsw.Connection, table: str) -> None:
    statement = statements.load("sqlite", f"put_{table}")
    steps = apsw.ext.query_info(connection, statement.text, explain=True).explain
    assert steps
    assert not [step for step in steps if step.opcode == "OpenEphemeral"]


@pytest.mark.guarantee("G-COST")
def test_a_mark_is_found_by_its_event(connection: apsw.Connection) -> None:
    statement = statements.load("sqlite", "marked_rings")
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", _ones(statement))]
    assert plan[0] == "SEARCH deliveries USING INDEX deliveries_by_event (event_id=?)"


@pytest.mark.guarantee("G-COST")
def test_every_index_is_used_by_a_statement(connection: apsw.Connection) -> None:
    """Every write pays for it."""
    used = set()
    for name in READS:
        statement = statements.load("sqlite", name)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", _ones(statement))
        used |= {found for row in plan for found in re.findall(r"INDEX (\w+)", str(row[3]))}
    made = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE 'CREATE INDEX%'"
    assert {row[0] for row in connection.execute(made)} - used == set()
