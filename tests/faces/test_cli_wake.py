from __future__ import annotations

from collections.abc import Iterator

import pytest
import toon_format

from tests.faces.command_line import Shell
from wakeline.testing.server import ServerProcess

URL = "https://hooks.example.org/wake"


@pytest.fixture(scope="module")
def human(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with ServerProcess(tmp_path_factory.mktemp("wake") / "data") as server:
        yield Shell(server.environ)


def test_a_wake_subscription_s_life(human: Shell) -> None:
    handle, agent = human.new_agent()
    made = agent.json(
        "wake", "subscribe", "sent-to-me", "--webhook", URL, "--from", "@ci", "--tag", "a", "--window", "1m"
    )
    assert made["harness_target"] == "a2a-webhook"
    assert made["signing_key"].startswith("whsec_")
    name = made["subscription_id"]
    [row] = agent.json("wake", "list")["subscriptions"]
    shown = agent.json("wake", "show", name)
    assert (shown.pop("held"), shown.pop("cursor")["last_sequence"]) == ([], 0)
    assert shown == row
    assert row["filters"]["sender_filter"] == ["@ci"]
    assert row["harness_target_metadata"]["coalesce_window"] == 60
    again = agent.json("wake", "subscribe", "SENT_TO_ME", "--webhook", URL, "--from", "@ci", "--tag", "a")
    assert (again["subscription_id"], again["status"]) == (name, "existing")
    changed = agent.json("wake", "update", name, "--no-filters", "--window", "default", "--wake", "silent")
    assert changed["filters"] == {
        "tagged_concepts": [], "priority": None, "sender_filter": [], "in_reply_to_filter": []
    }  # fmt: skip
    assert changed["harness_target_metadata"]["coalesce_window"] is None
    assert agent.json("wake", "rotate-key", name)["signing_key"] != made["signing_key"]
    assert agent.json("wake", "resume", name)["status"] == "active"
    assert human.json("wake", "list", "--of", handle)["subscriptions"][0]["subscription_id"] == name
    assert agent.json("wake", "unsubscribe", name) == {"subscription_id": name, "status": "removed"}
    assert agent.run("wake", "show", name).code == 3


def test_people_can_read_it_and_programs_too(human: Shell) -> None:
    _, agent = human.new_agent()
    assert agent.run("wake", "list").out.strip() == "no wake subscriptions"
    made = agent.run("wake", "subscribe", "sent-to-me", "--webhook", URL, "--priority", "high")
    [first, told, key] = made.out.splitlines()
    assert first.startswith("subscribed: ")
    assert "only this once" in told
    assert key.startswith("whsec_"), "the key stands alone on its line"
    name = first.split()[1].rstrip(",")
    assert "exists already" in agent.run("wake", "subscribe", "sent-to-me", "--webhook", URL, "--priority", "high").out
    listed = agent.run("wake", "list").out
    assert name in listed
    assert "high" in listed
    assert URL in agent.run("wake", "show", name).out
    assert "old key" in agent.run("wake", "rotate-key", name).out
    assert [row["subscription_id"] for row in agent.run("wake", "list", "-o", "jsonl").lines()] == [name]
    assert name in str(toon_format.loads(agent.run("wake", "list", "-o", "toon").out))
    agent.json("wake", "subscribe", "heartbeat-pulse")
    assert "there is more: --after @" in agent.run("wake", "list", "--limit", "1").out


@pytest.mark.guarantee("G-RESYNC")
def test_what_was_missed_is_replayed_from_a_position(human: Shell) -> None:
    handle, agent = human.new_agent()
    name = agent.json("wake", "subscribe", "sent-to-me", "--webhook", URL)["subscription_id"]
    sent = human.json("send", handle, "Look")
    replayed = agent.json("wake", "resync", name, "--since", str(sent["log_id"] - 1))
    assert (replayed["events_replayed"], replayed["clamped"]) == (1, False)
    assert agent.json("deliveries", "show", replayed["delivery_id"])["replay"]
    assert "replayed 1 event as " in agent.run("wake", "resync", name, "--since", "0").out
    future = agent.run("wake", "resync", name, "--since", "99999999")
    assert "nothing to replay" in future.out
    assert "lies in the future" in future.out
    here = agent.run("wake", "resync", name, "--since", f"{sent['epoch']}-{sent['log_id']}")
    assert (here.code, "nothing to replay" in here.out) == (0, True)
    other = agent.run("wake", "resync", name, "--since", f"0ther-{sent['log_id']}", "-o", "json")
    assert (other.code, other.error()["code"]) == (1, "EPOCH_CHANGED")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("subscribe",), 2, "TRIGGER"),
        (("subscribe", "sometimes"), 2, "invalid choice"),
        (("subscribe", "sent-to-me", "--window", "soon"), 2, "duration"),
        (("subscribe", "sent-to-me", "--target", "pigeon"), 2, "invalid choice"),
        (("subscribe", "sent-to-me", "--target", "a2a-webhook"), 1, "URL"),
        (("subscribe", "sent-to-me", "--webhook", "http://10.0.0.1/"), 4, "10.0.0.0/8"),
        (("update", "0" * 26, "--no-filters", "--tag", "a"), 2, "--no-filters"),
        (("resync", "0" * 26), 2, "--since"),
        (("resync", "0" * 26, "--since", "-1"), 2, "not a log id"),
        (("resync", "0" * 26, "--since", "yesterday"), 2, "not a log id"),
        (("resync", "0" * 26, "--since", "0"), 3, "no wake subscription"),
        (("unsubscribe", "0" * 26), 3, "no wake subscription"),
    ],
)
def test_mistakes_are_explained(human: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = human.run("wake", *words)
    assert done.code == code, done.err
    assert said in done.err


def test_the_help_has_examples(human: Shell) -> None:
    for verb in ("subscribe", "list", "show", "update", "unsubscribe", "resume", "resync", "rotate-key"):
        assert f"wakeline wake {verb}" in human.run("wake", verb, "--help").out.partition("examples:")[2]
