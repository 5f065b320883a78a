from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.adapters.receivers import OK, Got, Receiver, answers, status
from tests.databases import fresh_postgres
from tests.faces.http_calls import Actor, new_agent, new_name, operator
from tests.faces.listener import Listener
from wakeline.testing.server import ServerProcess

Nodes = tuple[ServerProcess, ServerProcess]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes that share one database and one key."""
    home, key = tmp_path_factory.mktemp("nodes"), Fernet.generate_key().decode()
    with (
        fresh_postgres() as url,
        ServerProcess(home / "one", database=url, key=key, webhook_allow="127.0.0.0/8") as one,
        ServerProcess(home / "two", database=url, key=key, webhook_allow="127.0.0.0/8") as two,
    ):
        yield one, two


def at(node: ServerProcess, actor: Actor) -> Actor:
    """The same caller at another node."""
    return Actor(node, actor.handle, actor.token)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nodes_that_are_started_together_on_an_empty_database_all_serve(tmp_path: Path) -> None:
    key = Fernet.generate_key().decode()
    with fresh_postgres() as url, ExitStack() as running, ThreadPoolExecutor() as pool:
        starting = [ServerProcess(tmp_path / name, database=url, key=key) for name in ("one", "two", "three")]
        for node in starting:
            running.callback(node.kill)
        list(pool.map(ServerProcess.start, starting))
        for node in starting:
            agent = new_agent(node, "alice")
            assert [at(other, agent).get("/v1/whoami")["handle"] for other in starting] == [agent.handle] * 3


def test_what_one_node_takes_the_other_gives(nodes: Nodes) -> None:
    one, two = nodes
    alice, bob = new_agent(one, "alice"), new_agent(two, "bob")
    with Listener(at(one, bob)) as here, Listener(at(two, bob)) as there:
        first = alice.send(bob, body="from one")
        second = at(two, alice).send(bob, body="from two")
        assert (second["thread_id"], second["seq"]) == (first["thread_id"], 2)
        for stream in (here, there):
            assert [event.body for event in stream.take(2)] == ["from one", "from two"]
    assert at(one, bob).unread() == at(two, bob).unread() == ["from one", "from two"]


def test_a_question_asked_at_one_node_is_answered_at_the_other(nodes: Nodes) -> None:
    one, two = nodes
    alice, bob = new_agent(one, "alice"), new_agent(two, "bob")

    def answer() -> None:
        eventually(lambda: bool(bob.mail()))
        bob.send(in_reply_to=bob.mail()[0]["message_id"], body="42")

    answering = threading.Thread(target=answer)
    answering.start()
    assert alice.send(bob, body="how many?", wait_seconds=30)["reply"]["body"] == "42"
    answering.join()


def test_a_token_revoked_at_one_node_opens_nothing_at_the_other(nodes: Nodes) -> None:
    one, two = nodes
    alice = new_agent(one, "alice")
    there = at(two, alice)
    jti = there.get("/v1/tokens")["tokens"][0]["jti"]
    with Listener(there) as stream:
        operator(one).do("DELETE", f"/v1/tokens/{jti}")
        stream.wait_for_end()
    eventually(lambda: there.call("GET", "/v1/whoami").code == "TOKEN_REVOKED")


def test_a_token_revoked_at_one_node_is_forgotten_where_nobody_listens(nodes: Nodes) -> None:
    one, two = nodes
    alice = new_agent(one, "alice")
    there = at(two, alice)
    jti = there.get("/v1/tokens")["tokens"][0]["jti"]
    operator(one).do("DELETE", f"/v1/tokens/{jti}")
    eventually(lambda: there.call("GET", "/v1/whoami").code == "TOKEN_REVOKED")


def test_a_role_changed_at_one_node_counts_at_the_other(nodes: Nodes) -> None:
    one, two = nodes
    lead = new_agent(one, "lead", "coordinator", "participant")
    there = at(two, lead)
    assert there.get("/v1/whoami")["role"] == "coordinator"
    operator(one).do("PATCH", f"/v1/agents/{lead.handle}", roles=["participant"])
    eventually(lambda: there.get("/v1/whoami")["role"] == "participant")


def test_a_workspace_made_at_one_node_is_served_by_the_other(nodes: Nodes) -> None:
    one, two = nodes
    name = new_name("w")[1:]
    operator(one).post("/v1/workspaces", name=name)
    there = operator(two, name)
    with Listener(there) as stream:
        agent = new_agent(one, "agent", workspace=name)
        operator(one, name).send(agent, body="hello over there")
        stream.take_until("hello over there")
    assert at(two, agent).unread() == ["hello over there"]


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_what_is_posted_at_either_node_wakes_once(nodes: Nodes) -> None:
    """Both of them match, plan and send; the first attempt of each fails, so that both look for the next."""
    one, two = nodes
    alice = await asyncio.to_thread(new_agent, one, "alice")
    bobs = [await asyncio.to_thread(new_agent, node, "bob") for node in (one, two) for _ in range(4)]
    failed: set[str] = set()

    async def fail_once(got: Got, writer: asyncio.StreamWriter) -> None:
        event = json.loads(got.body)["eventId"]
        await answers(OK if event in failed else status(503))(got, writer)
        failed.add(event)

    async with Receiver(fail_once) as receiver:
        for bob in bobs:
            metadata = {"url": receiver.url(), "coalesce_window": 0}
            asked = {"trigger": "SENT_TO_ME", "harness_target_metadata": metadata}
            await asyncio.to_thread(bob.post, "/v1/wake-subscriptions", **asked)
        for n, bob in enumerate(bobs):
            await asyncio.to_thread(at(nodes[n % 2], alice).send, bob, body=f"text {n}")
        await asyncio.to_thread(eventually, lambda: all(outcomes(bob) == ["delivered"] for bob in bobs))
        requests = [got.body for got in receiver.requests]
    assert len(requests) == 2 * len(bobs)
    assert Counter(requests) == dict.fromkeys(requests, 2)


def outcomes(actor: Actor) -> list[str | None]:
    return [row["outcome"] for row in actor.get("/v1/deliveries")["deliveries"]]
