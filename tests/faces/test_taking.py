"""A request that is data already, as an MCP tool's is, is taken or refused exactly as its JSON would be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wakeline import wire
from wakeline.errors import WakelineError
from wakeline.faces.http.parsing import decode, take

DECODER = msgspec.json.Decoder(wire.PostMessage)
ID = "01HZ" + "0" * 22

BODIES: list[dict[str, Any]] = [
    {"body": "hello", "to": ["@bob"]},
    {"body": "hello", "to": "@bob", "tags": ["a", "b"], "in_reply_to": ID},
    {"body": "héllo", "to": ["@bob"]},
    {"body": "hello", "to": ["@bob"], "expires_at": "2030-01-01T00:00:00Z"},
    {"body": "hello", "to": ["@bob"], "metadata": {"a": [1, None, {"b": 2.5}]}},
    {"body": "hello", "to": ["@bob"], "wait_seconds": 5},
    {"body": "hello", "to": ["@bob"], "schema_version": 1.0},
    {"body": "a\0b", "to": ["@bob"]},
    {"body": "hello", "to": ["@b\0b"]},
    {"body": "hello", "to": ["@bob"], "metadata": {"a": "\0"}},
    {"body": "hello", "to": []},
    {"body": "hello", "to": ["bob"]},
    {"body": "hello", "to": [["@bob"]]},
    {"body": 5, "to": ["@bob"]},
    {"body": None, "to": ["@bob"]},
    {"to": ["@bob"]},
    {"body": "hello", "to": ["@bob"], "expires_at": "tomorrow"},
    {"body": "hello", "to": ["@bob"], "thread_id": "no id"},
    {"body": "hello", "to": ["@bob"], "shape": "round"},
    {"body": "hello", "to": ["@bob"], "from": "@ann", "agent_id": "@ann"},
    {"body": "hello", "to": ["@bob"], "wait_seconds": "5"},
    {"body": "hello", "to": ["@bob"], "tags": [["a"], {"b": 1}]},
    {"body": "hello", "to": ["@bob"], "tags": ["é", "a\0"]},
    {},
]


def outcome(work: Any) -> Any:
    try:
        return work()
    except WakelineError as error:
        return error.code, error.message


@pytest.mark.parametrize("given", BODIES, ids=str)
def test_data_is_taken_as_its_json_would_be(given: dict[str, Any]) -> None:
    content = msgspec.json.encode(given)
    assert outcome(lambda: take(wire.PostMessage, DECODER, given)) == outcome(lambda: decode(DECODER, content))
