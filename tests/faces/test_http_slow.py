"""Who takes for ever to send a request is cut off; who waits for an answer is not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.faces.http_calls import Actor, address, error_of, head, new_agent, raw, read_answer, to_json
from tests.faces.listener import Listener
from wakeline.testing.server import Answer, ServerProcess

PATIENCE = 0.5  # of the server, with a request
PAUSE = 0.05


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("hasty") / "data"
    with ServerProcess(data, receive_seconds=PATIENCE, keepalive_seconds=PATIENCE) as process:
        yield process


@pytest.fixture
def alice(hasty: ServerProcess) -> Actor:
    return new_agent(hasty, "alice")


def trickle(connection: socket.socket, data: bytes) -> Answer | None:
    """Send a byte now and then until the server says something; None: it hung up without a word."""
    for n in range(len(data)):
        connection.settimeout(20)
        connection.sendall(data[n : n + 1])
        connection.settimeout(PAUSE)
        try:
            connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            continue
        break
    connection.settimeout(20)
    status, headers, body = read_answer(connection)
    return Answer(status, headers, body) if status else None


def is_over(connection: socket.socket) -> bool:
    """A byte of ours that was on its way when the server hung up makes the end a reset."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def post(actor: Actor, body: bytes) -> bytes:
    return head("POST", "/v1/messages", actor.token, Content_Length=len(body))


def test_a_head_that_trickles_in_is_cut_off(alice: Actor) -> None:
    with socket.create_connection(address(alice.server)) as connection:
        answer = trickle(connection, head("GET", "/v1/inbox", alice.token, X_Long="x" * 1_000))
        assert answer is not None
        assert answer.status == 408
        assert error_of(answer, "REQUEST_TOO_SLOW")["retryable"]
        assert is_over(connection)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_trickles_in_is_cut_off_and_posts_nothing(
    alice: Actor, hasty: ServerProcess, *, chunked: bool
) -> None:
    bob = new_agent(hasty, "bob")
    body = to_json({"to": [bob.handle], "body": "x" * 1_000})
    start = head("POST", "/v1/messages", alice.token, Transfer_Encoding="chunked") if chunked else post(alice, body)
    slowly = b"".join(b"1\r\n%c\r\n" % byte for byte in body) if chunked else body
    with socket.create_connection(address(hasty)) as connection:
        connection.sendall(start)
        answer = trickle(connection, slowly)
        assert answer is not None
        assert answer.status == 408
        error_of(answer, "REQUEST_TOO_SLOW")
        assert is_over(connection)
    assert bob.unread() == []


def test_a_second_request_on_a_connection_has_a_deadline_too(alice: Actor) -> None:
    with socket.create_connection(address(alice.server), timeout=20) as connection:
        connection.sendall(head("GET", "/v1/whoami", alice.token))
        assert read_answer(connection)[0] == 200
        answer = trickle(connection, head("GET", "/v1/inbox", alice.token, X_Long="x" * 1_000))
        assert answer is not None
        error_of(answer, "REQUEST_TOO_SLOW")


def test_who_says_nothing_is_hung_up_on_without_a_word(hasty: ServerProcess) -> None:
    with socket.create_connection(address(hasty), timeout=20) as connection:
        assert is_over(connection)


def test_the_rest_of_a_refused_request_gets_no_second_answer(hasty: ServerProcess) -> None:
    with socket.create_connection(address(hasty), timeout=20) as connection:
        connection.sendall(head("POST", "/v1/messages", None, Content_Length=100))
        assert read_answer(connection)[0] == 401
        assert is_over(connection)


def test_an_open_stream_is_no_slow_request(alice: Actor) -> None:
    with Listener(alice) as stream:
        for _ in range(4):  # each after the time in which a request must arrive
            stream.wait_for_comment()
        alice.send(alice, body="still there")
        assert stream.take(1)[0].body == "still there"


def test_waiting_for_a_reply_is_no_slow_request(alice: Actor, hasty: ServerProcess) -> None:
    bob = new_agent(hasty, "bob")
    assert alice.send(bob, wait_seconds=PATIENCE * 3)["reply"] is None


def test_the_beginning_of_the_next_request_waits_for_the_answer_to_this_one(alice: Actor) -> None:
    body = to_json({"to": ["@human"], "body": "ask", "wait_seconds": PATIENCE * 3})
    next_one = head("GET", "/v1/whoami", alice.token)
    with socket.create_connection(address(alice.server), timeout=20) as connection:
        connection.sendall(post(alice, body) + body)
        connection.sendall(next_one[:20])
        status, _, answer = read_answer(connection)
        assert (status, b'"reply":null' in answer) == (201, True)
        connection.sendall(next_one[20:])
        assert read_answer(connection)[0] == 200


def test_a_request_in_a_few_pieces_is_as_good_as_any(alice: Actor) -> None:
    request = head("GET", "/v1/whoami", alice.token)
    with socket.create_connection(address(alice.server), timeout=20) as connection:
        for piece in (request[:10], request[10:40], request[40:]):
            connection.sendall(piece)
        assert read_answer(connection)[0] == 200
    assert raw(alice.server, request)[0] == 200
