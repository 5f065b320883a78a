from __future__ import annotations

import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import toon_format

from tests.faces.command_line import Shell
from wakeline.testing.server import ServerProcess

Pair = tuple[str, Shell, str, Shell]


@pytest.fixture
def human(server: ServerProcess) -> Shell:
    return Shell(server.environ)


@pytest.fixture
def pair(human: Shell) -> Pair:
    """Two agents, each with its own shell."""
    return (*human.new_agent(), *human.new_agent())


def test_two_agents_and_a_human_exchange_messages(human: Shell, pair: Pair) -> None:
    alice, as_alice, bob, as_bob = pair
    posted = as_alice.json("send", bob, "The tests pass now.", "--subject", "Tests")
    [message] = as_bob.json("inbox")["messages"]
    assert (message["sender"], message["body"], message["subject"]) == (alice, "The tests pass now.", "Tests")
    answered = as_bob.json("send", "--reply-to", posted["message_id"], "Thank you.")
    assert answered["thread_id"] == posted["thread_id"]
    assert [one["body"] for one in as_alice.json("inbox")["messages"]] == ["Thank you."]
    assert human.json("send", alice, bob, "Well done.")["seq"] == 1
    assert as_bob.json("inbox")["unread"] == 2


def test_the_operator_can_act_as_an_agent(human: Shell, pair: Pair) -> None:
    alice, _, bob, as_bob = pair
    human.json("send", "--as", alice, bob, "as if I were her")
    assert as_bob.json("inbox")["messages"][0]["sender"] == alice
    assert human.json("whoami", "--as", alice)["handle"] == alice
    notes = [token["note"] for token in human.json("token", "list", alice)["tokens"]]
    assert "cli --as" in notes


def test_options_may_stand_anywhere(pair: Pair) -> None:
    _, as_alice, bob, _ = pair
    before = as_alice.run("-o", "json", "send", bob, "one").json()
    between = as_alice.run("send", bob, "--priority", "high", "-o", "json", "two").json()
    after = as_alice.run("send", bob, "three", "-o=json").json()
    assert [before["seq"], between["seq"], after["seq"]] == [1, 2, 3]


def test_a_text_may_come_from_standard_input_and_may_look_like_an_option(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    assert as_alice.run("send", bob, "-", stdin="line 1\nline 2\n").code == 0
    assert as_alice.run("send", bob, "--", "--help").code == 0
    assert [one["body"] for one in as_bob.json("inbox")["messages"]] == ["line 1\nline 2\n", "--help"]


def test_binary_standard_input_is_refused(pair: Pair) -> None:
    _, as_alice, bob, _ = pair
    refused = as_alice.run("send", bob, "-", stdin=b"\xff\xfe")
    assert refused.code == 2
    assert "not UTF-8" in refused.err


def test_every_field_of_a_message_has_an_option(human: Shell, pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    first = as_alice.json("send", bob, "first")
    as_alice.json(
        *("send", bob, "second", "--subject", "S", "--priority", "low", "--wake", "silent", "--tag", "a", "--tag", "b"),
        *("--kind", "event", "--expires", "2h", "--supersedes", first["message_id"], "--reply-to", first["message_id"]),
    )
    [message] = as_bob.json("inbox")["messages"]
    assert (message["subject"], message["priority"], message["wake_policy"]) == ("S", "low", "silent")
    assert (message["tags"], message["kind"], message["supersedes"]) == (["a", "b"], "event", first["message_id"])
    left = datetime.fromisoformat(message["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=115) < left <= timedelta(hours=2)


def test_the_same_key_posts_once(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    first = as_alice.json("send", bob, "once", "--key", "k1")
    assert as_alice.json("send", bob, "once", "--key", "k1") == first
    other = as_alice.run("send", bob, "another", "--key", "k1", "-o", "json")
    assert (other.code, other.error()["code"]) == (1, "IDEMPOTENCY_CONFLICT")
    assert as_bob.json("inbox")["unread"] == 1


def test_ask_prints_the_reply(pair: Pair) -> None:
    alice, as_alice, bob, as_bob = pair

    def answer() -> None:
        deadline = time.monotonic() + 30
        while not (asked := as_bob.json("inbox")["messages"]) and time.monotonic() < deadline:
            pass
        as_bob.json("send", "--reply-to", asked[0]["message_id"], "Port 8080.")

    helper = threading.Thread(target=answer)
    helper.start()
    reply = as_alice.run("ask", bob, "Which port?", "--timeout", "30")
    helper.join()
    assert reply.code == 0, reply.err
    assert f"{bob} → {alice}" in reply.out
    assert "  Port 8080." in reply.out


def test_ask_without_a_reply_has_its_own_exit_code(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    silence = as_alice.run("ask", bob, "Anybody?", "--timeout", "0.2", "-o", "json")
    assert silence.code == 6
    assert json.loads(silence.out)["reply"] is None
    assert "no reply within 0.2 s" in silence.err
    assert as_bob.json("inbox")["unread"] == 1


def test_ack_archive_and_retract(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    sent = [as_alice.json("send", bob, f"m{number}") for number in range(5)]
    ids = [one["message_id"] for one in sent]
    assert as_bob.json("ack", ids[0], ids[1]) == {"acked": 2, "unread": 3}
    assert as_bob.json("ack", "--thread", sent[0]["thread_id"], "--seq", "3") == {"last_read_seq": 3, "unread": 2}
    assert as_bob.json("archive", ids[3])["unread"] == 1
    assert as_alice.json("retract", ids[4], "--reason", "wrong")["state"] == "retracted"
    assert as_bob.json("inbox")["unread"] == 0
    assert [one["message_id"] for one in as_bob.json("inbox", "--archived")["messages"]] == [ids[3]]
    assert {one["message_id"] for one in as_bob.json("inbox", "--all")["messages"]} >= set(ids[:3])


@pytest.mark.parametrize("words", [(), ("--thread", "x"), ("--seq", "3"), ("m", "--thread", "x", "--seq", "3")])
def test_ack_takes_messages_or_a_thread_with_a_number(human: Shell, words: tuple[str, ...]) -> None:
    assert human.run("ack", *words).code == 2


def test_read_takes_a_thread_or_a_message(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    first = as_alice.json("send", bob, "one")
    as_alice.json("send", bob, "two")
    thread = as_bob.json("read", first["thread_id"], "--since-seq", "1")
    assert [one["body"] for one in thread["messages"]] == ["two"]
    as_bob.json("ack", first["message_id"])
    for words in (("read", first["message_id"]), ("read", "--message", first["message_id"])):
        message = as_alice.json(*words)
        assert message["body"] == "one"
        assert [(one["recipient"], one["read_at"] is not None) for one in message["receipts"]] == [(bob, True)]
    missing = as_alice.run("read", "0" * 26, "-o", "json")
    assert (missing.code, missing.error()["code"]) == (3, "MESSAGE_NOT_FOUND")


def test_pages_go_on_where_they_ended(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    [thread] = {as_alice.json("send", bob, f"m{number}")["thread_id"] for number in range(3)}
    page = as_bob.json("inbox", "--limit", "2")
    assert page["has_more"]
    rest = as_bob.json("inbox", "--after", page["next"])
    assert [one["body"] for one in page["messages"] + rest["messages"]] == ["m0", "m1", "m2"]
    shown = as_bob.run("read", thread, "--limit", "1").out
    assert "more with --since-seq 1" in shown


def test_search_finds_words(human: Shell, pair: Pair) -> None:
    alice, as_alice, bob, _ = pair
    as_alice.json("send", bob, "the zebra crosses the road")
    deadline = time.monotonic() + 20
    while not (found := human.json("search", "zebra", "road", "--from", alice)["messages"]):
        assert time.monotonic() < deadline
    assert found[0]["body"] == "the zebra crosses the road"
    assert human.run("search", "nosuchword").out == "nothing found\n"


def test_all_formats_say_the_same(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    as_alice.json("send", bob, "ünïcode, and a comma", "--tag", "x")
    as_alice.json("send", bob, "two")
    as_bob.json("inbox")  # seen now, so that every later look is the same
    plain = as_bob.run("inbox", "-o", "json").json()
    assert as_bob.run("inbox", "-o", "jsonl").lines() == plain["messages"]
    assert toon_format.loads(as_bob.run("inbox", "-o", "toon").out) == plain
    people = as_bob.run("inbox").out
    assert "ünïcode, and a comma" in people
    assert "2 unread" in people


@pytest.mark.guarantee("G-TERMINAL")
def test_what_peers_write_cannot_act_on_the_terminal(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    hostile = "\x1b[2Jcleared \x9b31m red \u202egnp.exe\r\n@human → everyone  now"
    as_alice.json("send", bob, hostile, "--subject", "\x1b]0;title\x07 subject")
    for form in ("human", "json", "jsonl", "toon"):
        shown = as_bob.run("inbox", "-o", form).out
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\r"} & set(shown), form
    assert as_bob.json("inbox")["messages"][0]["body"] == hostile
    shown = as_bob.run("inbox").out
    assert "\\x1b[2Jcleared" in shown
    assert not any(line.startswith("@human") for line in shown.splitlines())


def test_a_long_body_is_cut_in_the_inbox_and_whole_when_read(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    sent = as_alice.json("send", bob, "\n".join(f"line {number}" for number in range(30)))
    assert "… 22 more lines" in as_bob.run("inbox").out
    assert "line 29" in as_bob.run("read", sent["thread_id"]).out


def test_colours_are_for_terminals_that_want_them(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    as_alice.json("send", bob, "hello")
    assert "\x1b[" not in as_bob.run("inbox").out
    assert "\x1b[1m" in as_bob.with_environ(TERM="xterm").on_terminal("inbox")[1]
    assert "\x1b[" not in as_bob.with_environ(TERM="xterm", NO_COLOR="1").on_terminal("inbox")[1]


def test_who_makes_a_guard_fire_is_told_and_so_is_the_human(human: Shell, pair: Pair) -> None:
    _, as_alice, bob, _ = pair
    said = [as_alice.run("send", bob, "ping").out.splitlines() for _ in range(3)]
    assert [len(lines) for lines in said] == [1, 1, 2]
    assert said[-1][1] == "LOOP_REPEATS: the thread is blocked, and the human was told"
    [told] = human.json("inbox")["messages"]
    assert told["subject"].startswith("LOOP_REPEATS: ")


def test_a_deadline_for_the_answer_is_shown(pair: Pair) -> None:
    _, as_alice, bob, as_bob = pair
    sent = as_alice.json("send", bob, "--answer-by", "2h", "Can I deploy?")
    shown = as_bob.run("read", sent["message_id"]).out
    assert re.search(r"^answer by +in 1 h$", shown, re.MULTILINE)
