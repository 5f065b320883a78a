"""Mail to a role is for its holders; everybody else has what they sent and what was sent to them, on every face."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.faces.command_line import Shell
from tests.faces.http_calls import HUMAN, Actor, new_agent, operator
from tests.faces.listener import Listener
from wakeline.testing.server import ServerProcess

# What is said in the world below, in this order.
ALL = ("asks", "answers", "inside", "of the one who leaves", "later", "taken back", "thanks")

# Who reads what, whatever the face.
READS = {
    "holder": ALL,
    "late holder": ALL,  # who is in a thread reads its history
    "ex-holder": ("asks", "inside", "of the one who leaves"),
    "outside sender": ("asks", "answers", "thanks"),
    "stranger": (),
    "human": ALL,
    "auditor": ALL,
}
# Who hears what while it happens: what was theirs at that moment.
HEARS = {**READS, "ex-holder": ("asks", "answers", "inside", "of the one who leaves")}
# Who has a receipt: only who was addressed.
RECEIVES = {
    "holder": ("asks", "of the one who leaves", "later", "taken back", "thanks"),
    "late holder": ("later", "taken back"),
    "ex-holder": ("asks", "inside"),
    "outside sender": ("answers",),
    "stranger": (),
    "human": (),
    "auditor": (),
}


class World:
    """A role's thread, and everybody who may want to look into it, each listening from the start."""

    def __init__(self, node: ServerProcess, stack: ExitStack) -> None:
        self.node = node
        self.word = "w" + uuid.uuid4().hex[:10]
        self.role = "r" + uuid.uuid4().hex[:10]
        self.actors = {
            "holder": new_agent(node, "holder", self.role),
            "late holder": new_agent(node, "late"),
            "ex-holder": new_agent(node, "ex", self.role),
            "outside sender": new_agent(node, "asker"),
            "stranger": new_agent(node, "stranger"),
            "human": operator(node),
            "auditor": new_agent(node, "auditor", "auditor"),
        }
        self.start = operator(node).get("/v1/status")["position"]
        self.live = {who: stack.enter_context(Listener(actor)) for who, actor in self.actors.items()}
        self.ids: dict[str, str] = {}
        self.thread_id = self._play()

    def _play(self) -> str:
        holder, late, leaver, asker = (
            self.actors[who] for who in ("holder", "late holder", "ex-holder", "outside sender")
        )
        other = new_agent(self.node, "other")
        thread_id = self.say("asks", asker, f"role:{self.role}", idempotency_key="asks")
        self.say("answers", holder, in_reply_to=self.ids["asks"])
        self.say("inside", holder, f"role:{self.role}")
        self.say("of the one who leaves", leaver, f"role:{self.role}")
        operator(self.node).do("PATCH", f"/v1/agents/{leaver.handle}", roles=["participant"])
        operator(self.node).do("PATCH", f"/v1/agents/{late.handle}", roles=["participant", self.role])
        self.say("later", other, f"role:{self.role}")
        self.say("taken back", other, f"role:{self.role}")
        self.say("thanks", asker, in_reply_to=self.ids["answers"])
        return thread_id

    def say(self, what: str, actor: Actor, *to: str, **fields: Any) -> str:
        # Each is a decision, so that a summary shows its text.
        posted = actor.send(*to, body=f"{self.word} {what}", tags=["decision"], **fields)
        self.ids[what] = posted["message_id"]
        return str(posted["thread_id"])

    def mentioned(self, bodies: list[str | None]) -> list[str]:
        """What of this world is said there, in order."""
        return [body.removeprefix(f"{self.word} ") for body in bodies if body is not None and self.word in body]


@pytest.fixture(scope="module")
def world(node: ServerProcess) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(node, stack)


def bodies(messages: list[Any]) -> list[str | None]:
    return [message["body"] for message in messages]


# -- the faces --------------------------------------------------------------------------------------------------------


def by_thread(world: World, who: str) -> list[str | None]:
    actor, path = world.actors[who], f"/v1/threads/{world.thread_id}/messages"
    if not READS[who]:
        actor.refused("THREAD_NOT_FOUND", "GET", path)
        return []
    found: list[str | None] = []
    since, more = 0, True
    while more:
        page = actor.get(path, since_seq=since, limit=2)
        found += bodies(page["messages"])
        since, more = page["next_seq"], page["has_more"]
    return found


def by_message(world: World, who: str) -> list[str | None]:
    answers = [world.actors[who].call("GET", f"/v1/messages/{message_id}") for message_id in world.ids.values()]
    assert {answer.code for answer in answers if answer.status != 200} <= {"MESSAGE_NOT_FOUND"}
    return [answer.json()["body"] for answer in answers if answer.status == 200]


def by_log(world: World, who: str) -> list[str | None]:
    page = world.actors[who].get("/v1/log", after=world.start, limit=2)
    events = page["events"]
    while page["has_more"]:
        page = world.actors[who].get("/v1/log", after=page["position"], limit=2)
        events += page["events"]
    return bodies([event["message"] for event in events if "message" in event])


def by_events(world: World, who: str) -> list[str | None]:
    with Listener(world.actors[who], after=world.start) as stream:
        return heard(world, who, stream)


def heard(world: World, who: str, stream: Listener) -> list[str | None]:
    end = uuid.uuid4().hex
    new_agent(world.node, "last").send(world.actors[who], body=end)
    return [event.body for event in stream.take_until(end)]


def by_search(world: World, who: str) -> list[str | None]:
    found = world.actors[who].get("/v1/search", q=world.word, limit=100)["messages"]
    return bodies(sorted(found, key=lambda message: message["log_id"]))


def by_summary(world: World, who: str) -> list[str | None]:
    path = f"/v1/threads/{world.thread_id}/summary"
    if not READS[who]:
        world.actors[who].refused("THREAD_NOT_FOUND", "GET", path)
        return []
    summary = world.actors[who].get(path)
    assert summary["messages"] == sum(one["messages"] for one in summary["participants"]) == len(READS[who])
    return [decision["text"] for decision in summary["decisions"]]


def by_command_line(world: World, who: str) -> list[str | None]:
    token = world.actors[who].token
    shell = Shell(world.node.environ)
    result = (shell if token is None else shell.as_token(token)).run("read", world.thread_id, "-o", "json")
    if not READS[who]:
        assert result.error()["code"] == "MESSAGE_NOT_FOUND"
        return []
    return bodies(result.json()["messages"])


FACES: dict[str, Callable[[World, str], list[str | None]]] = {
    "thread": by_thread,
    "message": by_message,
    "log": by_log,
    "events": by_events,
    "search": by_search,
    "summary": by_summary,
    "command line": by_command_line,
}


@pytest.mark.guarantee("G-ROLE-MAIL")
@pytest.mark.parametrize("who", READS)
@pytest.mark.parametrize("face", FACES)
def test_everybody_reads_what_is_theirs_of_a_roles_mail(world: World, face: str, who: str) -> None:
    assert tuple(world.mentioned(FACES[face](world, who))) == READS[who]


@pytest.mark.guarantee("G-ROLE-MAIL")
@pytest.mark.parametrize("who", HEARS)
def test_everybody_hears_what_is_theirs_when_it_happens(world: World, who: str) -> None:
    stream, found, last = world.live[who], list[str | None](), world.start
    if who not in ("late holder", "ex-holder"):
        found = heard(world, who, stream)
    else:  # a change of roles ends the stream; it goes on from its last id
        while (event := stream.next()) is not None:
            found.append(event.body)
            last = event.id
        with Listener(world.actors[who], last_event_id=last) as resumed:
            found += heard(world, who, resumed)
    assert tuple(world.mentioned(found)) == HEARS[who]


@pytest.mark.guarantee("G-ROLE-MAIL")
@pytest.mark.parametrize("who", RECEIVES)
def test_the_inbox_holds_what_was_addressed(world: World, who: str) -> None:
    actor = world.actors[who]
    assert tuple(world.mentioned(bodies(actor.mail(state="all")))) == RECEIVES[who]
    of_the_holder = f"/v1/inbox?of={world.actors['holder'].handle}&state=all"
    if who == "human":
        assert tuple(world.mentioned(bodies(actor.get(of_the_holder)["messages"]))) == RECEIVES["holder"]
    elif who != "holder":
        actor.refused("GRANT_MISSING", "GET", of_the_holder)


@pytest.mark.parametrize("who", READS)
def test_only_what_can_be_read_can_be_replied_to(world: World, who: str) -> None:
    actor = world.actors[who]
    for what in set(ALL) - set(READS[who]):
        actor.send_refused("MESSAGE_NOT_FOUND", in_reply_to=world.ids[what])
        actor.send_refused("MESSAGE_NOT_FOUND", HUMAN, in_reply_to=world.ids[what])


def test_an_ask_of_a_role_is_answered_to_who_asked(world: World) -> None:
    asker = world.actors["outside sender"]
    again = asker.send(
        f"role:{world.role}", body=f"{world.word} asks", tags=["decision"], idempotency_key="asks", wait_seconds=5
    )
    assert again["reply"]["body"] == f"{world.word} answers"


def test_who_is_in_a_roles_thread_is_known_inside_only(world: World) -> None:
    path = f"/v1/threads/{world.thread_id}"
    inside = world.actors["holder"].get(path)
    assert {one["handle"] for one in inside["members"]} == {
        world.actors["holder"].handle,
        world.actors["late holder"].handle,
    }
    assert inside["last_seq"] == len(ALL)
    for who, last_seq in (("outside sender", 7), ("ex-holder", 4)):
        outside = world.actors[who].get(path)
        assert "members" not in outside
        assert outside["last_seq"] == last_seq
        assert world.thread_id not in [one["thread_id"] for one in world.actors[who].get("/v1/threads")["threads"]]
    world.actors["stranger"].refused("THREAD_NOT_FOUND", "GET", path)


@pytest.mark.parametrize("form", ["human", "json", "jsonl", "toon"])
def test_a_thread_without_its_members_is_shown_in_every_form(world: World, form: str) -> None:
    asker = Shell(world.node.environ).as_token(str(world.actors["outside sender"].token))
    for command in ("show", "members"):
        result = asker.run("thread", command, world.thread_id, "-o", form)
        assert (result.code, world.actors["holder"].handle in result.out) == (0, False), result.err


# -- writing from outside ---------------------------------------------------------------------------------------------


class Cast:
    def __init__(self, node: ServerProcess) -> None:
        self.role = "r" + uuid.uuid4().hex[:10]
        self.holders = [new_agent(node, "holder", self.role), new_agent(node, "holder", self.role)]
        self.asker = new_agent(node, "asker")
        self.asked = self.asker.send(f"role:{self.role}", body="who has time?")
        self.thread_id = self.asked["thread_id"]


@pytest.fixture
def cast(node: ServerProcess) -> Cast:
    return Cast(node)


def test_from_outside_a_role_is_written_to_by_its_name_or_by_a_reply(cast: Cast, node: ServerProcess) -> None:
    refused = cast.asker.send_refused("NOT_A_MEMBER", thread_id=cast.thread_id)
    assert f"role:{cast.role}" in refused["hint"]
    new_agent(node, "stranger").send_refused("THREAD_NOT_FOUND", thread_id=cast.thread_id)
    named = cast.asker.send(f"role:{cast.role}", thread_id=cast.thread_id, body="anybody?")
    followed = cast.asker.send(in_reply_to=cast.asked["message_id"], body="still open")
    assert named["thread_id"] == followed["thread_id"] == cast.thread_id
    for holder in cast.holders:
        assert holder.unread() == ["who has time?", "anybody?", "still open"]


def test_who_asked_a_role_can_be_named_in_the_answer_and_nobody_else(cast: Cast, node: ServerProcess) -> None:
    holder, question = cast.holders[0], cast.asked["message_id"]
    answer = holder.send(cast.asker, in_reply_to=question, thread_id=cast.thread_id, body="I have")
    assert answer["thread_id"] == cast.thread_id
    assert cast.asker.unread() == ["I have"]
    stranger = new_agent(node, "stranger")
    holder.send_refused("NOT_A_MEMBER", stranger, in_reply_to=question, thread_id=cast.thread_id)
    holder.send_refused("NOT_A_MEMBER", cast.asker, thread_id=cast.thread_id)


def test_an_answer_from_a_roles_thread_is_acknowledged_from_outside(cast: Cast, node: ServerProcess) -> None:
    answer = cast.holders[0].send(in_reply_to=cast.asked["message_id"], body="I have")
    cast.holders[0].send(f"role:{cast.role}", body="among us")
    acked = cast.asker.post(f"/v1/threads/{cast.thread_id}/ack", last_read_seq=1_000)
    assert acked == {"last_read_seq": 0, "unread": 0}  # read, but there is no place in the thread to keep
    [receipt] = cast.holders[0].message(answer["message_id"])["receipts"]
    assert receipt["read_at"] is not None
    assert cast.holders[1].inbox()["unread"] == 2
    path = f"/v1/threads/{cast.thread_id}/ack"
    new_agent(node, "stranger").refused("THREAD_NOT_FOUND", "POST", path, last_read_seq=1)


def test_what_is_taken_back_is_heard_by_who_had_it(cast: Cast, node: ServerProcess) -> None:
    stranger = new_agent(node, "stranger")
    answer = cast.holders[0].send(in_reply_to=cast.asked["message_id"], body="I have")
    with Listener(cast.asker) as asker, Listener(stranger) as outside:
        cast.holders[0].post(f"/v1/messages/{answer['message_id']}/retract")
        [event] = asker.take(1)
        cast.holders[0].send(stranger, body="end")
        assert [one.body for one in outside.take_until("end")] == ["end"]
    assert (event.kind, event.data["subject"]) == ("message.retracted", answer["message_id"])
    assert cast.asker.get("/v1/log", after=event.id.rpartition("-")[0] + "-0")["events"][-1]["kind"] == event.kind


def test_a_roles_thread_can_be_escalated_to_somebody_outside(cast: Cast, node: ServerProcess) -> None:
    owner = new_agent(node, "owner")
    path = f"/v1/threads/{cast.thread_id}/status"
    cast.holders[0].post(path, status="blocked", reason="no key", escalation_owner=owner.handle)
    cast.asker.refused("NOT_A_MEMBER", "POST", path, status="active")
    [entry] = owner.read(cast.thread_id)["messages"]
    assert entry["metadata"]["escalation_owner"] == owner.handle
    assert owner.post(path, status="active", reason="here it is")["status"] == "active"
    assert bodies(owner.read(cast.thread_id)["messages"])[0] == entry["body"]


def test_a_human_writes_to_a_role_without_joining_it(cast: Cast, node: ServerProcess) -> None:
    me = operator(node)
    me.send(f"role:{cast.role}", body="from above")
    me.send(thread_id=cast.thread_id, body="once more")
    handles = {one["handle"] for one in me.get(f"/v1/threads/{cast.thread_id}")["members"]}
    assert handles == {holder.handle for holder in cast.holders}


def test_a_closed_thread_of_a_role_is_still_its_holders(cast: Cast, node: ServerProcess) -> None:
    leaver, stays = cast.holders
    stays.send(in_reply_to=cast.asked["message_id"], body="I have")
    operator(node).post(f"/v1/threads/{cast.thread_id}/status", status="closed")
    operator(node).do("PATCH", f"/v1/agents/{leaver.handle}", roles=["participant"])
    late = new_agent(node, "late", cast.role)
    assert len(late.read(cast.thread_id)["messages"]) == len(stays.read(cast.thread_id)["messages"]) == 3
    assert "I have" not in bodies(leaver.read(cast.thread_id)["messages"])
    assert bodies(cast.asker.read(cast.thread_id)["messages"]) == ["who has time?", "I have"]
    assert cast.asker.send(f"role:{cast.role}")["thread_id"] != cast.thread_id


def test_who_is_retired_is_out_and_who_comes_back_is_in_again(cast: Cast, node: ServerProcess) -> None:
    holder, stays = cast.holders
    path = f"/v1/agents/{holder.handle}"
    for retired, expected in ((True, {stays.handle}), (False, {stays.handle, holder.handle})):
        operator(node).do("PATCH", path, retired=retired)
        members = operator(node).get(f"/v1/threads/{cast.thread_id}")["members"]
        assert {one["handle"] for one in members} == expected
