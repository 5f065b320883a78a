"""Load `.sql` files: expand column lists, and turn `:name` parameters into what the driver understands.

`{message}` stands for the columns of the message row in the order of its type, `{message m}` for the same with an
alias, and `{message from item}` for the same taken out of the JSON array `item` with their types (PostgreSQL), so a
column list is written once: in `core/`.  `{receipt r of m}` takes from `m` what a receipt does not store itself.
`{visible m}` stands for the condition in `visible.sql` about the message `m`.
An engine's own folder wins over the shared one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import get_args

import msgspec

from wakeline.core.activation import Activation, Dormancy, Mandate
from wakeline.core.bridge import Bridge
from wakeline.core.cursor import Cursor
from wakeline.core.delivery import Delivery, DeliveryStep
from wakeline.core.level import Proof
from wakeline.core.log import LogEntry, Workspace
from wakeline.core.message import Message, Receipt
from wakeline.core.principal import Principal
from wakeline.core.records import (
    Block,
    Bucket,
    Cause,
    Consumer,
    DeadLetter,
    Grant,
    IdempotencyRecord,
    IssuerKey,
    Refusal,
    Token,
    Wait,
)
from wakeline.core.session import Session
from wakeline.core.subscription import Subscription, SubscriptionKey
from wakeline.core.thread import Glimpse, Member, Thread
from wakeline.core.wake import Wake

ROWS: dict[str, type[msgspec.Struct]] = {
    "workspace": Workspace,
    "log": LogEntry,
    "message": Message,
    "receipt": Receipt,
    "principal": Principal,
    "thread": Thread,
    "member": Member,
    "glimpse": Glimpse,
    "idempotency": IdempotencyRecord,
    "grant": Grant,
    "block": Block,
    "bucket": Bucket,
    "token": Token,
    "refusal": Refusal,
    "dead_letter": DeadLetter,
    "issuer_key": IssuerKey,
    "cause": Cause,
    "wait": Wait,
    "consumer": Consumer,
    "session": Session,
    "subscription": Subscription,
    "subscription_key": SubscriptionKey,
    "wake": Wake,
    "delivery": Delivery,
    "delivery_step": DeliveryStep,
    "cursor": Cursor,
    "bridge": Bridge,
    "proof": Proof,
    "activation": Activation,
    "mandate": Mandate,
    "dormancy": Dormancy,
}

# What these rows do not store, because the message that they belong to does.
_ELSEWHERE = {"receipt": frozenset({"thread_id", "seq"})}
_columns = re.compile(r"\{(\w+)(?: (from )?(\w+))?(?: of (\w+))?\}")
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Statement(msgspec.Struct, frozen=True):
    text: str
    parameters: tuple[str, ...]


def stored(name: str) -> list[str]:
    """The columns of its table."""
    return [field for field in ROWS[name].__struct_fields__ if field not in _ELSEWHERE.get(name, ())]


def columns(name: str, alias: str | None = None, owner: str | None = None) -> str:
    prefix, mine = f"{alias}." if alias else "", stored(name)
    fields = mine if owner is None else ROWS[name].__struct_fields__
    return ", ".join(prefix + field if field in mine else f"{owner}.{field}" for field in fields)


def unpacked(name: str, array: str) -> str:
    mine = stored(name)
    fields = [(n, field) for n, field in enumerate(msgspec.structs.fields(ROWS[name])) if field.name in mine]
    kinds = ((n, get_args(field.type) or (field.type,)) for n, field in fields)
    return ", ".join(f"({array} ->> {n})::bigint" if int in kind else f"{array} ->> {n}" for n, kind in kinds)


def _expand(match: re.Match[str]) -> str:
    name, unpack, alias, owner = match.groups()
    if name == "visible":
        return re.sub(r"\bm\.", f"{alias}.", _source("", name))
    return unpacked(name, alias) if unpack else columns(name, alias, owner)


def _source(engine: str, name: str) -> str:
    root = resources.files("wakeline.store")
    for folder in (root / engine / "sql", root / "sql"):
        file = folder / f"{name}.sql"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    message = f"no statement {name!r} for {engine}"
    raise LookupError(message)


@cache
def load(engine: str, name: str) -> Statement:
    """The statement with `$1`, `$2`, … (PostgreSQL) or `?1`, `?2`, … (SQLite) and the names in that order."""
    return numbered(engine, expanded(engine, name))


def compose(engine: str, names: Sequence[str]) -> Statement:
    """One statement with one column for each of these, which return one value each."""
    columns = ", ".join(f"({expanded(engine, name)})" for name in names)
    return numbered(engine, f"SELECT {columns}")


def expanded(engine: str, name: str) -> str:
    """With its columns and without its comments; parameters still have names."""
    return re.sub(r"--[^\n]*", "", _columns.sub(_expand, _source(engine, name))).strip()


def numbered(engine: str, sql: str) -> Statement:
    names: list[str] = []
    mark = "$" if engine == "postgres" else "?"

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"{mark}{names.index(match[1]) + 1}"

    return Statement(PARAMETER.sub(number, sql), tuple(names))
