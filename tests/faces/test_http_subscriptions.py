from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tests.faces.http_calls import HUMAN, NOWHERE, Actor, error_of, new_agent, new_token, operator
from wakeline import Client, wire
from wakeline.testing.server import ServerProcess

DOOR = "/v1/wake-subscriptions"
MANAGE = "/v1/manage-wake-subscription"
URL = "https://hooks.example.org/wake?token=s3cr3t-w0rd"


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


def webhook(actor: Actor, **fields: Any) -> Any:
    body = {"trigger": "SENT_TO_ME", "harness_target": "a2a-webhook", "harness_target_metadata": {"url": URL}}
    return actor.post(DOOR, **{**body, **fields})


def events_of(actor: Actor) -> list[tuple[str, str]]:
    rows = operator(actor.server).get("/v1/log", limit=500)["events"]
    return [(row["kind"], row["actor"]) for row in rows if row["stream"] == f"principal:{actor.handle}"]


# -- making -----------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_a_key_that_is_shown_once(bob: Actor) -> None:
    answer = bob.call(
        "POST", DOOR, {"trigger": "SENT_TO_ME", "harness_target_metadata": {"url": URL, "coalesce_window": 60}}
    )
    assert answer.status == 201
    made = answer.json()
    assert set(made) == {"subscription_id", "harness_target", "signing_key"}
    assert made["harness_target"] == "a2a-webhook"
    prefix, _, key = made["signing_key"].partition("_")
    assert (prefix, len(base64.b64decode(key))) == ("whsec", 32)
    shown = bob.get(f"{DOOR}/{made['subscription_id']}")
    assert "signing_key" not in shown
    assert key not in str(bob.get(DOOR)) + str(operator(bob.server).get("/v1/log", limit=500))
    assert "s3cr3t" not in str(operator(bob.server).get("/v1/log", limit=500))
    assert shown["harness_target_metadata"] == {
        "url": URL, "coalesce_window": 60, "daemon_socket_path": None, "wake_policy": "immediate", "full_body": False,
    }  # fmt: skip
    assert (shown["status"], shown["reason"], shown["failures"], shown["is_default"]) == ("active", None, 0, False)
    assert shown["metrics"] == {
        "events": 0, "rings": 0, "coalesced": 0, "window_used_seconds": 0.0,
        "latency_average_seconds": None, "latency_most_seconds": 0.0,
    }  # fmt: skip


@pytest.mark.guarantee("G-SUBSCRIBE-ONCE")
def test_subscribing_twice_at_once_is_one_subscription_with_one_key(bob: Actor) -> None:
    filters = [{"sender_filter": ["@a", "@b"]}, {"sender_filter": ["@b", "@a", "@b"]}]
    bodies = [
        {"trigger": "SENT_TO_ME", "filters": filters[number % 2], "harness_target_metadata": {"url": URL}}
        for number in range(8)
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: bob.call("POST", DOOR, body), bodies))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["subscription_id"] for answer in answers}) == 1
    assert [answer.json().get("status") for answer in answers].count("existing") == 7
    assert len([answer for answer in answers if "signing_key" in answer.json()]) == 1
    assert len(bob.get(DOOR)["subscriptions"]) == 1


def test_filters_come_back_in_one_spelling(bob: Actor) -> None:
    filters = {
        "tagged_concepts": ["ci", "build", "ci"], "priority": "high", "sender_filter": ["@b", "@a"],
        "in_reply_to_filter": [NOWHERE],
    }  # fmt: skip
    made = bob.post(DOOR, trigger="SENT_TO_ME", filters=filters)
    assert made["harness_target"] == "none"
    assert bob.get(f"{DOOR}/{made['subscription_id']}")["filters"] == {
        **filters, "tagged_concepts": ["build", "ci"], "sender_filter": ["@a", "@b"]
    }  # fmt: skip


def test_a_caller_that_says_it_speaks_mcp_is_reached_there(bob: Actor) -> None:
    assert bob.post(DOOR, trigger="SENT_TO_ME", mcp_connected=True)["harness_target"] == "mcp-notifications"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"trigger": "SOMETHING"},
        {"trigger": "SENT_TO_ME", "harness_target": "a2a-webhook"},
        {"trigger": "SENT_TO_ME", "harness_target": "carrier-pigeon"},
        {"trigger": "SENT_TO_ME", "filters": {"sender_filter": ["bob"]}},
        {"trigger": "SENT_TO_ME", "filters": {"sender_filter": ["@b"] * 101}},
        {"trigger": "SENT_TO_ME", "filters": {"priority": "urgent"}},
        {"trigger": "SENT_TO_ME", "filters": {"in_reply_to_filter": ["'; DROP TABLE wakes"]}},
        {"trigger": "SENT_TO_ME", "filters": {"tagged_concepts": [""]}},
        {"trigger": "SENT_TO_ME", "filters": {"tagged_concepts": ["a\0b"]}},
        {"trigger": "SENT_TO_ME", "filters": {"surprise": 1}},
        {"trigger": "SENT_TO_ME", "filters": {"taggedConcepts": ["a"]}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"coalesce_window": 301}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"coalesce_window": -1}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"signing_key": "whsec_AAAA"}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"url": "ftp://example.org/"}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"url": "https://example.org/a b"}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"daemon_socket_path": "relative"}},
        {"trigger": "SENT_TO_ME", "harness_target_metadata": {"wake_policy": "now"}},
    ],
)
def test_what_makes_no_sense_is_refused(bob: Actor, body: dict[str, Any]) -> None:
    answer = bob.call("POST", DOOR, body)
    assert answer.status == 400, answer.body
    error_of(answer)
    assert bob.get(DOOR)["subscriptions"] == []


@pytest.mark.guarantee("G-WEBHOOK-PRIVATE")
@pytest.mark.parametrize(
    ("url", "range_"),
    [
        ("http://127.0.0.1:9000/", "127.0.0.0/8"),
        ("http://169.254.169.254/latest/", "169.254.0.0/16"),
        ("http://[::ffff:10.0.0.1]/", "10.0.0.0/8"),
        ("http://localhost/", "127.0.0.0/8"),
        ("http://2130706433/", None),
        ("https://user:pw@example.org/", None),
        ("https://example.org/#x", None),
    ],
)
def test_a_url_that_must_not_be_called_is_refused_when_it_is_given(bob: Actor, url: str, range_: str | None) -> None:
    for metadata in ({"url": url}, {"url": url, "coalesce_window": 5}):
        error = bob.refused("WEBHOOK_URL_REFUSED", "POST", DOOR, trigger="SENT_TO_ME", harness_target_metadata=metadata)
        if range_ is not None:
            assert range_ in error["message"]
            assert error["details"]["setting"] == "WAKELINE_WEBHOOK_ALLOW"
    good = webhook(bob)["subscription_id"]
    bob.refused("WEBHOOK_URL_REFUSED", "PATCH", f"{DOOR}/{good}", harness_target_metadata={"url": url})
    assert bob.get(f"{DOOR}/{good}")["harness_target_metadata"]["url"] == URL


# -- living with it ---------------------------------------------------------------------------------------------------


def test_a_subscription_is_changed_rotated_and_removed(bob: Actor) -> None:
    made = webhook(bob)
    place = f"{DOOR}/{made['subscription_id']}"
    changed = bob.do(
        "PATCH", place, trigger="TASK_STATE_CHANGED", filters={"tagged_concepts": ["x"]},
        harness_target_metadata={"url": "https://b.example/", "coalesce_window": 0, "wake_policy": "silent"},
    )  # fmt: skip
    assert "signing_key" not in changed
    assert (changed["trigger"], changed["filters"]["tagged_concepts"]) == ("TASK_STATE_CHANGED", ["x"])
    assert changed["harness_target_metadata"] == {
        "url": "https://b.example/", "coalesce_window": 0, "daemon_socket_path": None, "wake_policy": "silent",
        "full_body": False,
    }  # fmt: skip
    back = bob.do("PATCH", place, harness_target_metadata={"coalesce_window": None})
    assert back["harness_target_metadata"]["coalesce_window"] is None
    rotated = bob.post(f"{place}/rotate-key")
    assert rotated["signing_key"].startswith("whsec_")
    assert rotated["signing_key"] != made["signing_key"]
    assert bob.get(place)["previous_key_until"] == rotated["previous_key_until"] is not None
    assert bob.post(f"{place}/resume")["status"] == "active"
    gone = {"subscription_id": made["subscription_id"], "status": "removed"}
    assert bob.do("DELETE", place) == bob.do("DELETE", place) == gone
    bob.refused("SUBSCRIPTION_NOT_FOUND", "GET", place)
    assert bob.get(DOOR)["subscriptions"] == []
    assert [kind for kind, _ in events_of(bob) if kind.startswith("subscription")] == [
        "subscription.created", "subscription.changed", "subscription.changed", "subscription.changed",
        "subscription.retired",
    ]  # fmt: skip


def test_a_route_that_becomes_a_webhook_shows_its_key_then(bob: Actor) -> None:
    made = bob.post(DOOR, trigger="SENT_TO_ME", harness_target="none")
    place = f"{DOOR}/{made['subscription_id']}"
    bob.refused("NOT_A_WEBHOOK", "POST", f"{place}/rotate-key")
    bob.refused("WEBHOOK_URL_MISSING", "PATCH", place, harness_target="a2a-webhook")
    changed = bob.do("PATCH", place, harness_target="a2a-webhook", harness_target_metadata={"url": URL})
    assert changed["signing_key"].startswith("whsec_")
    assert "signing_key" not in bob.do("PATCH", place, harness_target="none")


def test_two_subscriptions_cannot_become_one(bob: Actor) -> None:
    first = bob.post(DOOR, trigger="SENT_TO_ME", harness_target="none")["subscription_id"]
    second = bob.post(DOOR, trigger="HEARTBEAT_PULSE", harness_target="none")["subscription_id"]
    error = bob.refused("SUBSCRIPTION_EXISTS", "PATCH", f"{DOOR}/{second}", trigger="SENT_TO_ME")
    assert error["details"]["subscription_id"] == first


def test_a_list_is_read_page_by_page(bob: Actor) -> None:
    made = [
        bob.post(DOOR, trigger="SENT_TO_ME", filters={"tagged_concepts": [f"t{number}"]})["subscription_id"]
        for number in range(5)
    ]
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = bob.get(DOOR, limit=2, **after)
        found += [row["subscription_id"] for row in page["subscriptions"]]
        if not page["has_more"]:
            break
        after = {"after": page["next"]}
    assert found == sorted(made)
    bob.refused("INVALID_ARGUMENT", "GET", f"{DOOR}?after=x")


# -- whose it is ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-SUBSCRIPTION-OWN")
@pytest.mark.parametrize("role", ["participant", "coordinator", "auditor"])
def test_a_foreign_token_gets_nothing(node: ServerProcess, bob: Actor, role: str) -> None:
    made = webhook(bob)["subscription_id"]
    stranger = new_agent(node, "stranger", role)
    before = bob.get(f"{DOOR}/{made}")
    for subscription_id in (made, NOWHERE, "not-an-id"):
        place = f"{DOOR}/{subscription_id}"
        for method, path, body in (
            ("GET", place, None),
            ("PATCH", place, {"harness_target": "disabled"}),
            ("DELETE", place, None),
            ("POST", f"{place}/resume", None),
            ("POST", f"{place}/rotate-key", None),
        ):
            error_of(stranger.call(method, path, body), "SUBSCRIPTION_NOT_FOUND")
    for action in ("unsubscribe", "update", "list", "resume", "rotate_key", "resync"):
        stranger.refused("SUBSCRIPTION_NOT_FOUND", "POST", MANAGE, action=action, subscriptionId=made, sinceLogId=0)
    assert stranger.get(DOOR)["subscriptions"] == []
    stranger.refused("ROLE_FORBIDDEN", "GET", f"{DOOR}?handle={bob.handle}")
    assert bob.get(f"{DOOR}/{made}") == before


@pytest.mark.guarantee("G-SUBSCRIPTION-OWN")
def test_another_workspace_gets_nothing_not_even_its_human(node: ServerProcess, bob: Actor) -> None:
    made = webhook(bob)["subscription_id"]
    name = f"w{made.lower()}"
    operator(node).post("/v1/workspaces", name=name)
    for stranger in (operator(node, name), new_agent(node, "elsewhere", workspace=name)):
        error_of(stranger.call("GET", f"{DOOR}/{made}"), "SUBSCRIPTION_NOT_FOUND")
        error_of(stranger.call("DELETE", f"{DOOR}/{made}"), "SUBSCRIPTION_NOT_FOUND")
        assert stranger.get(DOOR)["subscriptions"] == []


def test_a_human_sees_and_manages_all_and_the_log_says_who(node: ServerProcess, bob: Actor, alice: Actor) -> None:
    made = webhook(bob)["subscription_id"]
    webhook(alice)
    human = new_token(node, HUMAN)
    assert [row["subscription_id"] for row in human.get(DOOR, handle=bob.handle)["subscriptions"]] == [made]
    assert {bob.handle, alice.handle} <= {row["handle"] for row in human.get(DOOR, limit=500)["subscriptions"]}
    assert human.do("PATCH", f"{DOOR}/{made}", harness_target="disabled")["handle"] == bob.handle
    human.do("DELETE", f"{DOOR}/{made}")
    assert events_of(bob)[-2:] == [("subscription.changed", HUMAN), ("subscription.retired", HUMAN)]


def test_others_do_not_read_of_it_in_the_log(bob: Actor, alice: Actor) -> None:
    webhook(bob)
    assert "subscription." not in str(alice.get("/v1/log", limit=500))
    assert "subscription.created" in str(bob.get("/v1/log", limit=500))


def test_claims_in_the_body_must_be_true(bob: Actor, alice: Actor) -> None:
    body = {"trigger": "SENT_TO_ME", "agent_id": alice.handle}
    bob.refused("CLAIM_MISMATCH", "POST", DOOR, **body)
    bob.refused("CLAIM_MISMATCH", "POST", MANAGE, action="subscribe", **body)


# -- the wake protocol's one call -------------------------------------------------------------------------------------


def test_the_one_call_does_all_of_it_in_its_own_spelling(bob: Actor) -> None:
    filters = {"taggedConcepts": ["a"], "priority": "high", "senderFilter": ["@x"], "inReplyToFilter": [NOWHERE]}
    asked = {
        "action": "subscribe", "trigger": "SENT_TO_ME", "filters": filters, "harnessTarget": "a2a-webhook",
        "harnessTargetMetadata": {"url": URL, "coalesceWindow": 45},
    }  # fmt: skip
    made = bob.post(MANAGE, **asked)
    assert set(made) == {"subscriptionId", "harnessTarget", "signingKey"}
    again = bob.post(MANAGE, **asked)
    assert again == {
        "subscriptionId": made["subscriptionId"], "harnessTarget": "a2a-webhook", "status": "existing"
    }  # fmt: skip
    [state] = bob.post(MANAGE, action="list")["subscriptions"]
    assert bob.post(MANAGE, action="list", subscriptionId=made["subscriptionId"]) == {"subscriptions": [state]}
    assert state["agentIdentity"] == bob.handle
    assert state["filters"] == filters
    assert state["harnessTargetMetadata"] == {"url": URL, "coalesceWindow": 45, "wakePolicy": "immediate"}
    own = {"subscriptionId": made["subscriptionId"]}
    updated = bob.post(MANAGE, action="update", **own, harnessTargetMetadata={"coalesceWindow": None})
    assert set(updated) == {"subscriptionId", "currentState"}
    assert updated["currentState"]["harnessTargetMetadata"]["coalesceWindow"] is None
    assert bob.post(MANAGE, action="resume", **own)["currentState"]["status"] == "active"
    assert bob.post(MANAGE, action="rotate_key", **own)["signingKey"] != made["signingKey"]
    assert bob.post(MANAGE, action="unsubscribe", **own) == {**own, "status": "removed"}
    assert bob.post(MANAGE, action="list") == {"subscriptions": []}


@pytest.mark.parametrize(
    "body",
    [
        {"action": "explode"},
        {"action": "subscribe"},
        {"action": "unsubscribe"},
        {"action": "update"},
        {"action": "resume"},
        {"action": "rotate_key"},
        {"action": "resync"},
        {"action": "subscribe", "trigger": "SENT_TO_ME", "harnessTargetMetadata": {"signingKey": "whsec_AAAA"}},
        {"action": "subscribe", "trigger": "SENT_TO_ME", "harness_target": "none"},
    ],
)
def test_the_one_call_refuses_what_makes_no_sense(bob: Actor, body: dict[str, Any]) -> None:
    bob.refused("INVALID_ARGUMENT", "POST", MANAGE, **body)


def test_the_one_call_lists_only_ones_own_also_for_humans(node: ServerProcess, bob: Actor) -> None:
    webhook(bob)
    assert bob.handle not in str(new_token(node, HUMAN).post(MANAGE, action="list"))


async def test_the_client_has_all_of_it_typed(node: ServerProcess, bob: Actor) -> None:
    async with Client(socket=node.socket, token=bob.token) as client:
        made = await client.subscribe_wake("SENT_TO_ME", harness_target_metadata={"url": URL})
        again = await client.subscribe_wake("SENT_TO_ME", harness_target_metadata={"url": URL})
        assert (again.subscription_id, again.status, again.signing_key) == (made.subscription_id, "existing", UNSET)
        changed = await client.update_wake_subscription(made.subscription_id, filters={"priority": "high"})
        assert changed.filters.priority == "high"
        [listed] = (await client.list_wake_subscriptions()).subscriptions
        shown = await client.get_wake_subscription(made.subscription_id)
        assert shown.held == []
        assert isinstance(shown.cursor, wire.CursorView)
        assert (shown.cursor.last_sequence, shown.cursor.last_delivered_at) == (0, None)
        assert listed == msgspec.structs.replace(shown, held=UNSET, cursor=UNSET) == changed
        assert (await client.rotate_wake_key(made.subscription_id)).signing_key != made.signing_key
        assert (await client.resume_wake_subscription(made.subscription_id)).status == "active"
        gone = await client.manage_wake_subscription("unsubscribe", subscriptionId=made.subscription_id)
        assert gone.status == (await client.unsubscribe_wake(made.subscription_id)).status == "removed"


# -- settings ---------------------------------------------------------------------------------------------------------


def test_the_operator_allows_ranges_and_bounds_the_number(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("allowing") / "data"
    settings: dict[str, Any] = {
        "webhook_allow": "127.0.0.0/8,10.1.0.0/16",
        "subscriptions_per_agent": 2,
        "webhook_key_overlap_hours": 0,
    }
    with ServerProcess(data, **settings) as server:
        bob = new_agent(server, "bob")
        for url in ("http://127.0.0.1:9000/", "http://10.1.2.3/"):
            bob.post(DOOR, trigger="SENT_TO_ME", harness_target_metadata={"url": url})
        refused = {"trigger": "SENT_TO_ME", "harness_target_metadata": {"url": "http://10.2.0.1/"}}
        bob.refused("WEBHOOK_URL_REFUSED", "POST", DOOR, **refused)
        error = bob.refused("TOO_MANY_SUBSCRIPTIONS", "POST", DOOR, trigger="HEARTBEAT_PULSE")
        assert error["details"]["limit"] == 2
        first = bob.get(DOOR)["subscriptions"][0]["subscription_id"]
        assert bob.post(f"{DOOR}/{first}/rotate-key")["previous_key_until"] is None


def test_keys_lie_encrypted_and_survive_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("keeping") / "data"
    with ServerProcess(data) as server:
        bob = new_agent(server, "bob")
        made = webhook(bob)
        shown = base64.b64decode(made["signing_key"].removeprefix("whsec_"))
        stored = b"".join(file.read_bytes() for file in data.rglob("wakeline.db*"))
    for secret in (made["signing_key"].encode(), shown, shown.hex().encode()):
        assert secret not in stored
    with ServerProcess(data) as server:
        again = Actor(server, bob.handle, bob.token)
        assert again.get(f"{DOOR}/{made['subscription_id']}")["status"] == "active"
