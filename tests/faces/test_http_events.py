from __future__ import annotations

import threading

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, operator
from tests.faces.listener import Listener
from wakeline.testing.server import ServerProcess

MALFORMED = [
    "",
    "1",
    "-1",
    "00",
    "x",
    "a-b",
    "a-1-2",
    "a-%2B1",
    "a-1%0A",
    "a-1%00",
    "A-1",
    "a-" + "1" * 19,
    "%F0%9F%99%82",
]


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


def position(actor: Actor) -> str:
    here: str = actor.get("/v1/status")["position"]
    return here


# -- frames -----------------------------------------------------------------------------------------------------------


def test_an_event_carries_its_message_and_its_position(alice: Actor, bob: Actor) -> None:
    with Listener(bob) as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.comments == [": connected"]
        posted = alice.send(bob, body="one\ntwo\r\n\r\ndata: three \u2028 🙂", subject="s")
        [event] = stream.take(1)
    assert event.id == f"{posted['epoch']}-{posted['log_id']}"
    assert event.kind == event.data["kind"] == "message.posted"
    assert set(event.data) == {
        "log_id", "epoch", "kind", "stream", "stream_seq", "actor", "subject", "created_at", "message",
    }  # fmt: skip
    assert event.data["log_id"] == posted["log_id"]
    assert event.data["stream"] == f"thread:{posted['thread_id']}"
    assert event.data["actor"] == alice.handle
    assert event.data["message"]["body"] == "one\ntwo\r\n\r\ndata: three \u2028 🙂"
    assert event.data["message"]["message_id"] == event.data["subject"] == posted["message_id"]


def test_whatever_happens_to_oneself_is_an_event(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    with Listener(bob) as stream:
        posted = alice.send(bob)
        bob.ack(posted["message_id"])
        bob.post(f"/v1/threads/{posted['thread_id']}/ack", last_read_seq=1)
        taken = alice.send(bob)
        alice.post(f"/v1/messages/{taken['message_id']}/retract", reason="typo")
        bob.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all")
        alice.thread("plan", bob)
        operator(node).post("/v1/grants", scope="CAN_REPLY_TO", grantee=bob.handle, owner=alice.handle)
        kinds = [event.kind for event in stream.take(8)]
    assert kinds == [
        "message.posted", "inbox.acked", "thread.acked", "message.posted", "message.retracted", "dead_letter.kept",
        "thread.created", "grant.added",
    ]  # fmt: skip


@pytest.mark.guarantee("G-VISIBLE")
def test_everybody_hears_what_they_may_see_and_nothing_else(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    carol, lead = new_agent(node, "carol"), new_agent(node, "lead", "coordinator")
    with Listener(alice) as a, Listener(bob) as b, Listener(carol) as c, Listener(lead) as everything:
        alice.send(bob, body="for bob")
        bob.post("/v1/blocks", blocked=carol.handle)
        alice.send("everyone", body="for all")
        heard = {
            name: [event.body or event.kind for event in stream.take_until("for all")]
            for name, stream in (("a", a), ("b", b), ("c", c), ("lead", everything))
        }
    assert heard == {
        "a": ["for bob", "for all"],
        "b": ["for bob", "block.set", "for all"],
        "c": ["for all"],  # who was blocked is not told
        "lead": ["for bob", "block.set", "for all"],
    }


@pytest.mark.guarantee("G-VISIBLE")
def test_a_new_member_hears_the_thread_and_who_left_hears_no_more(alice: Actor, bob: Actor) -> None:
    thread_id = alice.thread("plan")
    with Listener(bob) as stream:
        alice.post(f"/v1/threads/{thread_id}/members", members=[bob.handle])
        alice.send(thread_id=thread_id, body="inside")
        stream.take_until("inside")
        alice.do("DELETE", f"/v1/threads/{thread_id}/members", members=[bob.handle])
        alice.send(thread_id=thread_id, body="after")
        alice.send(bob, body="end")
        assert [event.body for event in stream.take_until("end")] == ["end"]


def test_one_frame_is_the_same_for_all(alice: Actor, bob: Actor) -> None:
    with Listener(bob) as one, Listener(bob) as two, Listener(alice) as three:
        alice.send(bob)
        assert one.take(1) == two.take(1) == three.take(1)


# -- positions --------------------------------------------------------------------------------------------------------


def test_without_a_position_a_stream_begins_now(alice: Actor, bob: Actor) -> None:
    alice.send(bob, body="before")
    with Listener(bob) as stream:
        alice.send(bob, body="after")
        assert [event.body for event in stream.take(1)] == ["after"]


@pytest.mark.guarantee("G-RESUME")
@pytest.mark.parametrize("way", ["after", "last_event_id"])
def test_a_stream_resumes_after_its_position(alice: Actor, bob: Actor, way: str) -> None:
    with Listener(bob) as stream:
        for n in range(5):
            alice.send(bob, body=str(n))
        events = stream.take(5)
    with Listener(bob, **{way: events[1].id}) as stream:
        alice.send(bob, body="5")
        again = stream.take(4)
        assert stream.headers["wakeline-position"] == events[1].id
    assert [event.body for event in again] == ["2", "3", "4", "5"]
    assert again[:3] == events[2:]


def test_last_event_id_wins(alice: Actor, bob: Actor) -> None:
    start = position(bob)
    alice.send(bob, body="1")
    middle = position(bob)
    alice.send(bob, body="2")
    with Listener(bob, after=start, last_event_id=middle) as stream:
        assert stream.take(1)[0].body == "2"
    with Listener(bob, after="0", last_event_id=middle) as stream:
        assert stream.take(1)[0].body == "2"
    with Listener(bob, after=middle, last_event_id="0") as stream:
        assert stream.take_until("1")
    for after, last in ((middle, "malformed"), ("malformed", middle)):
        with Listener(bob, after=after, last_event_id=last) as stream:
            assert stream.refusal is not None
            error_of(stream.refusal, "MALFORMED_POSITION")


@pytest.mark.parametrize("way", ["after", "last_event_id"])
def test_zero_is_the_start_of_what_is_kept(alice: Actor, bob: Actor, way: str) -> None:
    for n in range(3):
        alice.send(bob, body=str(n))
    with Listener(bob, **{way: "0"}) as stream:
        assert [event.kind for event in stream.take(2)] == ["agent.added", "token.issued"]
        assert [event.body for event in stream.take(3)] == ["0", "1", "2"]


@pytest.mark.guarantee("G-NO-SILENT-GAP")
@pytest.mark.parametrize("after", MALFORMED)
def test_a_malformed_position_is_refused_and_never_guessed(bob: Actor, after: str) -> None:
    with Listener(bob, after=after) as stream:
        assert stream.refusal is not None
        assert stream.refusal.status == 400
        error_of(stream.refusal)
        assert stream.refusal.code in ("MALFORMED_POSITION", "INVALID_ARGUMENT")


@pytest.mark.parametrize("last", ["x", "-1", "1", "a-1 b", "0 0", "\u00e9-1"])
def test_a_malformed_last_event_id_is_refused(bob: Actor, last: str) -> None:
    with Listener(bob, last_event_id=last) as stream:
        assert stream.refusal is not None
        error_of(stream.refusal, "MALFORMED_POSITION")


def test_a_position_in_the_future_is_the_end_and_says_so(alice: Actor, bob: Actor) -> None:
    epoch, _, log_id = position(bob).rpartition("-")
    with Listener(bob, after=f"{epoch}-{int(log_id) + 1000}") as stream:
        assert "future" in stream.comments[0]
        assert stream.headers["wakeline-position"] == f"{epoch}-{log_id}"
        alice.send(bob, body="now")
        assert stream.take(1)[0].body == "now"


@pytest.mark.guarantee("G-EPOCH")
def test_a_position_of_another_history_is_gone(alice: Actor, bob: Actor) -> None:
    alice.send(bob)
    for path in ("/v1/events?after=0ther-5", "/v1/log?after=0ther-5"):
        answer = bob.call("GET", path)
        assert answer.status == 410
        details = error_of(answer, "EPOCH_CHANGED")["details"]
        assert details == {"unread": 1, "position": position(bob)}


@pytest.mark.guarantee("G-NO-SILENT-GAP")
def test_a_position_older_than_what_is_kept_is_gone_and_says_where_to_go_on(
    node: ServerProcess, alice: Actor, bob: Actor
) -> None:
    old = position(bob)
    alice.send(bob, body="pruned")
    operator(node).post("/v1/prune", keep=0)
    kept = position(bob)
    alice.send(bob, body="kept")
    with Listener(bob, last_event_id=old) as stream:
        assert stream.refusal is not None
        assert stream.refusal.status == 410
        details = error_of(stream.refusal, "POSITION_EXPIRED")["details"]
    assert details == {"unread": 2, "position": position(bob)}
    error_of(bob.call("GET", f"/v1/log?after={old}"), "POSITION_EXPIRED")
    for after in (kept, "0"):
        with Listener(bob, after=after) as stream:
            assert stream.take(1)[0].body == "kept"


# -- no gap, no duplicate ---------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-RESUME")
def test_no_row_is_missed_or_doubled_across_reconnects_while_many_write(node: ServerProcess, bob: Actor) -> None:
    writers = [new_agent(node, "writer") for _ in range(4)]
    with Listener(bob) as stream:
        start = stream.headers["wakeline-position"]
    each = 40

    def write(writer: Actor) -> None:
        for n in range(each):
            writer.send(bob, body=f"{writer.handle} {n}")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    bodies: list[str | None] = []
    ids: list[int] = []
    last, size = start, 1
    while len(bodies) < each * len(writers):
        with Listener(bob, last_event_id=last) as stream:
            for event in stream.take(min(size, each * len(writers) - len(bodies))):
                bodies.append(event.body)
                ids.append(event.log_id)
                last = event.id
        size = size % 13 + 1
    for thread in threads:
        thread.join()
    assert ids == sorted(set(ids))
    for writer in writers:
        mine = [body for body in bodies if body is not None and body.startswith(writer.handle)]
        assert mine == [f"{writer.handle} {n}" for n in range(each)]


@pytest.mark.guarantee("G-LOG-ORDER")
def test_who_sees_everything_sees_every_row(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    with Listener(operator(node)) as stream:
        start = int(stream.headers["wakeline-position"].rpartition("-")[2])
        threads = [threading.Thread(target=lambda: [alice.send(bob) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        seen = [event.log_id for event in stream.take(80)]
        for thread in threads:
            thread.join()
    assert seen == list(range(start + 1, start + 81))
