"""Run a query on a connection: its statement, its parameters, its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import apsw
import msgspec

from wakeline.core.queries import Query
from wakeline.store import statements

R = TypeVar("R")


def rows(connection: apsw.Connection, query: Query[R]) -> list[R]:
    make = type(query).row
    return [make(*row) for row in execute(connection, query.statement(), msgspec.structs.asdict(query)).fetchall()]


def execute(connection: apsw.Connection, name: str, parameters: Mapping[str, Any]) -> apsw.Cursor:
    statement = statements.load("sqlite", name)
    return connection.execute(statement.text, tuple(parameters[key] for key in statement.parameters))
