from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, new_name, operator, path_of, refused
from wakeline.faces.http.operations import OPERATIONS
from wakeline.testing.server import ServerProcess

WITH_BODY = [one for one in OPERATIONS if one.body is not None]
BODY_LIMIT = 262_144


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture(autouse=True)
def unharmed(node: ServerProcess) -> Iterator[None]:
    """Whatever was thrown at it, the server is well, and nothing went wrong inside it."""
    yield
    assert node.call("GET", "/readyz").status == 200
    assert "Traceback" not in node.output


# -- text that is no text ---------------------------------------------------------------------------------------------

NO_TEXT = {
    "NUL": b'"a\\u0000b"',
    "NUL after a backslash": b'"\\\\\\u0000"',
    "raw NUL": b'"a\x00b"',
    "raw control": b'"a\x1fb"',
    "lone high surrogate": b'"\\ud800"',
    "lone low surrogate": b'"\\udc00x"',
    "surrogates the wrong way round": b'"\\udc00\\ud800"',
    "encoded surrogate": b'"\xed\xa0\x80"',
    "overlong NUL": b'"\xc0\x80"',
    "latin-1": b'"\xe4"',
    "cut short": b'"\xf0\x9f\x99',
    "bad escape": b'"\\x"',
}


@pytest.mark.guarantee("G-HOSTILE")
@pytest.mark.parametrize("text", NO_TEXT.values(), ids=NO_TEXT.keys())
def test_text_that_is_no_text_is_refused_in_every_field(node: ServerProcess, text: bytes) -> None:
    human = operator(node)
    before = human.get("/v1/status")["position"]
    for operation in WITH_BODY:
        assert operation.body is not None
        for field in (*operation.body.__struct_encode_fields__, "surprise"):
            body = b'{"%s": %s}' % (field.encode(), text)
            error = refused(human.call(operation.method, path_of(operation), body))
            assert error["code"] in ("MALFORMED_JSON", "INVALID_ARGUMENT"), (operation.name, field)
    assert human.get("/v1/status")["position"] == before


@pytest.mark.parametrize("text", NO_TEXT.values(), ids=NO_TEXT.keys())
def test_text_that_is_no_text_is_refused_in_depth(alice: Actor, bob: Actor, text: bytes) -> None:
    for inside in (
        b'"metadata": {"a": [{"b": %s}]}' % text,
        b'"metadata": {%s: 1}' % text,
        b'"tags": ["ok", %s]' % text,
        b'"body": %s' % text,
    ):
        body = b'{"to": ["%s"], "body": "x", %s}' % (bob.handle.encode(), inside)
        refused(alice.call("POST", "/v1/messages", body))
    assert bob.mail(state="all") == []


def test_text_that_only_looks_bad_is_text(alice: Actor, bob: Actor) -> None:
    bodies = [
        "\\u0000",
        "\\\\u0000",
        "\\ud800",
        "\ud7ff\ue000\uffff\U0010ffff",
        "\x7f\x80\u202e",
        "\u2028\ufeff",
        "</script>",
    ]
    for body in bodies:
        alice.send(bob, body=body, subject=body, metadata={body: body}, tags=[body], idempotency_key=body)
    assert [(one["body"], one["subject"], one["metadata"], one["tags"]) for one in bob.mail()] == [
        (body, body, {body: body}, [body]) for body in bodies
    ]


# -- JSON that is no request ------------------------------------------------------------------------------------------

DEEP = 100_000
NO_REQUEST = {
    "nothing": b"",
    "not JSON": b"to=@bob",
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "a string": b'"x"',
    "half": b'{"body": "x"',
    "two": b'{"body": "x"}{"body": "y"}',
    "a trailing comma": b'{"body": "x",}',
    "a comment": b'{"body": "x" /* y */}',
    "single quotes": b"{'body': 'x'}",
    "a byte order mark": b'\xef\xbb\xbf{"body": "x"}',
    "UTF-16": '{"body": "x"}'.encode("utf-16"),
    "NaN": b'{"to": ["@bob"], "body": "x", "metadata": {"a": NaN}}',
    "Infinity": b'{"to": ["@bob"], "body": "x", "metadata": {"a": -Infinity}}',
    "a number out of range": b'{"to": ["@bob"], "body": "x", "metadata": {"a": 1e999}}',
    "deep lists": b'{"body": "x", "metadata": {"a": ' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "deep objects": b'{"body": "x", "metadata": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "deep and unknown": b'{"surprise": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep and unfinished": b"[" * DEEP,
    "a huge number": b'{"wait_seconds": ' + b"9" * 5_000 + b"}",
    "a huge seq": b'{"last_read_seq": 99999999999999999999}',
    "a long key": b'{"' + b"k" * 100_000 + b'": 1}',
}


@pytest.mark.guarantee("G-HOSTILE")
@pytest.mark.parametrize("body", NO_REQUEST.values(), ids=NO_REQUEST.keys())
def test_what_is_no_request_is_refused_everywhere(alice: Actor, body: bytes) -> None:
    for operation in WITH_BODY:
        answer = alice.call(operation.method, path_of(operation), body)
        if body == b"" and answer.status < 400:
            assert operation.name == "prune_log"
            continue
        refused(answer)


@pytest.mark.parametrize("depth", [31, 32, 33, 100, 300, 900, 990])
def test_metadata_is_as_deep_as_can_be_read_back(alice: Actor, bob: Actor, depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    body = b'{"to": ["%s"], "body": "x", "metadata": {"a": %s}}'
    text = b"[" * depth + b"1" + b"]" * depth
    answer = alice.call("POST", "/v1/messages", body % (bob.handle.encode(), text))
    assert answer.status == (201 if depth <= 31 else 400)
    assert len(bob.inbox()["messages"]) == (depth <= 31)


def test_of_two_fields_with_one_name_the_last_counts_and_the_sender_is_never_among_them(
    alice: Actor, bob: Actor
) -> None:
    twice = b'{"to": ["%s"], "body": "first", "body": "second", "sender": "@human", "sender": "%s"}'
    alice.call("POST", "/v1/messages", twice % (bob.handle.encode(), alice.handle.encode()))
    [message] = bob.mail()
    assert (message["body"], message["sender"]) == ("second", alice.handle)
    lying = b'{"to": ["%s"], "body": "x", "sender": "%s", "sender": "@human"}'
    answer = alice.call("POST", "/v1/messages", lying % (bob.handle.encode(), alice.handle.encode()))
    error_of(answer, "CLAIM_MISMATCH")


# -- names ------------------------------------------------------------------------------------------------------------

NO_NAMES = [
    "@a\r\nX-Evil: 1", "@a\nb", "@a\n", "@a\0", "@a b", "@", "", "a", "@A", "@ä", "@a\u202e", "@a/../b", "@" + "a" * 64,
    "@<script>", "@a'--", '@a"', "@a;b", "@a%0a",
]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_is_no_way_in(node: ServerProcess, alice: Actor, bob: Actor, name: str) -> None:
    human = operator(node)
    before = human.get("/v1/agents")
    for body in ({"handle": name}, {"handle": new_name("x"), "role": name}, {"handle": new_name("x"), "roles": [name]}):
        if name == "a" and "handle" in body and body["handle"] != "a":
            continue  # "a" is a role
        refused(human.call("POST", "/v1/agents", body))
    if name != "a":  # which is a workspace
        refused(human.call("POST", "/v1/workspaces", {"name": name}))
    refused(human.call("POST", "/v1/tokens", {"handle": name}))
    refused(human.call("POST", "/v1/grants", {"scope": "CAN_REPLY_TO", "grantee": name, "owner": bob.handle}))
    refused(human.call("POST", "/v1/blocks", {"blocked": name}))
    refused(alice.call("POST", "/v1/threads", {"title": "x", "members": [name]}))
    refused(alice.call("POST", "/v1/messages", {"to": [name], "body": "x"}))
    refused(alice.call("POST", "/v1/messages", {"to": name, "body": "x"}))
    refused(alice.call("POST", "/v1/messages", {"to": [f"role:{name}"], "body": "x"}))
    assert human.get("/v1/agents") == before


# -- size -------------------------------------------------------------------------------------------------------------


def test_the_largest_body_is_accepted_and_one_byte_more_is_not(alice: Actor, bob: Actor) -> None:
    alice.send(bob, body="x" * BODY_LIMIT, subject="s" * 200)
    alice.send(bob, body="\U0001f642" * (BODY_LIMIT // 4))  # six times its size on the wire
    error = alice.send_refused("BODY_TOO_LARGE", bob, body="x" * (BODY_LIMIT + 1))
    assert error["details"]["limit"] == BODY_LIMIT
    alice.send_refused("BODY_TOO_LARGE", bob, body="\U0001f642" * (BODY_LIMIT // 4) + "x")
    alice.send_refused("BODY_TOO_LARGE", bob, metadata={"a": "x" * BODY_LIMIT})
    alice.send_refused("SUBJECT_TOO_LONG", bob, subject="s" * 201)
    alice.send_refused("INVALID_ARGUMENT", bob, tags=["t"] * 33)
    alice.send_refused("INVALID_ARGUMENT", bob, tags=["t" * 65])
    alice.send_refused("INVALID_ARGUMENT", bob, idempotency_key="k" * 201)
    alice.send_refused("INVALID_ARGUMENT", to=[f"@a{n}" for n in range(1_001)])
    assert bob.inbox()["unread"] == 2
