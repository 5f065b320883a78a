from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.flow.pictures import ALICE, BOB, HUMAN, NOW, decide, new_id, picture
from wakeline import wire
from wakeline.core.instant import SECOND
from wakeline.core.level import Proof
from wakeline.core.picture import Picture
from wakeline.core.principal import Caller
from wakeline.core.seat import is_proven
from wakeline.core.session import Presence, Session
from wakeline.flow.attend import Attention, EndSession, Heartbeat

ATTENTION = Attention(300 * SECOND, 250_000)
BOUND = msgspec.structs.replace(ALICE, session_id="bound")


def beat(caller: Caller = ALICE, found: str | None = None, **said: Any) -> Heartbeat:
    return Heartbeat(caller, msgspec.convert(said, wire.HeartbeatSession), new_id(), ATTENTION, found)


def attend(world: Picture, caller: Caller = ALICE, **said: Any) -> Session:
    [session] = decide(world, beat(caller, **said))
    assert isinstance(session, Session), session
    return session


def later(world: Picture, seconds: int) -> Picture:
    world.now += seconds * SECOND
    return world


def log(world: Picture) -> list[tuple[str, Any]]:
    return [(row.kind, msgspec.json.decode(row.data or "null")) for row in world.changes.log]


# -- which session it is ----------------------------------------------------------------------------------------------


def test_a_session_is_registered_once_and_found_again_by_its_native_id() -> None:
    world = picture()
    first = attend(world, harness="codex", native_id="n1", host="here")
    again = attend(world, harness="codex", native_id="n1", host="here")
    assert first.session_id == again.session_id
    others = [
        attend(world, harness="codex", native_id="n2", host="here"),
        attend(world, harness="codex", native_id="n1", host="there"),
        attend(world, harness="pi", native_id="n1", host="here"),
        attend(world, harness="codex", host="here"),
        attend(world, BOB, harness="codex", native_id="n1", host="here"),
    ]
    assert len({first.session_id, *(one.session_id for one in others)}) == 6


def test_two_first_heartbeats_at_once_make_one_session() -> None:
    world = picture()
    one, other = decide(world, beat(harness="codex", native_id="n"), beat(harness="codex", native_id="n"))
    assert one.session_id == other.session_id
    assert [kind for kind, _ in log(world)] == ["session.started"]


def test_a_session_is_found_again_by_its_id_also_under_a_new_native_id() -> None:
    world = picture()
    first = attend(world, harness="codex", native_id="n1")
    moved = attend(world, session_id=first.session_id, native_id="n2")
    assert (moved.session_id, moved.native_id, moved.harness) == (first.session_id, "n2", "codex")
    another = attend(world, harness="codex", native_id="n1")  # another instance that goes by the old one
    assert another.session_id != first.session_id
    found = decide(world, beat(harness="codex", native_id="n2", found=first.session_id))
    assert [one.session_id for one in found] == [first.session_id]


@pytest.mark.parametrize("caller", [BOB, HUMAN], ids=lambda one: one.handle)
def test_nobody_speaks_for_the_session_of_another(caller: Caller) -> None:
    world = picture()
    session = attend(world, harness="codex")
    assert decide(world, beat(caller, session_id=session.session_id)) == ["SESSION_NOT_FOUND"]
    assert world.sessions[session.session_id] == session


def test_an_agent_does_not_choose_the_id_of_a_session() -> None:
    assert decide(picture(), beat(session_id="mine", harness="codex")) == ["SESSION_NOT_FOUND"]


def test_a_token_of_a_session_registers_it_under_that_id_and_speaks_for_it_alone() -> None:
    world = picture()
    other = attend(world, harness="codex", native_id="n")
    bound = attend(world, BOUND, harness="codex", native_id="n")
    assert bound.session_id == "bound"
    assert bound != other
    assert attend(world, BOUND, presence="idle").session_id == "bound"
    [taken] = decide(world, beat(msgspec.structs.replace(BOB, session_id="bound"), harness="codex"))
    assert taken == "SESSION_NOT_FOUND"


def test_a_new_session_says_at_least_its_harness() -> None:
    assert decide(picture(), beat(presence="idle")) == ["INVALID_ARGUMENT"]


# -- what it says -----------------------------------------------------------------------------------------------------


def test_what_is_left_out_stays_and_null_takes_it_back() -> None:
    world = picture()
    full = attend(
        world, harness="codex", native_id="n", host="h", cwd="/w", pid=7, pid_started_at="2026-11-16T03:42:07Z",
        wake_mode="socket", replyable=False, capabilities=["a"], levels={"D4": "fail"}, presence="idle",
        presence_source="hook", context_tokens=5, context_limit=9, resumable=True, task_id="t", branch="b",
    )  # fmt: skip
    assert full.pid_started_at == 1_794_800_527 * SECOND
    assert attend(world, session_id=full.session_id) == full
    cleared = attend(world, session_id=full.session_id, cwd=None, pid=None, pid_started_at=None, task_id=None)
    assert (cleared.cwd, cleared.pid, cleared.pid_started_at, cleared.task_id) == (None, None, None, None)
    assert (cleared.branch, cleared.levels, cleared.replyable) == ("b", '{"D4":"fail"}', 0)


def test_a_turn_ends_with_its_presence() -> None:
    world = picture()
    active = attend(world, harness="pi", presence="active", active_turn_id="t1")
    assert attend(world, session_id=active.session_id, presence="active").active_turn_id == "t1"  # still in it
    assert attend(world, session_id=active.session_id, presence="idle").active_turn_id is None
    assert attend(world, session_id=active.session_id, presence="active").active_turn_id is None  # a turn unnamed


# -- what it is routed by ---------------------------------------------------------------------------------------------

KNOWN: dict[str, Any] = {"harness": "pi", "transport": "extension", "harness_version": "0.87.1"}


def proof(levels: str, version: str = "0.87.1") -> Proof:
    return Proof(1, f"pi extension {version}", "pi", "extension", version, levels, "[]", "@human", 0)


ROUTED = [
    ({}, {**KNOWN}, "pass", "we ship a proof for that version"),
    ({}, {**KNOWN, "levels": {"D4": "fail"}}, "fail", "its own word may lower"),
    ({}, {**KNOWN, "harness_version": "9", "levels": {"D4": "pass"}}, None, "nobody has looked at that version"),
    ({}, {**KNOWN, "transport": "magic", "levels": {"D4": "pass"}}, None, "nobody has looked at that way"),
    ({}, {"harness": "hostile", "levels": {"D4": "pass"}}, None, "it praises itself"),
    ({}, {"harness": "hostile", "levels": {"D4": "partial"}}, None, "in part, too"),
    ({}, {"harness": "hostile", "levels": {"D4": "fail"}}, "fail", "that much is believed"),
    ({"levels": '{"D4":"fail"}'}, {**KNOWN, "levels": {"D4": "pass"}}, "fail", "our probe counts for more"),
    ({"levels": '{"D4":"pass"}', "version": "9"}, {**KNOWN, "harness_version": "9"}, "pass", "our probe found it"),
    ({"levels": '{"D4":"pass"}', "version": "9"}, {**KNOWN, "harness_version": "9", "levels": {"D4": "fail"}}, "fail",
     "its own word may lower what a probe found"),
]  # fmt: skip


@pytest.mark.guarantee("G-PROVEN-ROUTES")
@pytest.mark.parametrize(("stored", "said", "result", "why"), ROUTED, ids=[row[-1] for row in ROUTED])
def test_a_session_is_routed_by_proofs_and_its_own_word_only_lowers(
    stored: dict[str, str], said: dict[str, Any], result: str | None, why: str
) -> None:
    world = picture(proofs=[proof(**stored)] if stored else [])
    session = attend(world, **said)
    assert msgspec.json.decode(session.levels).get("D4") == result, why
    assert is_proven(session) == (result == "pass")


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_a_session_cannot_talk_itself_into_another_way_later() -> None:
    world = picture()
    one = attend(world, harness="hostile", native_id="n")
    for said in ({"levels": {"D4": "pass"}}, {"transport": "extension"}, {"harness_version": "0.87.1"}):
        one = attend(world, session_id=one.session_id, **said)
        assert one.levels == "{}"


def test_what_a_session_takes_back_of_itself_is_proven_again() -> None:
    world = picture()
    one = attend(world, native_id="n", **KNOWN)
    lowered = attend(world, native_id="n", levels={"D4": "fail"}, **KNOWN)
    raised = attend(world, native_id="n", levels={}, **KNOWN)
    assert (is_proven(one), is_proven(lowered), is_proven(raised)) == (True, False, True)
    assert raised.levels == one.levels


def test_a_beat_that_knows_less_than_the_session_leaves_its_levels_alone() -> None:
    """A hook's visit that was read before the companion registered, and is written after it."""
    world = picture()
    full = attend(world, native_id="n", **KNOWN)
    assert attend(world, native_id="n", harness="pi", presence="idle").levels == full.levels


# -- what the log hears -----------------------------------------------------------------------------------------------


def presence(was: str | None, now: str) -> dict[str, Any]:
    return {"presence": {"from": was, "to": now}}


@pytest.mark.guarantee("G-QUIET-HEARTBEAT")
def test_a_beat_that_says_nothing_new_writes_no_log_row() -> None:
    world = picture()
    session = attend(world, harness="pi", presence="idle", levels={"D4": "fail"}, context_tokens=10)
    for _ in range(50):
        attend(later(world, 60), session_id=session.session_id, presence="idle", context_tokens=11, cwd="/elsewhere")
    assert [kind for kind, _ in log(world)] == ["session.started"]
    assert world.sessions[session.session_id].heartbeat_at == world.now > NOW


@pytest.mark.parametrize(
    ("seconds", "said", "news"),
    [
        (0, {"presence": "active"}, presence("idle", "active")),
        (0, {"presence": "waitingOnApproval"}, presence("idle", "waitingOnApproval")),
        (0, {"levels": {"D4": "fail"}}, {**presence("idle", "idle"), "levels": {"D4": "fail"}}),
        (0, {"context_tokens": 250_001}, {**presence("idle", "idle"), "exceeds_context": True}),
        (0, {"context_tokens": 100, "context_limit": 50}, {**presence("idle", "idle"), "exceeds_context": True}),
        (300, {"presence": "idle"}, presence("unknown", "idle")),  # stale was unknown, so this is news
        (300, {}, None),  # it lives, and its presence stays unknown
        (0, {"branch": "b", "task_id": "t", "wake_mode": "socket"}, None),
        (0, {"context_tokens": 250_000}, None),
    ],
)
def test_the_log_hears_what_matters(seconds: int, said: dict[str, Any], news: dict[str, Any] | None) -> None:
    world = picture()
    session = attend(world, harness="pi", presence="idle")
    attend(later(world, seconds), session_id=session.session_id, **said)
    assert log(world)[1:] == ([] if news is None else [("session.changed", news)])


def test_rows_about_a_session_are_of_its_principal() -> None:
    world = picture()
    session = attend(world, harness="pi", host="h")
    [row] = world.changes.log
    assert (row.stream, row.actor, row.subject) == ("principal:@alice", "@alice", session.session_id)
    assert msgspec.json.decode(row.data or "") == {
        **presence(None, "unknown"), "harness": "pi", "host": "h", "resumed": False,
    }  # fmt: skip


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "ended"), [(ALICE, True), (HUMAN, True), (BOB, False)], ids=lambda one: getattr(one, "handle", one)
)
def test_a_session_is_ended_by_its_agent_or_a_human(caller: Caller, ended: bool) -> None:  # noqa: FBT001 - a column
    world = picture()
    session = attend(world, harness="pi", presence="active", active_turn_id="t")
    [answer] = decide(world, EndSession(caller, session.session_id))
    if not ended:
        assert answer == "SESSION_NOT_FOUND"
        return
    assert (answer.ended_at, answer.presence, answer.active_turn_id) == (NOW, Presence.UNKNOWN, None)
    assert log(world)[1:] == [("session.ended", presence("active", "unknown"))]
    assert decide(later(world, 5), EndSession(caller, session.session_id)) == [answer]  # once is enough
    assert len(log(world)) == 2


def test_an_ended_session_that_beats_again_was_resumed() -> None:
    world = picture()
    session = attend(world, harness="pi", native_id="n")
    decide(world, EndSession(ALICE, session.session_id))
    again = attend(later(world, 60), harness="pi", native_id="n", presence="idle")
    assert (again.session_id, again.ended_at, again.started_at) == (session.session_id, None, NOW)
    kind, data = log(world)[-1]
    assert (kind, data["resumed"]) == ("session.started", True)
