from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.faces.http_calls import (
    Actor,
    address,
    error_of,
    head,
    new_agent,
    operator,
    path_of,
    raw,
    raw_error,
    read_answer,
    refused,
    to_json,
)
from wakeline.faces.http.operation import Operation
from wakeline.faces.http.operations import OPERATIONS
from wakeline.testing.server import Answer, ServerProcess

WITH_BODY = [one for one in OPERATIONS if one.body is not None]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("plain") / "data") as process:
        yield process


@pytest.fixture
def alice(plain: ServerProcess) -> Actor:
    return new_agent(plain, "alice")


@pytest.fixture
def bob(plain: ServerProcess) -> Actor:
    return new_agent(plain, "bob")


@pytest.fixture(autouse=True)
def unharmed(plain: ServerProcess) -> Iterator[None]:
    """Whatever was thrown at it, the server is well, and nothing went wrong inside it."""
    yield
    assert plain.call("GET", "/readyz").status == 200
    assert "Traceback" not in plain.output


# -- fields -----------------------------------------------------------------------------------------------------------

WRONG: list[Any] = [
    None, [], {}, [[]], {"a": 1}, -1, 1.5, True, "", "\n", "x" * 3_000, 10**30, [None], ["x"] * 2_000,
]  # fmt: skip


@pytest.mark.guarantee("G-HOSTILE")
@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_unknown_fields_and_wrong_types_are_refused(plain: ServerProcess, operation: Operation) -> None:
    human = operator(plain)
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


# -- head and size ---------------------------------------------------------------------------------------------------


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
    plain: ServerProcess, alice: Actor, given: bytes, *, echoed: bool
) -> None:
    request = head("GET", "/v1/nothing-here", alice.token)[:-2] + b"X-Request-Id: " + given + b"\r\n\r\n"
    status, headers, body = raw(plain, request)
    assert status == 404
    error_of(Answer(status, headers, body), "NOT_FOUND")
    assert (headers["x-request-id"].encode("latin-1") == given) == echoed


@pytest.mark.guarantee("G-HOSTILE")
def test_a_request_that_is_too_large_is_refused_however_it_is_sent(plain: ServerProcess, alice: Actor) -> None:
    huge = b'{"body": "' + b"x" * 4_000_000 + b'"}'
    error_of(alice.call("POST", "/v1/messages", huge), "BODY_TOO_LARGE")
    parts = [huge[n : n + 50_000] for n in range(0, len(huge), 50_000)]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    request = head("POST", "/v1/messages", alice.token, Transfer_Encoding="chunked") + chunked + b"0\r\n\r\n"
    assert raw_error(plain, request)["code"] == "BODY_TOO_LARGE"


def test_after_a_request_that_was_too_large_the_connection_goes_on(plain: ServerProcess, alice: Actor) -> None:
    connection = plain.connect()
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
def test_headers_have_a_limit(plain: ServerProcess, size: int) -> None:
    assert raw_error(plain, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * size)["code"] == "MALFORMED_HTTP"
    many = b"".join(b"X-%d: y\r\n" % n for n in range(size // 8))
    assert raw_error(plain, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + many)["code"] == "MALFORMED_HTTP"
    assert raw_error(plain, b"GET /" + b"x" * size)["code"] == "MALFORMED_HTTP"


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
def test_bytes_that_are_no_http_get_an_error_of_ours(plain: ServerProcess, request_bytes: bytes) -> None:
    assert raw_error(plain, request_bytes)["code"] in ("MALFORMED_HTTP", "NOT_FOUND", "TOKEN_MISSING")


@pytest.mark.guarantee("G-HOSTILE")
def test_a_length_that_lies_harms_nobody_else(plain: ServerProcess, alice: Actor, bob: Actor) -> None:
    body = to_json({"to": [bob.handle], "body": "x"})
    with socket.create_connection(address(plain), timeout=20) as connection:  # more is promised than is sent
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(body) + 10) + body)
    with socket.create_connection(address(plain), timeout=20) as connection:  # more is sent than was promised
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(body)) + body + b"\x00\x01")
        status, _, _ = read_answer(connection)
        assert status in (201, 400)
        if status == 201:
            assert read_answer(connection)[0] in (0, 400)
    assert len(bob.mail()) <= 1


@pytest.mark.guarantee("G-HOSTILE")
def test_a_second_request_cannot_hide_in_the_body_of_the_first(plain: ServerProcess, alice: Actor, bob: Actor) -> None:
    hidden = head("POST", "/v1/messages", None, Content_Length=2) + b"{}"
    with socket.create_connection(address(plain), timeout=20) as connection:
        connection.sendall(head("POST", "/v1/messages", alice.token, Content_Length=len(hidden)) + hidden)
        status, headers, body = read_answer(connection)
        error_of(Answer(status, headers, body), "MALFORMED_JSON")
        connection.sendall(head("GET", "/v1/whoami", alice.token))
        assert read_answer(connection)[0] == 200


def test_a_body_where_none_belongs_changes_nothing(plain: ServerProcess, alice: Actor) -> None:
    with socket.create_connection(address(plain), timeout=20) as connection:
        for _ in range(3):
            connection.sendall(head("GET", "/v1/whoami", alice.token, Content_Length=200_000) + b"x" * 200_000)
            assert read_answer(connection)[0] == 200


def test_an_upgrade_is_not_offered(plain: ServerProcess, alice: Actor) -> None:
    request = head(
        "GET", "/v1/whoami", alice.token, Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="eA==",
        Sec_WebSocket_Version=13,
    )  # fmt: skip
    assert raw(plain, request)[0] == 200


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
def test_a_path_that_is_none_is_not_found(plain: ServerProcess, alice: Actor, path: str) -> None:
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
def test_a_query_that_is_none_is_refused(plain: ServerProcess, alice: Actor, query: str) -> None:
    request = head("GET", "/v1/inbox?", alice.token).replace(b"?", b"?" + query.encode(), 1)
    assert raw_error(plain, request)["code"] in ("INVALID_ARGUMENT", "MALFORMED_HTTP")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_an_unknown_question_is_refused_everywhere(plain: ServerProcess, operation: Operation) -> None:
    answer = operator(plain).call(operation.method, f"{path_of(operation)}?surprise=1", {})
    assert refused(answer)["code"] == "INVALID_ARGUMENT"


def test_a_wrong_method_is_told_the_right_ones(plain: ServerProcess, alice: Actor) -> None:
    allowed: dict[str, set[str]] = {}
    for operation in OPERATIONS:
        allowed.setdefault(path_of(operation), set()).add(operation.method)
    for path in ("/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/events", "/v1/wakes"):
        allowed[path] = {"GET"}
    connection = plain.connect()
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
