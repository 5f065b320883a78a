from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.faces.http_calls import (
    NOWHERE,
    Actor,
    address,
    error_of,
    head,
    new_agent,
    new_name,
    operator,
    raw,
    raw_error,
    read_answer,
    to_json,
)
from wakeline.errors import CATALOGUE
from wakeline.faces.http.operations import OPERATIONS, Operation
from wakeline.testing.server import Answer, ServerProcess

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


def path_of(operation: Operation) -> str:
    return operation.path.format(
        message_id=NOWHERE, thread_id=NOWHERE, dead_letter_id=NOWHERE, handle="@nobody-at-all", jti=NOWHERE
    )


def refused(answer: Answer) -> dict[str, Any]:
    assert 400 <= answer.status < 500, (answer.status, answer.body)
    error = error_of(answer)
    assert error["code"] in CATALOGUE
    return error


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


WRONG: list[Any] = [
    None, [], {}, [[]], {"a": 1}, -1, 1.5, True, "", "\n", "x" * 3_000, 10**30, [None], ["x"] * 2_000,
]  # fmt: skip


@pytest.mark.guarantee("G-HOSTILE")
@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_unknown_fields_and_wrong_types_are_refused(node: ServerProcess, operation: Operation) -> None:
    human = operator(node)
    assert operation.body is not None
    error = refused(human.call(operation.method, path_of(operation), {"surprise": 1}))
    assert error["code"] == "INVALID_ARGUMENT"
    for field in msgspec.structs.fields(operation.body):
        for value in WRONG:
            answer = human.call(operation.method, path_of(operation), {field.encode_name: value})
            if operation.name == "prune_log" or value == "\n":  # which can do without, and which is a text
                assert answer.status < 500
            else:
                refused(answer)


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


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        (b"abc-DEF_1.2", True),
        (b"a" * 64, True),
        (b"a" * 65, False),
        (b"a b", False),
        (b"a\tb", False),
        (b"a\xff", False),
        (b"<script>", False),
        (b"", False),
        (b"a;b=c", False),
    ],
)
def test_a_request_id_is_echoed_only_if_it_is_harmless(
    node: ServerProcess, alice: Actor, given: bytes, *, echoed: bool
) -> None:
    request = head("GET", "/v1/nothing-here", alice.token)[:-2] + b"X-Request-Id: " + given + b"\r\n\r\n"
    status, headers, body = raw(node, request)
    assert status == 404
    error_of(Answer(status, headers, body), "NOT_FOUND")
    assert (headers["x-request-id"].encode("latin-1") == given) == echoed


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


@pytest.mark.guarantee("G-HOSTILE")
def test_a_request_that_is_too_large_is_refused_however_it_is_sent(node: ServerProcess, alice: Actor) -> None:
    huge = b'{"body": "' + b"x" * 4_000_000 + b'"}'
    error_of(alice.call("POST", "/v1/messages", huge), "BODY_TOO_LARGE")
    parts = [huge[n : n + 50_000] for n in range(0, len(huge), 50_000)]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    request = head("POST", "/v1/messages", alice.token, Transfer_Encoding="chunked") + chunked + b"0\r\n\r\n"
    assert raw_error(node, request)["code"] == "BODY_TOO_LARGE"


def test_after_a_request_that_was_too_large_the_connection_goes_on(node: ServerProcess, alice: Actor) -> None:
    connection = node.connect()
    for _ in range(2):
        headers = {"Authorization": f"Bearer {alice.token}"}
        connection.request("POST", "/v1/messages", b"x" * 3_000_000, headers)
        answer = connection.getresponse()
        assert (answer.status, b"BODY_TOO_LARGE" in answer.read()) == (413, True)
        connection.request("GET", "/v1/whoami", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, alice.handle.encode() in answer.read()) == (200, True)
    connection.close()


@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_headers_have_a_limit(node: ServerProcess, size: int) -> None:
    assert raw_error(node, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * size)["code"] == "MALFORMED_HTTP"
    many = b"".join(b"X-%d: y\r\n" % n for n in range(size // 8))
    assert raw_error(node, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + many)["code"] == "MALFORMED_HTTP"
    assert raw_error(node, b"GET /" + b"x" * size)["code"] == "MALFORMED_HTTP"


# -- bytes that are no HTTP -------------------------------------------------------------------------------------------

NO_HTTP = {
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 50,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a strange method": b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a space in a header name": b"GET /healthz HTTP/1.1\r\nHo st: x\r\n\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "a bare return in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n",
    "a length that is none": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    "a negative length": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a length and chunks": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks of no size": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a raw path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "an empty target": b"GET  HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.guarantee("G-HOSTILE")
@pytest.mark.parametrize("request_bytes", NO_HTTP.values(), ids=NO_HTTP.keys())
def test_bytes_that_are_no_http_get_an_error_of_ours(node: ServerProcess, request_bytes: bytes) -> None:
    assert raw_error(node, request_bytes)["code"] in ("MALFORMED_HTTP", "NOT_FOUND", "TOKEN_MISSING")


@pytest.mark.guarantee("G-HOSTILE")
def test_a_length_that_lies_harms_nobody_else(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    body = to_json({"to": [bob.handle], "body": "x"})
    with socket.create_connection(address(node), timeout=20) as connection:  # more is promised than is sent
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(body) + 10) + body)
    with socket.create_connection(address(node), timeout=20) as connection:  # more is sent than was promised
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(body)) + body + b"\x00\x01")
        status, _, _ = read_answer(connection)
        assert status in (201, 400)
        if status == 201:
            assert read_answer(connection)[0] in (0, 400)
    assert len(bob.mail()) <= 1


@pytest.mark.guarantee("G-HOSTILE")
def test_a_second_request_cannot_hide_in_the_body_of_the_first(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    hidden = head("POST", "/v1/messages", None, Content_Length=2) + b"{}"
    with socket.create_connection(address(node), timeout=20) as connection:
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(hidden)) + hidden)
        status, headers, body = read_answer(connection)
        error_of(Answer(status, headers, body), "MALFORMED_JSON")
        connection.sendall(head("GET", "/v1/whoami", alice.token))
        assert read_answer(connection)[0] == 200


def test_a_body_where_none_belongs_changes_nothing(node: ServerProcess, alice: Actor) -> None:
    with socket.create_connection(address(node), timeout=20) as connection:
        for _ in range(3):
            connection.sendall(head("GET", "/v1/whoami", alice.token, Content_Length=200_000) + b"x" * 200_000)
            assert read_answer(connection)[0] == 200


def test_an_upgrade_is_not_offered(node: ServerProcess, alice: Actor) -> None:
    request = head(
        "GET", "/v1/whoami", alice.token, Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="eA==",
        Sec_WebSocket_Version=13,
    )  # fmt: skip
    assert raw(node, request)[0] == 200


# -- paths, queries and methods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/v1", "/v1/", "/v1/inbox/", "//v1/inbox", "/v1//inbox", "/V1/inbox", "/v1/../healthz",
        "/healthz/..", "/v1/messages/../../../etc/passwd",
        "/v1/messages/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/%00", "/v1/inbox%00",
        "/v1/inbox%0a", "/v1/inbox%20", "/v1/inbox;x=1", "/.git/config", "/v1/messages/%ff%fe", "/" + "a" * 3_000,
        "/v1/threads/x/messages", "/v1/messages/x", "/v1/threads/" + "0" * 27,
    ],
)  # fmt: skip
def test_a_path_that_is_none_is_not_found(node: ServerProcess, alice: Actor, path: str) -> None:
    answer = alice.call("GET", path)
    assert answer.status == 404
    assert refused(answer)["code"] in ("NOT_FOUND", "MESSAGE_NOT_FOUND", "THREAD_NOT_FOUND")


@pytest.mark.parametrize(
    "query",
    [
        "limit=1&limit=2", "limit=1&limit=1", "limit=%zz", "limit=%00", "limit", "=", "%00=1", "after=%00", "after=%ff",
        "%ff=1", "limit=1%0d%0aX-Evil:1", "limit=1e3", "limit=0x10", "limit=%EF%BC%91", "limit=" + "9" * 5_000,
        "&".join(f"a{n}=1" for n in range(500)), "limit[]=1", "limit=1;limit=2", "limit=null", "of=@a%0a", "a=b=c",
    ],
)  # fmt: skip
def test_a_query_that_is_none_is_refused(node: ServerProcess, alice: Actor, query: str) -> None:
    request = head("GET", "/v1/inbox?", alice.token).replace(b"?", b"?" + query.encode(), 1)
    assert raw_error(node, request)["code"] in ("INVALID_ARGUMENT", "MALFORMED_HTTP")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_an_unknown_question_is_refused_everywhere(node: ServerProcess, operation: Operation) -> None:
    answer = operator(node).call(operation.method, f"{path_of(operation)}?surprise=1", {})
    assert refused(answer)["code"] == "INVALID_ARGUMENT"


def test_a_wrong_method_is_told_the_right_ones(node: ServerProcess, alice: Actor) -> None:
    allowed: dict[str, set[str]] = {}
    for operation in OPERATIONS:
        allowed.setdefault(path_of(operation), set()).add(operation.method)
    for path in ("/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/events"):
        allowed[path] = {"GET"}
    connection = node.connect()
    for path, methods in allowed.items():
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - methods:
            connection.request(method, path, headers={"Authorization": f"Bearer {alice.token}"})
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, answer.headers["allow"]) == (405, ", ".join(sorted(methods))), (method, path)
            if method == "HEAD":
                assert body == b""
            else:
                error_of(Answer(answer.status, dict(answer.getheaders()), body), "METHOD_NOT_ALLOWED")
    connection.close()
