from __future__ import annotations

import itertools

import pytest

from wakeline.core.principal import AUDITOR, COORDINATOR, HUMAN_ROLE, PARTICIPANT, Caller, Kind
from wakeline.core.thread import TRANSITIONS, Status, Thread, check_transition
from wakeline.errors import WakelineError

MEMBER = Caller(1, "default", "@member", Kind.AGENT, PARTICIPANT)
OWNER = Caller(1, "default", "@owner", Kind.AGENT, PARTICIPANT)
AUDIT = Caller(1, "default", "@auditor", Kind.AGENT, AUDITOR)
LEAD = Caller(1, "default", "@lead", Kind.AGENT, COORDINATOR)
HUMAN = Caller(1, "default", "@human", Kind.HUMAN, HUMAN_ROLE)
EVERYBODY = (MEMBER, OWNER, AUDIT, LEAD, HUMAN)

ACTIVE, BLOCKED, RESOLVED, CLOSED = Status.ACTIVE, Status.BLOCKED, Status.RESOLVED, Status.CLOSED


def thread(status: Status, owner: str | None = None) -> Thread:
    return Thread("t", 1, "conversation", status, "title", None, "@member", None, owner, 3, 0, 0)


def verdict(
    before: Status,
    wanted: Status,
    caller: Caller,
    *,
    owner: str | None = None,
    override: bool = False,
    reason: str | None = None,
) -> str:
    """The code that refuses, or "yes"."""
    try:
        check_transition(thread(before, owner), wanted, caller, override=override, reason=reason)
    except WakelineError as refusal:
        return refusal.code
    return "yes"


# Who may do what without an override.  p: a participant, c: a coordinator, h: a human.
TABLE = [
    # from, to, p, c, h, why
    (ACTIVE, BLOCKED, "yes", "yes", "yes", "anybody may say that it is stuck"),
    (ACTIVE, RESOLVED, "yes", "yes", "yes", "anybody may say that it is done"),
    (ACTIVE, CLOSED, "ROLE_FORBIDDEN", "yes", "yes", "a participant may not close"),
    (BLOCKED, ACTIVE, "yes", "yes", "yes", "nobody owns the escalation"),
    (BLOCKED, RESOLVED, *("INVALID_THREAD_TRANSITION",) * 3, "it must be unblocked first"),
    (BLOCKED, CLOSED, "ROLE_FORBIDDEN", "OVERRIDE_REQUIRED", "OVERRIDE_REQUIRED", "that buries an open problem"),
    (RESOLVED, ACTIVE, "yes", "yes", "yes", "it was not done after all"),
    (RESOLVED, BLOCKED, *("INVALID_THREAD_TRANSITION",) * 3, "it must be opened again first"),
    (RESOLVED, CLOSED, "ROLE_FORBIDDEN", "yes", "yes", "a participant may not close"),
    (CLOSED, ACTIVE, *("INVALID_THREAD_TRANSITION",) * 3, "closed is the end"),
    (CLOSED, BLOCKED, *("INVALID_THREAD_TRANSITION",) * 3, "closed is the end"),
    (CLOSED, RESOLVED, *("INVALID_THREAD_TRANSITION",) * 3, "closed is the end"),
]


@pytest.mark.guarantee("G-STATES")
@pytest.mark.parametrize(("before", "wanted", "participant", "coordinator", "human", "why"), TABLE)
def test_each_change_is_for_who_may_make_it(
    before: Status, wanted: Status, participant: str, coordinator: str, human: str, why: str
) -> None:
    found = [verdict(before, wanted, caller) for caller in (MEMBER, LEAD, HUMAN)]
    assert found == [participant, coordinator, human], why


def test_the_table_of_this_file_is_whole() -> None:
    assert {(row[0], row[1]) for row in TABLE} == set(itertools.permutations(Status, 2))


@pytest.mark.guarantee("G-STATES")
def test_a_missing_row_is_refused_for_everybody_even_with_an_override() -> None:
    for pair in set(itertools.product(Status, Status)) - TRANSITIONS:
        for caller in EVERYBODY:
            found = verdict(*pair, caller, override=caller.manages_threads, reason="because")
            assert found == "INVALID_THREAD_TRANSITION"


@pytest.mark.parametrize(
    ("caller", "override", "reason", "expected", "why"),
    [
        (OWNER, False, None, "yes", "the owner decides"),
        (MEMBER, False, None, "OVERRIDE_REQUIRED", "somebody else owns the escalation"),
        (LEAD, False, None, "OVERRIDE_REQUIRED", "a coordinator must say that it overrides"),
        (HUMAN, False, None, "OVERRIDE_REQUIRED", "so must a human"),
        (LEAD, True, "the owner is away", "yes", "an override with a reason"),
        (HUMAN, True, "the owner is away", "yes", "an override with a reason"),
        (LEAD, True, None, "OVERRIDE_REQUIRED", "an override says why"),
        (HUMAN, True, "", "OVERRIDE_REQUIRED", "nothing is not a reason"),
        (MEMBER, True, "please", "ROLE_FORBIDDEN", "a participant has no override"),
        (OWNER, True, "please", "ROLE_FORBIDDEN", "owning one escalation is not a role"),
        (AUDIT, True, "please", "ROLE_FORBIDDEN", "an auditor only reads"),
    ],
)
def test_only_the_owner_of_an_escalation_or_an_override_unblocks(
    caller: Caller, *, override: bool, reason: str | None, expected: str, why: str
) -> None:
    assert verdict(BLOCKED, ACTIVE, caller, owner="@owner", override=override, reason=reason) == expected, why


@pytest.mark.parametrize("owner", [None, "@owner", "@lead"])
@pytest.mark.parametrize("caller", EVERYBODY, ids=lambda caller: caller.handle)
def test_a_blocked_thread_closes_only_by_an_override_with_a_reason(caller: Caller, owner: str | None) -> None:
    asked = {
        (override, reason): verdict(BLOCKED, CLOSED, caller, owner=owner, override=override, reason=reason)
        for override in (False, True)
        for reason in (None, "it is obsolete")
    }
    if caller.manages_threads:
        assert asked.pop((True, "it is obsolete")) == "yes"
        assert set(asked.values()) == {"OVERRIDE_REQUIRED"}
    else:
        assert set(asked.values()) == {"ROLE_FORBIDDEN"}


def test_a_refusal_names_the_owner_and_the_rule() -> None:
    with pytest.raises(WakelineError) as caught:
        check_transition(thread(BLOCKED, "@owner"), ACTIVE, MEMBER, override=False, reason=None)
    assert caught.value.details == {"rule": "escalation_owner", "escalation_owner": "@owner"}
    assert "@owner" in caught.value.message
