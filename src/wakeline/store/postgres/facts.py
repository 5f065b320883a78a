"""The statement that loads a batch's facts, cut down to what such batches ask for.

`load_facts.sql` knows how to find everything that any command may need.  PostgreSQL sets up every part of a statement
before it runs one, so a post would pay for deliveries, activations and all the rest that it does not ask for: more than
half of the time of its load.  So there are a few cuts, for what most batches are made of, and the whole for the others.
There are few on purpose: each one is planned on each connection.

A part goes when the batch gives it no keys: neither by a parameter nor by an earlier part that has some.  Such a part
would have found nothing, so a cut statement finds the same as the whole one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from wakeline.core.picture import Needs
from wakeline.store import statements
from wakeline.store.statements import PARAMETER, Statement

_SAID = frozenset({"handles", "roles", "senders", "threads", "guests", "audience_keys", "idempotency"})
_MAIL = frozenset({"messages", "receipts", "receipts_of", "unread_until", "workflows_of", "waits"})
_WAKING = frozenset({"subscriptions", "plans", "deliveries", "receipts", "consumers", "proofs"})
# The first that covers a batch is taken.
CUTS = (_SAID, _SAID | _MAIL, _WAKING)

_COMPOUND = frozenset({"receipts", "unread_until", "idempotency", "guests", "role_threads_of", "cursors", "wakes"})
_part = re.compile(r"^(\w+) AS MATERIALIZED \(\n  (.*?)\n\),?$", re.MULTILINE | re.DOTALL)
_field = re.compile(r",\n(?=  ')")
_encode = msgspec.json.Encoder().encode
_ALWAYS = ("'now'", "'workspace'")
_OPENING, _CLOSING = "SELECT json_build_object(", "\n)\nFROM workspaces"

Load = tuple[str, list[Any]]


def load_for(workspace_id: int, needs: Needs) -> Load:
    """The statement, and the values of its parameters."""
    asked = {name for name in whole().parameters if name in Needs.__struct_fields__ and getattr(needs, name)}
    statement = next((cut(one) for one in CUTS if asked <= one), whole())
    return statement.text, [_value(name, workspace_id, needs) for name in statement.parameters]


def _value(name: str, workspace_id: int, needs: Needs) -> Any:
    if name == "workspace_id":
        return workspace_id
    value = getattr(needs, name)
    if name in _COMPOUND:
        return _encode(value).decode()
    return list(value) if isinstance(value, set) else value


@cache
def whole() -> Statement:
    return statements.load("postgres", "load_facts")


@cache
def cut(asked: frozenset[str]) -> Statement:
    """The statement for batches that ask for nothing else."""
    text = statements.expanded("postgres", "load_facts")
    beginning, _, rest = text.partition(_OPENING)
    fields, _, ending = rest.partition(_CLOSING)
    known = dict(_part.findall(beginning))
    kept: dict[str, str] = {}
    for name, part in known.items():
        branches = [one for one in part.split("\n  UNION ") if _finds(one, asked, kept)]
        if branches:
            kept[name] = "\n  UNION ".join(branches)
    answer = [one for one in _field.split(fields) if one.strip().startswith(_ALWAYS) or _finds(one, asked, kept)]
    _complete(kept, known, answer)
    parts = ",\n".join(f"{name} AS MATERIALIZED (\n  {kept[name]}\n)" for name in known if name in kept)
    shown = ",\n".join(answer)
    return statements.numbered("postgres", f"WITH\n{parts}\n{_OPENING}{shown}{_CLOSING}{ending}")


def _finds(sql: str, asked: frozenset[str], kept: Iterable[str]) -> bool:
    """Could it find anything?"""
    return not asked.isdisjoint(PARAMETER.findall(sql)) or not set(kept).isdisjoint(re.findall(r"\w+", sql))


def _complete(kept: dict[str, str], known: dict[str, str], answer: list[str]) -> None:
    """What is kept may name a part that finds nothing; that stays too, as it was written."""
    looking = [*kept.values(), *answer]
    while looking:
        named = set(re.findall(r"\w+", looking.pop()))
        for name in named & (known.keys() - kept.keys()):
            kept[name] = known[name]
            looking.append(known[name])
