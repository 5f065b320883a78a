from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.subscription import (
    EventFacts,
    Filters,
    Subscription,
    Target,
    Trigger,
    canonical,
    default_id,
    event_keys,
    live_keys,
    match_keys,
    matches,
    parse_filters,
    route_key,
    to_json,
)

WORDS = st.sampled_from(["a", "b", "c"])
MANY = st.lists(WORDS, max_size=3).map(tuple)
FILTERS = st.builds(
    Filters,
    tagged_concepts=MANY,
    priority=st.none() | WORDS,
    sender_filter=MANY,
    in_reply_to_filter=MANY,
)
FACTS = st.builds(EventFacts, sender=WORDS, priority=st.none() | WORDS, tags=MANY, reply_ids=MANY)
MESSAGE = EventFacts(sender="@ann", priority="high", tags=("ci", "build"), reply_ids=("M1", "T1"))


@given(FILTERS, FACTS)
def test_whatever_matches_is_found_by_its_keys(filters: Filters, facts: EventFacts) -> None:
    if matches(filters, facts):
        assert set(match_keys(filters)) & set(event_keys(facts))


@given(FILTERS)
def test_the_canonical_spelling_means_the_same_and_is_one(filters: Filters) -> None:
    once = canonical(filters)
    assert canonical(once) == once
    assert parse_filters(to_json(once)) == once
    assert set(match_keys(once)) == set(match_keys(filters))


@given(FILTERS, FACTS)
def test_the_canonical_spelling_matches_the_same(filters: Filters, facts: EventFacts) -> None:
    assert matches(canonical(filters), facts) == matches(filters, facts)


@pytest.mark.parametrize(
    ("filters", "found", "why"),
    [
        (Filters(), True, "no filter asks for nothing"),
        (Filters(sender_filter=("@ann", "@bob")), True, "any of the senders"),
        (Filters(sender_filter=("@bob",)), False, "another sender"),
        (Filters(tagged_concepts=("deploy", "ci")), True, "any of the tags"),
        (Filters(tagged_concepts=("deploy",)), False, "none of the tags"),
        (Filters(priority="high"), True, "the same priority"),
        (Filters(priority="low"), False, "priority is exact"),
        (Filters(in_reply_to_filter=("M1",)), True, "the message that it answers"),
        (Filters(in_reply_to_filter=("T1",)), True, "the thread that it is in"),
        (Filters(in_reply_to_filter=("M2",)), False, "another one"),
        (Filters(sender_filter=("@ann",), priority="low"), False, "all of them must be true"),
        (Filters(sender_filter=("@ann",), tagged_concepts=("ci",), priority="high"), True, "and all are"),
    ],
)
def test_filters_are_joined_by_and(filters: Filters, found: bool, why: str) -> None:  # noqa: FBT001 - a table
    assert matches(filters, MESSAGE) == found, why


def test_an_event_without_a_priority_or_tags_is_found_by_no_filter_on_them() -> None:
    pulse = EventFacts(sender="@system")
    assert matches(Filters(), pulse)
    assert not matches(Filters(priority="normal"), pulse)
    assert not matches(Filters(tagged_concepts=("ci",)), pulse)


@pytest.mark.parametrize(
    ("filters", "keys"),
    [
        (Filters(sender_filter=("@a", "@b"), tagged_concepts=("t",)), ["sender:@a", "sender:@b"]),
        (Filters(in_reply_to_filter=("M",), tagged_concepts=("t",)), ["reply:M"]),
        (Filters(tagged_concepts=("t", "u"), priority="high"), ["tag:t", "tag:u"]),
        (Filters(priority="high"), ["priority:high"]),
        (Filters(), ["any"]),
    ],
)
def test_the_keys_are_those_of_the_most_telling_filter(filters: Filters, keys: list[str]) -> None:
    assert match_keys(filters) == keys


def route(**changed: Any) -> str:
    given = {
        "handle": "@bob",
        "trigger": Trigger.SENT_TO_ME,
        "filters": Filters(sender_filter=("@a", "@b"), tagged_concepts=("x", "y")),
        "target": Target.WEBHOOK,
        "url": "https://example.org/hook",
        "daemon_socket_path": None,
    }
    return route_key(**{**given, **changed})


def test_the_order_of_words_does_not_make_another_route() -> None:
    assert route(filters=Filters(sender_filter=("@b", "@a", "@b"), tagged_concepts=("y", "x"))) == route()


@pytest.mark.parametrize(
    "changed",
    [
        {"handle": "@ann"},
        {"trigger": Trigger.TASK_STATE_CHANGED},
        {"filters": Filters()},
        {"filters": Filters(sender_filter=("@a", "@b"), tagged_concepts=("x", "y"), priority="high")},
        {"url": "https://example.org/other"},
        {"target": Target.MCP},
    ],
)
def test_anything_else_makes_another_route(changed: dict[str, Any]) -> None:
    assert route(**changed) != route()


def test_only_what_the_target_routes_by_counts() -> None:
    assert route(daemon_socket_path="/run/x") == route()
    assert route(target=Target.MCP, url=None) == route(target=Target.MCP)
    assert route(target=Target.BRIDGE, daemon_socket_path="/a") != route(target=Target.BRIDGE)


def test_the_stored_filters_are_spelled_as_the_wake_protocol_does() -> None:
    stored = to_json(Filters(tagged_concepts=("a",), sender_filter=("@b",), in_reply_to_filter=("M",)))
    assert msgspec.json.decode(stored) == {
        "taggedConcepts": ["a"],
        "senderFilter": ["@b"],
        "inReplyToFilter": ["M"],
    }


def test_the_default_has_one_id_per_agent_and_workspace() -> None:
    assert len(default_id(1, "@bob")) == 26
    assert default_id(1, "@bob") == default_id(1, "@bob")
    assert len({default_id(1, "@bob"), default_id(2, "@bob"), default_id(1, "@ann")}) == 3


def test_the_previous_key_signs_until_its_time_is_over() -> None:
    row = Subscription(
        subscription_id="S", workspace_id=1, handle="@bob", trigger="SENT_TO_ME", filters="{}", route_key="r",
        target="a2a-webhook", url="https://example.org", coalesce_window=None, metadata="{}", wake_policy="immediate",
        signing_key="new", previous_key="old", previous_key_until=100, status="active", status_reason=None, failures=0,
        from_log_id=0, created_at=0, updated_at=0,
    )  # fmt: skip
    assert live_keys(row, 99) == ["new", "old"]
    assert live_keys(row, 100) == ["new"]
