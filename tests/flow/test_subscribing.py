from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.flow.pictures import ALICE, BOB, HUMAN, LEAD, NOW, decide, picture
from tests.store.subscribing import URL, WEBHOOK, session, subscribe
from wakeline.core.picture import Picture
from wakeline.core.principal import AUDITOR, Caller, Kind
from wakeline.core.subscription import Filters, Subscription, Target, Trigger, default_id
from wakeline.flow.amend import Change, Resume, RotateKey, Unsubscribe, Update
from wakeline.flow.subscribe import EnsureDefault, Route, Subscribed

PROVEN = '{"D1":"pass","D4":"pass"}'
_replace = msgspec.structs.replace


def made(world: Picture, *args: Any, **fields: Any) -> Subscription:
    [answer] = decide(world, subscribe(*args, **fields))
    assert isinstance(answer, Subscribed), answer
    return answer.subscription


def update(caller: Caller, row: Subscription, **change: Any) -> Update:
    return Update(caller, row.subscription_id, row.handle, Change(**change))


def active_keys(world: Picture) -> set[tuple[str, str]]:
    return {(row.trigger, row.key) for row in world.changes.subscription_keys.values() if row.active}


def kinds(world: Picture) -> list[str]:
    return [row.kind for row in world.changes.log]


# -- subscribing ------------------------------------------------------------------------------------------------------


def test_a_subscription_starts_at_the_end_of_the_log_with_its_keys() -> None:
    world = picture()
    row = made(world, BOB, sender_filter=("@b", "@a"), priority="high")
    assert (row.handle, row.status, row.from_log_id, row.created_at) == ("@bob", "active", 100, NOW)
    assert (row.target, row.url, row.signing_key, row.wake_policy) == ("a2a-webhook", URL, "sealed", "immediate")
    assert active_keys(world) == {("SENT_TO_ME", "sender:@a"), ("SENT_TO_ME", "sender:@b")}
    [entry] = world.changes.log
    assert (entry.kind, entry.stream, entry.actor, entry.subject) == (
        "subscription.created", "principal:@bob", "@bob", row.subscription_id
    )  # fmt: skip
    assert entry.data is not None
    assert "example" not in entry.data, "a URL may hold a secret"


@pytest.mark.guarantee("G-SUBSCRIBE-ONCE")
def test_the_same_route_twice_at_once_is_one_subscription() -> None:
    world = picture()
    first, again = decide(
        world,
        subscribe(BOB, sender_filter=("@a", "@b")),
        subscribe(BOB, WEBHOOK, sender_filter=("@b", "@a", "@a")),
    )
    assert (first.existed, again.existed) == (False, True)
    assert again.subscription.subscription_id == first.subscription.subscription_id
    assert len(world.changes.subscriptions) == 1
    assert kinds(world) == ["subscription.created"]


def test_subscribing_again_merges_what_is_said_anew() -> None:
    world = picture()
    first = made(world, BOB, _replace(WEBHOOK, coalesce_window=60))
    again = made(world, BOB, _replace(WEBHOOK, wake_policy="next_turn", sealed_key="another"))
    assert again.subscription_id == first.subscription_id
    assert (again.coalesce_window, again.wake_policy) == (60, "next_turn")
    assert again.signing_key == "sealed", "a key that was shown stays"
    assert kinds(world) == ["subscription.created", "subscription.changed"]


def test_the_number_of_subscriptions_is_bounded_per_agent() -> None:
    world = picture()
    for number in range(3):
        made(world, BOB, limit=3, tagged_concepts=(f"t{number}",))
    assert decide(world, subscribe(BOB, limit=3)) == ["TOO_MANY_SUBSCRIPTIONS"]
    made(world, ALICE, limit=3)
    existing = made(world, BOB, limit=3, tagged_concepts=("t0",))  # is not one more
    decide(world, Unsubscribe(BOB, existing.subscription_id))
    made(world, BOB, limit=3)


def test_a_webhook_needs_a_url() -> None:
    assert decide(picture(), subscribe(BOB, Route(target="a2a-webhook"))) == ["INVALID_ARGUMENT"]


def test_an_auditor_subscribes_to_nothing() -> None:
    auditor = _replace(BOB, role=AUDITOR)
    assert decide(picture(), subscribe(auditor)) == ["ROLE_FORBIDDEN"]


@pytest.mark.parametrize(
    ("levels", "ended", "route", "target", "why"),
    [
        (PROVEN, None, Route(url=URL, has_mcp=True, sealed_key="k"), Target.BRIDGE, "a bridge that was proven to wake"),
        (PROVEN, 5, Route(url=URL, has_mcp=True, sealed_key="k"), Target.WEBHOOK, "not through a session that ended"),
        ('{"D4":"partial"}', None, Route(url=URL, sealed_key="k"), Target.WEBHOOK, "partly is not proven"),
        ("{}", None, Route(has_mcp=True), Target.MCP, "at least a hint"),
        ("{}", None, Route(), Target.NONE, "nothing is known to reach it"),
        (PROVEN, None, Route(target="none"), Target.NONE, "what is asked for is done"),
        (PROVEN, None, Route(target="disabled"), Target.DISABLED, "also that"),
    ],
)
def test_without_a_target_the_best_proven_route_is_taken(
    levels: str, ended: int | None, route: Route, target: Target, why: str
) -> None:
    world = picture(sessions=[session(BOB, levels=levels, ended_at=ended), session(ALICE, levels=PROVEN)])
    row = made(world, BOB, route)
    assert row.target == target, why
    assert (row.signing_key is not None) == (target == Target.WEBHOOK)


# -- changing ---------------------------------------------------------------------------------------------------------


def test_a_change_moves_the_keys_and_keeps_the_signing_key() -> None:
    world = picture()
    row = made(world, BOB, sender_filter=("@a",))
    [changed] = decide(
        world,
        update(BOB, row, filters=Filters(tagged_concepts=("x",)), url="https://b.example/", coalesce_window=5),
    )
    assert (changed.url, changed.signing_key, changed.coalesce_window) == ("https://b.example/", "sealed", 5)
    assert active_keys(world) == {("SENT_TO_ME", "tag:x")}
    assert kinds(world)[-1] == "subscription.changed"
    [again] = decide(world, update(BOB, changed, coalesce_window=None))
    assert again.coalesce_window is None


def test_another_trigger_leaves_no_key_of_the_old_one() -> None:
    world = picture()
    row = made(world, BOB)
    decide(world, update(BOB, row, trigger=Trigger.TASK_STATE_CHANGED))
    assert active_keys(world) == {("TASK_STATE_CHANGED", "any")}
    assert len(world.changes.subscription_keys) == 2


def test_a_change_of_nothing_is_none() -> None:
    world = picture()
    row = made(world, BOB)
    assert decide(world, update(BOB, row), update(BOB, row, wake_policy="immediate")) == [row, row]
    assert kinds(world) == ["subscription.created"]


def test_a_change_into_another_subscription_is_refused() -> None:
    world = picture()
    row = made(world, BOB)
    made(world, BOB, priority="high")
    assert decide(world, update(BOB, row, filters=Filters(priority="high"))) == ["SUBSCRIPTION_EXISTS"]


def test_a_route_that_becomes_a_webhook_gets_a_key_and_loses_it_when_it_ceases() -> None:
    world = picture()
    row = made(world, BOB, Route(target="none"))
    assert decide(world, update(BOB, row, target="a2a-webhook")) == ["WEBHOOK_URL_MISSING"]
    [hook] = decide(world, update(BOB, row, target="a2a-webhook", url=URL, sealed_key="new"))
    assert (hook.target, hook.signing_key) == ("a2a-webhook", "new")
    [gone] = decide(world, update(BOB, hook, target="mcp-notifications"))
    assert (gone.target, gone.signing_key) == ("mcp-notifications", None)


def test_a_degraded_subscription_stays_so_whatever_its_route_is_now() -> None:
    world = picture()
    row = _replace(made(world, BOB), status="degraded", status_reason="rejected", failures=3)
    world.put_subscription(row)
    [same] = decide(world, update(BOB, row, coalesce_window=5))
    assert same.status == "degraded"
    [moved] = decide(world, update(BOB, row, url="https://b.example/"))
    assert (moved.url, moved.status, moved.failures) == ("https://b.example/", "degraded", 3)


def test_a_degraded_subscription_is_resumed() -> None:
    world = picture()
    row = made(world, BOB)
    assert decide(world, Resume(BOB, row.subscription_id)) == [row]
    world.put_subscription(_replace(row, status="degraded", status_reason="rejected", failures=3))
    [resumed] = decide(world, Resume(BOB, row.subscription_id))
    assert (resumed.status, resumed.status_reason, resumed.failures, resumed.flush_at) == ("active", None, 0, NOW)
    assert kinds(world) == ["subscription.created", "subscription.resumed"]


def test_the_previous_key_overlaps_and_the_one_before_is_forgotten() -> None:
    world = picture()
    row = made(world, BOB)
    day = timedelta(hours=24)
    [second] = decide(world, RotateKey(BOB, row.subscription_id, "second", day))
    assert (second.signing_key, second.previous_key, second.previous_key_until) == (
        "second", "sealed", NOW + 86_400_000_000
    )  # fmt: skip
    [third] = decide(world, RotateKey(BOB, row.subscription_id, "third", day))
    assert (third.signing_key, third.previous_key) == ("third", "second")
    [alone] = decide(world, RotateKey(BOB, row.subscription_id, "fourth", timedelta(0)))
    assert (alone.signing_key, alone.previous_key, alone.previous_key_until) == ("fourth", None, None)


def test_only_webhooks_have_a_key_to_rotate() -> None:
    world = picture()
    row = made(world, BOB, Route(target="none"))
    assert decide(world, RotateKey(BOB, row.subscription_id, "k", timedelta(0))) == ["NOT_A_WEBHOOK"]


# -- removing, and whose it is ----------------------------------------------------------------------------------------


def test_what_was_removed_is_found_by_nothing_and_can_be_subscribed_anew() -> None:
    world = picture()
    row = made(world, BOB)
    first, again = decide(world, *[Unsubscribe(BOB, row.subscription_id)] * 2)
    assert first == again
    assert (first.status, first.flush_at) == ("retired", None)
    assert active_keys(world) == set()
    assert kinds(world) == ["subscription.created", "subscription.retired"]
    rest = decide(world, update(BOB, row, coalesce_window=1), Resume(BOB, row.subscription_id))
    assert rest == ["SUBSCRIPTION_NOT_FOUND"] * 2
    assert made(world, BOB).subscription_id != row.subscription_id


@pytest.mark.guarantee("G-SUBSCRIPTION-OWN")
def test_to_others_a_subscription_does_not_exist() -> None:
    world = picture()
    row = made(world, BOB)
    elsewhere = Caller(2, "other", "@bob", Kind.AGENT, "participant")
    for stranger in (ALICE, LEAD, elsewhere):
        for command in (
            Unsubscribe(stranger, row.subscription_id),
            update(stranger, row, coalesce_window=1),
            Resume(stranger, row.subscription_id),
            RotateKey(stranger, row.subscription_id, "k", timedelta(0)),
            Unsubscribe(stranger, "0" * 26),
        ):
            assert decide(world, command) == ["SUBSCRIPTION_NOT_FOUND"], (stranger, command)
    assert world.subscriptions[row.subscription_id] == row


def test_a_human_manages_all_and_the_log_says_so() -> None:
    world = picture()
    row = made(world, BOB)
    [changed] = decide(world, update(HUMAN, row, coalesce_window=7))
    assert (changed.handle, changed.coalesce_window) == ("@bob", 7)
    decide(world, Unsubscribe(HUMAN, row.subscription_id))
    assert [(entry.actor, entry.stream) for entry in world.changes.log[1:]] == [("@human", "principal:@bob")] * 2


# -- the default ------------------------------------------------------------------------------------------------------


def test_an_agent_that_connects_is_woken_for_its_mail() -> None:
    world = picture()
    first, again = decide(world, EnsureDefault(BOB, has_mcp=True), EnsureDefault(BOB, has_mcp=True))
    assert first == again
    assert (first.subscription_id, first.trigger, first.filters, first.target) == (
        default_id(1, "@bob"), "SENT_TO_ME", "{}", "mcp-notifications"
    )  # fmt: skip
    assert kinds(world) == ["subscription.created"]


def test_who_has_said_how_to_be_woken_gets_no_default() -> None:
    world = picture()
    made(world, BOB, Route(target="bridge-daemon"), priority="high")
    assert decide(world, EnsureDefault(BOB)) == [None]
    made(world, ALICE, trigger=Trigger.TASK_STATE_CHANGED)
    [default] = decide(world, EnsureDefault(ALICE))
    assert default is not None, "another trigger says nothing about mail"


def test_a_webhook_for_some_mail_leaves_the_rest_to_the_default() -> None:
    world = picture()
    made(world, BOB, Route(target="a2a-webhook", url="https://hooks.example.org/wake"), priority="high")
    first, again = decide(world, EnsureDefault(BOB, has_mcp=True), EnsureDefault(BOB, has_mcp=True))
    assert first == again
    assert (first.filters, first.target) == ("{}", "mcp-notifications")
    made(world, ALICE, Route(target="a2a-webhook", url="https://hooks.example.org/wake"))
    assert decide(world, EnsureDefault(ALICE)) == [None]


def test_a_default_that_was_removed_does_not_come_back() -> None:
    world = picture()
    [default] = decide(world, EnsureDefault(BOB))
    decide(world, Unsubscribe(BOB, default.subscription_id))
    assert decide(world, EnsureDefault(BOB), EnsureDefault(BOB, has_mcp=True)) == [None, None]
    own = made(world, BOB, Route(target="none"))
    assert own.subscription_id != default.subscription_id
    decide(world, Unsubscribe(BOB, own.subscription_id))
    assert decide(world, EnsureDefault(BOB)) == [None]


def test_a_default_follows_the_agent_to_a_better_route_until_its_owner_touches_it() -> None:
    world = picture()
    targets = []
    [row] = decide(world, EnsureDefault(BOB))
    for has_mcp, levels in ((True, "{}"), (False, "{}"), (True, PROVEN), (True, "{}")):
        world.put_session(session(BOB, session_id="S", levels=levels))
        [row] = decide(world, EnsureDefault(BOB, has_mcp=has_mcp))
        targets.append(row.target)
    assert targets == ["mcp-notifications", "mcp-notifications", "bridge-daemon", "bridge-daemon"]
    [touched] = decide(world, update(BOB, row, target="disabled"))
    world.put_session(session(BOB, session_id="S", levels=PROVEN))
    assert decide(world, EnsureDefault(BOB, has_mcp=True)) == [None]
    assert world.subscriptions[touched.subscription_id].target == "disabled"


def test_a_default_does_not_move_onto_a_route_of_its_owners() -> None:
    world = picture()
    [default] = decide(world, EnsureDefault(BOB))
    made(world, BOB, Route(target="mcp-notifications"))
    [still] = decide(world, EnsureDefault(BOB, has_mcp=True))
    assert still == default


def test_humans_get_no_default() -> None:
    assert decide(picture(), EnsureDefault(HUMAN, has_mcp=True)) == [None]
