"""One key, one message, however many ask at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.chaos.ledger import PATIENCE
from tests.chaos.witness import get
from tests.chaos.writers import Line
from tests.databases import fresh_postgres
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

TIMES = 60

Outcome = tuple[int, Any]


@contextmanager
def _lines(servers: list[ServerProcess], token: str) -> Iterator[list[Line]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Line(server, token))) for server in servers]


def _at_once(lines: list[Line], requests: list[dict[str, Any]]) -> list[Outcome]:
    """Each line posts its request; none before all are at the start."""
    start = threading.Barrier(len(lines))

    def post(line: Line, request: dict[str, Any]) -> Outcome:
        start.wait(PATIENCE)
        return line.call("POST", "/v1/messages", request)

    with ThreadPoolExecutor(len(lines)) as pool:
        return list(pool.map(post, lines, requests))


def _bodies(server: ServerProcess, thread_id: str) -> list[str]:
    page = get(server, f"/v1/threads/{thread_id}/messages?limit=500")
    assert page["has_more"] is False
    return [message["body"] for message in page["messages"]]


def _race(servers: list[ServerProcess]) -> None:
    sender, receiver = f"@s{uuid4().hex[:8]}", f"@r{uuid4().hex[:8]}"
    token = servers[0].add_agent(sender)
    servers[0].add_agent(receiver)
    thread_id = ""
    with _lines(servers, token) as lines:
        for line in lines:
            assert line.call("GET", "/v1/whoami")[0] == 200
        for n in range(TIMES):
            request = {"to": [receiver], "body": f"message {n}", "idempotency_key": f"key {n}"}
            (status, answer), *others = _at_once(lines, [request] * len(lines))
            assert (status, answer["seq"]) == (201, n + 1)
            assert others == [(201, answer)] * len(others)
            thread_id = answer["thread_id"]
    assert _bodies(servers[0], thread_id) == [f"message {n}" for n in range(TIMES)]


@pytest.mark.guarantee("G-ONCE")
def test_posts_with_one_key_at_once_are_one_message(node: ServerProcess) -> None:
    _race([node] * 4)


@pytest.mark.guarantee("G-ONCE")
def test_of_different_posts_with_one_key_at_once_one_is_accepted(node: ServerProcess) -> None:
    token = node.add_agent(f"@s{uuid4().hex[:8]}")
    receiver = f"@r{uuid4().hex[:8]}"
    node.add_agent(receiver)
    winners = []
    thread_id = ""
    with _lines([node] * 4, token) as lines:
        for n in range(TIMES):
            requests = [{"to": [receiver], "body": f"{n} by {k}", "idempotency_key": f"key {n}"} for k in range(4)]
            outcomes = _at_once(lines, requests)
            [winner] = [k for k, (status, _) in enumerate(outcomes) if status == 201]
            refused = [answer["error"]["code"] for status, answer in outcomes if status == 409]
            assert refused == ["IDEMPOTENCY_CONFLICT"] * 3
            winners.append(f"{n} by {winner}")
            thread_id = outcomes[winner][1]["thread_id"]
    assert _bodies(node, thread_id) == winners


@pytest.mark.guarantee("G-ONCE")
def test_posts_with_one_key_at_once_through_two_nodes_are_one_message(tmp_path: Path) -> None:
    with fresh_postgres() as url, ServerProcess(tmp_path / "one", database=url) as one:
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "key").write_bytes((tmp_path / "one" / "key").read_bytes())
        with ServerProcess(tmp_path / "two", database=url) as two:
            _race([one, two, one, two])


def test_the_first_calls_to_a_fresh_node_at_once_are_all_known(tmp_path: Path) -> None:
    with fresh_postgres() as url, ServerProcess(tmp_path / "data", database=url) as node:
        token = node.add_agent("@sender")
        node.add_agent("@receiver")
        node.kill()
        node.start()
        with _lines([node] * 16, token) as lines:
            request = {"to": ["@receiver"], "body": "first", "idempotency_key": "first"}
            outcomes = _at_once(lines, [request] * len(lines))
        assert outcomes == [outcomes[0]] * len(outcomes)
