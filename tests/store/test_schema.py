"""Migrations: the same schema on both databases, as `core` describes it, and a refusal for what is not ours."""

from __future__ import annotations

import asyncio

import apsw
import msgspec
import pytest

from tests.store.builders import agent, open_workspace, send
from tests.store.places import Place, PostgresPlace, SqlitePlace
from wakeline.core.picture import Changes
from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.core.queries import ReceiptsOf, UnreadCount
from wakeline.errors import Unavailable
from wakeline.flow.ack import AckThread
from wakeline.store import migrate
from wakeline.store.statements import ROWS, stored

Schema = dict[str, list[tuple[str, str, bool]]]  # by table: each column's name, type, and whether it may be NULL

# The tables of the row types.  Three more have no type: they are read and written by column.
TABLES = {
    "workspace": "workspaces",
    "log": "log",
    "message": "messages",
    "receipt": "receipts",
    "principal": "principals",
    "thread": "threads",
    "member": "members",
    "glimpse": "glimpses",
    "idempotency": "idempotency",
    "grant": "grants",
    "block": "blocks",
    "bucket": "buckets",
    "token": "tokens",
    "refusal": "refusals",
    "dead_letter": "dead_letters",
    "issuer_key": "issuer_keys",
    "cause": "causes",
    "wait": "waits",
    "consumer": "consumers",
    "session": "sessions",
    "subscription": "subscriptions",
    "subscription_key": "subscription_keys",
    "wake": "wakes",
    "delivery": "deliveries",
    "delivery_step": "delivery_steps",
    "cursor": "cursors",
    "bridge": "bridges",
    "proof": "proofs",
    "activation": "activations",
    "mandate": "mandates",
    "dormancy": "dormancies",
}
UNTYPED = {"migrations", "role_holders"}


async def schema_of(place: Place) -> Schema:
    await (await place.open()).close()
    if isinstance(place, SqlitePlace):
        return sqlite_schema(place)
    return await postgres_schema(place)


def sqlite_schema(place: SqlitePlace) -> Schema:
    connection = apsw.Connection(str(place.file))
    ours = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    tables = [str(row[0]) for row in connection.execute(ours)]
    found = {}
    for table in tables:
        rows = connection.execute('SELECT name, type, "notnull" = 0 AND pk = 0 FROM pragma_table_info(?)', (table,))
        found[table] = [(str(name), _KINDS[str(kind)], bool(null)) for name, kind, null in rows]
    connection.close()
    return found


_KINDS = {"INTEGER": "int", "BIGINT": "int", "TEXT": "str", "bigint": "int", "integer": "int", "text": "str"}


async def postgres_schema(place: PostgresPlace) -> Schema:
    connection = await place.connect()
    rows = await connection.fetch(
        "SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name <> 'search_index' ORDER BY table_name, ordinal_position"
    )
    await connection.close()
    found: Schema = {}
    for table, name, kind, null in rows:
        found.setdefault(table, []).append((name, _KINDS[kind], null))
    return found


async def test_both_databases_have_the_same_tables_and_columns(sqlite: SqlitePlace, blank: PostgresPlace) -> None:
    assert await schema_of(sqlite) == await schema_of(blank)


async def test_tables_are_what_the_row_types_say(place: Place) -> None:
    schema = await schema_of(place)
    assert set(schema) == {*TABLES.values(), *UNTYPED}
    for name, table in TABLES.items():
        columns = [column for column in schema[table] if (table, column[0]) != ("messages", "number")]
        fields = [field for field in msgspec.structs.fields(ROWS[name]) if field.name in stored(name)]
        assert columns == [
            (field.name, "int" if "int" in str(field.type) else "str", "None" in str(field.type)) for field in fields
        ]


def test_everything_that_can_change_has_a_table() -> None:
    assert set(Changes.__slots__) - {"message_marks", "subscription_tails", "thread_tails"} <= set(TABLES.values())
    assert set(ROWS) == set(TABLES)


def test_both_databases_have_the_same_migrations() -> None:
    sqlite, postgres = ([(one.number, one.name) for one in migrate.migrations(name)] for name in ("sqlite", "postgres"))
    assert sqlite == postgres
    assert [number for number, _ in sqlite] == list(range(1, len(sqlite) + 1))


async def change_ledger(place: Place, statement: str) -> None:
    if isinstance(place, SqlitePlace):
        connection = apsw.Connection(str(place.file))
        connection.execute(statement)
        connection.close()
    else:
        bare = await place.connect()
        await bare.execute(statement)
        await bare.close()


NOT_OURS = {
    "newer than this program": ("INSERT INTO migrations VALUES (9999, 'later', 'x', 0)", "STORE_NEWER"),
    "changed afterwards": ("UPDATE migrations SET checksum = 'x'", "STORE_CHANGED"),
}


@pytest.mark.guarantee("G-SCHEMA")
@pytest.mark.parametrize(("statement", "code"), NOT_OURS.values(), ids=NOT_OURS.keys())
async def test_a_database_that_is_not_ours_is_refused(
    sqlite: SqlitePlace, blank: PostgresPlace, statement: str, code: str
) -> None:
    for place in (sqlite, blank):
        await (await place.open()).close()
        await change_ledger(place, statement)
        with pytest.raises(Unavailable) as refused:
            await place.open()
        assert refused.value.code == code


async def test_opening_again_changes_nothing(place: Place) -> None:
    first = await place.open()
    workspace = await open_workspace(first, "@ann", "@bob")
    sent = await send(first, agent(workspace, "@ann"), "@bob")
    await place.close()
    again = await place.open()
    assert (await send(again, agent(workspace, "@ann"), "@bob")).log_id == sent.log_id + 1
    await place.close()


# Mail of one thread in every box; the receipts stood in the order of their threads.
MAIL = """
INSERT INTO workspaces VALUES (1, 'default', 'e1', 0, 9, 1, 0);
INSERT INTO principals (workspace_id, handle, kind, roles, created_at, created_by)
  VALUES (1, '@bob', 'agent', 'participant', 0, '@human');
INSERT INTO threads (thread_id, workspace_id, type, status, title, created_by, last_seq, created_at, updated_at)
  VALUES ('t', 1, 'conversation', 'active', 'Mail', '@ann', 4, 0, 0);
INSERT INTO members (thread_id, handle, workspace_id, joined_at, joined_seq, last_read_seq)
  VALUES ('t', '@bob', 1, 0, 1, 0);
"""
MESSAGE = """
INSERT INTO messages (message_id, workspace_id, thread_id, seq, log_id, sender, kind, body, recipients, priority,
  wake_policy, tags, schema_version, created_at)
VALUES ('m{0}', 1, 't', {0}, {1}, '@ann', 'chat', 'text', '["@bob"]', 'normal', 'silent', '[]', 1, 0);
INSERT INTO receipts VALUES ('t', {0}, '@bob', 1, {1}, 1, NULL, {2});
"""
BOXES = {
    "0, NULL, NULL, NULL, NULL": 9,
    "1, 5, 6, NULL, NULL": 8,
    "2, 5, 6, 7, NULL": 7,
    "3, 5, NULL, NULL, 'expired'": 6,
}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_receipts_of_an_older_database_are_kept(
    sqlite: SqlitePlace, blank: PostgresPlace, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Place = sqlite if engine == "sqlite" else blank
    before = migrate.migrations(engine)[:10]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda _: before)
        await (await place.open()).close()
    mail = [MESSAGE.format(seq, log_id, box) for seq, (box, log_id) in enumerate(BOXES.items(), 1)]
    await change_ledger(place, MAIL + "".join(mail))
    store = await place.open()
    kept = [one for log_id in BOXES.values() for one in await store.read(ReceiptsOf(1, log_id))]
    assert [(row.seq, row.log_id, row.box, row.seen_at, row.read_at, row.archived_at, row.lapsed) for row in kept] == [
        (1, 9, 0, None, None, None, None),
        (2, 8, 1, 5, 6, None, None),
        (3, 7, 2, 5, 6, 7, None),
        (4, 6, 3, 5, None, None, "expired"),
    ]
    assert await store.read(UnreadCount(1, "@bob", 1)) == [1]
    bob = Caller(1, "default", "@bob", Kind.AGENT, PARTICIPANT)
    assert await store.submit(AckThread(bob, "t", 4)) == 4
    assert [row.box for log_id in (9, 7) for row in await store.read(ReceiptsOf(1, log_id))] == [1, 2]
    assert await store.read(UnreadCount(1, "@bob", 1)) == [0]


async def test_nodes_that_start_together_migrate_once(blank: PostgresPlace) -> None:
    await asyncio.gather(*(blank.open() for _ in range(4)))
    connection = await blank.connect()
    applied = await connection.fetchval("SELECT count(*) FROM migrations")
    await connection.close()
    assert applied == len(migrate.migrations("postgres"))


async def test_a_failed_migration_leaves_nothing_behind(blank: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    good = migrate.migrations("postgres")
    broken = migrate.Migration(len(good) + 1, "broken", "CREATE TABLE half (n BIGINT); SELECT no_such_function()")
    monkeypatch.setattr(migrate, "migrations", lambda _: [*good, broken])
    with pytest.raises(Exception, match="no_such_function"):
        await blank.open()
    connection = await blank.connect()
    assert (
        await connection.fetchval("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'") == 0
    )
    await connection.close()


async def test_a_database_in_another_encoding_is_refused(blank: PostgresPlace) -> None:
    bare = await blank.connect()
    await bare.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        place = PostgresPlace(blank.url.replace(await bare.fetchval("SELECT current_database()"), "latin"))
        with pytest.raises(Unavailable, match="LATIN1"):
            await place.open()
    finally:
        await bare.execute("DROP DATABASE latin WITH (FORCE)")
        await bare.close()


async def test_a_database_that_is_not_there_is_named(blank: PostgresPlace) -> None:
    place = PostgresPlace(blank.url.replace("/wakeline_", "/missing_", 1))
    with pytest.raises(Unavailable, match="missing_") as refused:
        await place.open()
    assert refused.value.code == "STORE_UNAVAILABLE"
