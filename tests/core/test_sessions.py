from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.instant import SECOND
from wakeline.core.session import (
    Liveness,
    Presence,
    Session,
    choose_session,
    exceeds_context,
    is_dormant,
    latest_resumable,
    liveness,
    presence_of,
)

NOW = 1_800_000_000 * SECOND
STALE = 300 * SECOND
STARTED = NOW - 3600 * SECOND


def session(session_id: str = "s", **fields: Any) -> Session:
    known = Session(
        session_id=session_id, workspace_id=1, handle="@bob", harness="codex", native_id=None, host="here", cwd=None,
        pid=7, pid_started_at=STARTED, wake_mode="none", replyable=1, capabilities="[]", levels="{}", presence="idle",
        active_turn_id=None, presence_source="hook", presence_at=NOW, context_tokens=None, context_limit=None,
        resumable=0, task_id=None, branch=None, started_at=STARTED, heartbeat_at=NOW,
    )  # fmt: skip
    return msgspec.structs.replace(known, **fields)


@pytest.mark.guarantee("G-STALE")
@pytest.mark.parametrize("said", list(Presence))
@pytest.mark.parametrize(
    ("age", "ended", "counts"),
    [
        (0, None, True),  # just said
        (STALE - 1, None, True),
        (STALE, None, False),  # too old to be true
        (10 * STALE, None, False),
        (-SECOND, None, True),  # a clock that was set back makes nothing stale
        (0, NOW, False),  # what has ended is not there
    ],
)
def test_presence_goes_stale_by_itself(said: Presence, age: int, ended: int | None, counts: bool) -> None:  # noqa: FBT001 - a column
    one = session(presence=said, presence_at=NOW - age, ended_at=ended)
    assert presence_of(one, NOW, STALE) is (said if counts else Presence.UNKNOWN)


def test_a_heartbeat_does_not_refresh_a_presence_that_it_did_not_say() -> None:
    assert presence_of(session(presence_at=NOW - STALE, heartbeat_at=NOW), NOW, STALE) is Presence.UNKNOWN


@pytest.mark.parametrize(
    ("silent", "ended", "dormant"), [(0, None, False), (STALE - 1, None, False), (STALE, None, True), (0, NOW, True)]
)
def test_a_session_that_is_silent_for_long_is_dormant(silent: int, ended: int | None, dormant: bool) -> None:  # noqa: FBT001 - a column
    assert is_dormant(session(heartbeat_at=NOW - silent, ended_at=ended), NOW, STALE) is dormant


@pytest.mark.parametrize(
    ("fields", "sighting", "verdict"),
    [
        ({}, (True, STARTED), "live"),
        ({}, (True, STARTED + 2 * SECOND), "live"),  # boot time is known to the second
        ({}, (True, STARTED - 2 * SECOND), "live"),
        ({}, (True, STARTED + 3 * SECOND), "dead"),  # the number was given to another process
        ({}, (False, None), "dead"),
        ({}, None, "uncertain"),  # another host: nobody can look
        ({}, (True, None), "uncertain"),  # there is one, but nobody knows which
        ({"pid": None}, (True, STARTED), "uncertain"),
        ({"pid_started_at": None}, (True, STARTED), "uncertain"),
        ({"pid_started_at": None}, (False, None), "dead"),  # nobody has that number
        ({"ended_at": NOW}, (True, STARTED), "dead"),  # it said so itself
        ({"ended_at": NOW}, None, "dead"),
    ],
)
def test_liveness_is_the_process_and_when_it_started(
    fields: dict[str, Any], sighting: tuple[bool, int | None] | None, verdict: str
) -> None:
    assert liveness(session(**fields), sighting) is Liveness(verdict)


@pytest.mark.parametrize(
    ("tokens", "limit", "exceeds"),
    [
        (None, None, False),  # unknown size delivers
        (None, 10, False),
        (250_000, None, False),
        (250_001, None, True),
        (11, 10, True),  # its own limit counts, not the default
        (250_001, 1_000_000, False),
        (1, 0, True),
    ],
)
def test_more_context_than_the_limit_is_too_much(tokens: int | None, limit: int | None, exceeds: bool) -> None:  # noqa: FBT001 - a column
    assert exceeds_context(session(context_tokens=tokens, context_limit=limit), 250_000) is exceeds


def test_the_latest_resumable_session_is_the_last_that_was_heard_of() -> None:
    older = session("a", resumable=1, heartbeat_at=NOW - 2, started_at=NOW)
    ended = session("b", resumable=1, heartbeat_at=NOW - 1, ended_at=NOW - 1)
    fleeting = session("c", resumable=0, heartbeat_at=NOW)
    assert latest_resumable([older, ended, fleeting]) == ended
    assert latest_resumable([fleeting]) is None
    assert latest_resumable([]) is None


OLD, NEW, BUSY = (session("old", started_at=1), session("new", started_at=2), session("busy", presence="active"))
SILENT = session("silent", heartbeat_at=NOW - STALE)
ENDED = session("ended", ended_at=NOW)
VAGUE = session("vague", presence_at=NOW - STALE, started_at=9)


@pytest.mark.parametrize(
    ("sessions", "wanted", "addressed", "chosen"),
    [
        ([OLD, NEW], None, False, "new"),  # nobody acted: the newest idle one
        ([NEW, OLD], None, False, "new"),
        ([OLD, NEW, BUSY], None, False, "new"),  # an idle one before a busy one, however new
        ([OLD, NEW], "old", False, "old"),  # the one that last acted
        ([BUSY, NEW], "busy", False, "busy"),  # also in the middle of a turn: the planner waits
        ([SILENT, NEW], "silent", False, "new"),  # it acted, but is not there any more
        ([ENDED, NEW], "ended", False, "new"),
        ([NEW], "never seen", False, "new"),
        ([BUSY], None, False, "busy"),  # none is idle: there is still somebody to wait for
        ([VAGUE, OLD], None, False, "old"),  # unknown presence is not idle
        ([SILENT], None, False, None),
        ([], None, False, None),
        ([OLD, NEW], "old", True, "old"),  # addressed
        ([SILENT, NEW], "silent", True, "silent"),  # addressed and silent: no other takes its place
        ([ENDED, NEW], "ended", True, None),
        ([NEW], "never seen", True, None),
    ],
)
def test_which_session_is_woken(
    sessions: list[Session],
    wanted: str | None,
    addressed: bool,  # noqa: FBT001 - a column
    chosen: str | None,
) -> None:
    found = choose_session(sessions, wanted, addressed, NOW, STALE)
    assert (None if found is None else found.session_id) == chosen


_sessions = st.lists(
    st.builds(
        lambda number, presence, silent, ended: session(
            f"s{number}",
            presence=presence,
            heartbeat_at=NOW - silent,
            started_at=number,
            ended_at=NOW if ended else None,
        ),
        st.integers(0, 9),
        st.sampled_from(list(Presence)),
        st.integers(0, 2 * STALE),
        st.booleans(),
    ),
    unique_by=lambda one: one.session_id,
)


@given(_sessions, st.one_of(st.none(), st.integers(0, 9).map(lambda number: f"s{number}")), st.booleans())
def test_what_has_ended_is_never_chosen_and_order_does_not_matter(
    sessions: list[Session],
    wanted: str | None,
    addressed: bool,  # noqa: FBT001 - a column
) -> None:
    found = choose_session(sessions, wanted, addressed, NOW, STALE)
    assert found is None or found.ended_at is None
    assert found == choose_session(sessions[::-1], wanted, addressed, NOW, STALE)
    assert not addressed or found is None or found.session_id == wanted
