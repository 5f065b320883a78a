from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faces.http_calls import NOWHERE, Actor, new_agent, new_name, new_token, operator
from wakeline.testing.server import Answer, ServerProcess


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


def letters(actor: Actor, **query: Any) -> list[Any]:
    found: list[Any] = actor.get("/v1/dead-letters", **query)["dead_letters"]
    return found


# -- dead letters -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_brought_anywhere_is_kept_with_its_reason(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    nobody = new_name("nobody")
    error = alice.send_refused("RECIPIENT_UNKNOWN", bob, nobody, body="lost")
    assert error["details"]["unknown"] == [nobody]
    alice.send_refused("NO_RECIPIENTS", f"role:{nobody[1:]}")
    closed = alice.thread("plan", bob)
    operator(node).post(f"/v1/threads/{closed}/status", status="closed")
    alice.send_refused("THREAD_CLOSED", thread_id=closed)
    kept = letters(alice)
    assert [one["code"] for one in kept] == ["THREAD_CLOSED", "NO_RECIPIENTS", "RECIPIENT_UNKNOWN"]
    first = kept[-1]
    assert set(first) == {
        "dead_letter_id", "sender", "code", "reason", "payload", "created_at", "attempts", "redriven_at", "message_id",
    }  # fmt: skip
    assert first["dead_letter_id"] == error["details"]["dead_letter_id"]
    assert (first["sender"], first["attempts"], first["redriven_at"]) == (alice.handle, 0, None)
    assert "lost" in first["payload"]
    assert bob.mail(state="all")[-1]["kind"] == "system"  # bob heard that the thread was closed, and nothing else


def test_mail_to_who_has_gone_is_kept_too(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    asked = bob.send(alice)
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", retired=True)
    alice.send_refused("RECIPIENT_UNKNOWN", bob)
    operator(node).post(f"/v1/threads/{asked['thread_id']}/status", status="closed")
    alice.send_refused("THREAD_CLOSED", in_reply_to=asked["message_id"])
    assert [one["code"] for one in letters(alice)] == ["THREAD_CLOSED", "RECIPIENT_UNKNOWN"]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        # wrong in itself
        ("INVALID_ARGUMENT", {"to": ["not a handle"]}),
        ("INVALID_ARGUMENT", {"to": ["@nobody"], "no_such_field": 1}),
        ("INVALID_ARGUMENT", {"to": ["@nobody", "everyone"]}),
        ("INVALID_ARGUMENT", {}),
        ("BODY_TOO_LARGE", {"to": ["@nobody"], "body": "x" * 300_000}),
        ("SUBJECT_TOO_LONG", {"to": ["@nobody"], "subject": "x" * 201}),
        # not there for the sender
        ("THREAD_NOT_FOUND", {"thread_id": NOWHERE}),
        ("MESSAGE_NOT_FOUND", {"in_reply_to": NOWHERE}),
        ("MESSAGE_NOT_FOUND", {"to": ["@human"], "supersedes": NOWHERE}),
        # forbidden
        ("RESTRICTED_TAG", {"to": ["@nobody"], "tags": ["override"]}),
        ("CLAIM_MISMATCH", {"to": ["@nobody"], "sender": "@human"}),
        ("ROLE_FORBIDDEN", {"to": ["@nobody"], "kind": "system"}),
    ],
)
def test_what_was_wrong_or_forbidden_is_no_dead_letter(alice: Actor, code: str, fields: dict[str, Any]) -> None:
    assert "dead_letter_id" not in alice.send_refused(code, **fields)["details"]
    assert letters(alice) == []


def test_what_a_rule_between_two_forbids_is_no_dead_letter(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    bob.post("/v1/blocks", blocked=alice.handle)
    alice.send_refused("BLOCKED", bob)
    alice.send_refused("NOT_A_MEMBER", bob, thread_id=alice.thread("plan"))
    auditor = new_agent(node, "auditor", "auditor")
    auditor.send_refused("ROLE_FORBIDDEN", "@nobody-at-all")
    assert letters(alice) == letters(auditor, sender=auditor.handle) == []


def test_what_cannot_be_parsed_is_no_dead_letter(alice: Actor) -> None:
    for body in (b"{", b"[]", b'{"to": ["@nobody"], "body": "\xff"}'):
        answer = alice.server.call("POST", "/v1/messages", body, token=alice.token)
        assert 400 <= answer.status < 500
    assert letters(alice) == []


def test_dead_letters_are_seen_by_their_sender_and_by_who_reads_everything(
    node: ServerProcess, alice: Actor, bob: Actor
) -> None:
    alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all")
    assert letters(bob) == []
    bob.refused("ROLE_FORBIDDEN", "GET", f"/v1/dead-letters?sender={alice.handle}")
    auditor = new_agent(node, "auditor", "auditor")
    for reader in (operator(node), auditor):
        assert [one["sender"] for one in letters(reader, sender=alice.handle)] == [alice.handle]


def test_a_dead_letter_is_sent_again_once(node: ServerProcess, alice: Actor) -> None:
    name = new_name("later")
    alice.send_refused("RECIPIENT_UNKNOWN", name, body="patience")
    [letter] = letters(alice)
    path = f"/v1/dead-letters/{letter['dead_letter_id']}/redrive"
    alice.refused("ROLE_FORBIDDEN", "POST", path)
    operator(node).refused("RECIPIENT_UNKNOWN", "POST", path)
    [tried] = letters(alice)  # refused again, it is still one letter
    assert (tried["dead_letter_id"], tried["attempts"], tried["redriven_at"]) == (letter["dead_letter_id"], 1, None)
    later = Actor(node, name, operator(node).post("/v1/agents", handle=name)["token"])
    posted = operator(node).post(path)
    [mail] = later.mail()
    assert (mail["message_id"], mail["sender"], mail["body"]) == (posted["message_id"], alice.handle, "patience")
    error = operator(node).refused("ALREADY_REDRIVEN", "POST", path)
    assert error["details"]["message_id"] == posted["message_id"]
    assert letters(alice) == []
    [done] = letters(alice, open=False)
    assert (done["attempts"], done["message_id"]) == (2, posted["message_id"])


@pytest.mark.guarantee("G-ONCE")
def test_two_at_once_send_a_dead_letter_once(node: ServerProcess, alice: Actor) -> None:
    name = new_name("later")
    alice.send_refused("RECIPIENT_UNKNOWN", name)
    later = Actor(node, name, operator(node).post("/v1/agents", handle=name)["token"])
    path = f"/v1/dead-letters/{letters(alice)[0]['dead_letter_id']}/redrive"
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(operator(node).call("POST", path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({answer.status for answer in answers}) in ([201], [201, 409])
    assert later.inbox()["unread"] == 1


def test_a_dead_letter_keeps_what_its_sender_said(node: ServerProcess, alice: Actor) -> None:
    name = new_name("later")
    session = new_token(node, alice.handle, session_id="s-1")
    fields = {"idempotency_key": "k", "session_id": "s-1", "agent_id": alice.handle, "subject": "s", "tags": ["t"]}
    session.send_refused("RECIPIENT_UNKNOWN", name, **fields)
    later = Actor(node, name, operator(node).post("/v1/agents", handle=name)["token"])
    posted = operator(node).post(f"/v1/dead-letters/{letters(alice)[0]['dead_letter_id']}/redrive")
    assert session.send(name, **fields)["message_id"] == posted["message_id"]  # who retries by themselves sends nothing
    [mail] = later.mail()
    assert (mail["subject"], mail["tags"]) == ("s", ["t"])


def test_a_dead_letter_of_who_has_gone_stays_dead(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all")
    [letter] = letters(alice)
    operator(node).do("PATCH", f"/v1/agents/{alice.handle}", retired=True)
    operator(node).refused("AGENT_NOT_FOUND", "POST", f"/v1/dead-letters/{letter['dead_letter_id']}/redrive")
    operator(node).refused("DEAD_LETTER_NOT_FOUND", "POST", f"/v1/dead-letters/{NOWHERE}/redrive")


# -- retention --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-RETENTION")
def test_pruning_the_log_takes_nothing_from_anybody(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    thread_id = [alice.send(bob, body=f"patience{n}")["thread_id"] for n in range(5)].pop()
    bob.ack(bob.mail()[0]["message_id"])
    before = bob.mail(state="all")
    pruned = operator(node).post("/v1/prune", keep=0)
    assert set(pruned) == {"log_rows", "messages", "sessions", "first_log_id", "last_log_id"}
    assert pruned["log_rows"] > 0
    assert pruned["first_log_id"] == pruned["last_log_id"] + 1
    assert operator(node).get("/v1/log")["events"] == []
    assert (bob.inbox()["unread"], bob.unread()) == (4, [f"patience{n}" for n in range(1, 5)])
    assert bob.mail(state="all") == before
    assert len(bob.read(thread_id)["messages"]) == 5
    assert len(bob.get("/v1/search", q="patience3")["messages"]) == 1
    after = alice.send(bob)
    assert after["log_id"] > pruned["last_log_id"]
    assert (after["thread_id"], after["seq"]) == (thread_id, 6)
    bob.ack(bob.mail()[0]["message_id"])
    assert bob.inbox()["unread"] == 4


def test_pruning_keeps_as_much_as_it_is_told(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    last = [alice.send(bob)["log_id"] for _ in range(6)][-1]
    assert operator(node).post("/v1/prune", keep=4)["first_log_id"] == last - 3
    assert operator(node).post("/v1/prune", older_than_seconds=3600)["log_rows"] == 0
    assert operator(node).post("/v1/prune")["log_rows"] == 0  # as the schedule does
    assert operator(node).post("/v1/prune", older_than_seconds=0)["first_log_id"] == last + 1


def test_pruning_forgets_sessions_that_ended(node: ServerProcess, alice: Actor) -> None:
    old, new = (
        alice.post("/v1/sessions/heartbeat", harness="codex", native_id=name)["session_id"] for name in ("n1", "n2")
    )
    alice.post(f"/v1/sessions/{old}/end")
    operator(node).post("/v1/prune", older_than_seconds=3600)
    assert len(alice.get("/v1/sessions", ended=True)["sessions"]) == 2
    assert operator(node).post("/v1/prune", older_than_seconds=0)["sessions"] == 1
    assert [one["session_id"] for one in alice.get("/v1/sessions", ended=True)["sessions"]] == [new]


def test_a_server_prunes_by_itself_as_its_settings_say(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
        last = [alice.send(bob, body=f"patience{n}")["log_id"] for n in range(6)][-1]
        assert len(bob.get("/v1/search", q="patience5")["messages"]) == 1  # it is indexed, so it may be pruned
    with ServerProcess(tmp_path / "data", log_retention_rows=4, sweep_seconds=0.05) as server:
        deadline = time.monotonic() + 20
        while (first := operator(server).get("/v1/status")["first_log_id"]) == 1:
            assert time.monotonic() < deadline
        assert first == last - 3


@pytest.mark.parametrize("body", [{"keep": -1}, {"older_than_seconds": -1}, {"keep": "x"}, {"before": 1}])
def test_a_prune_that_makes_no_sense_is_refused(node: ServerProcess, body: dict[str, Any]) -> None:
    operator(node).refused("INVALID_ARGUMENT", "POST", "/v1/prune", **body)


# -- search -----------------------------------------------------------------------------------------------------------


def found(actor: Actor, q: str, **query: Any) -> list[str]:
    return sorted(one["body"] for one in actor.get("/v1/search", q=q, **query)["messages"])


def test_search_finds_words_and_phrases_in_body_and_subject(alice: Actor, bob: Actor) -> None:
    mark = alice.handle[1:].replace("-", "")
    alice.send(bob, body=f"{mark} the quick brown fox")
    alice.send(bob, body=f"{mark} the brown quick dog")
    alice.send(bob, body=f"{mark} nothing", subject="A Quick Grüße")
    assert len(found(bob, mark)) == 3
    assert found(bob, f"{mark} quick") == sorted(found(bob, mark))
    assert found(bob, f'{mark} "quick brown"') == [f"{mark} the quick brown fox"]
    assert found(bob, f"{mark} QUICK FOX") == [f"{mark} the quick brown fox"]
    assert found(bob, f"{mark} grüße") == [f"{mark} nothing"]
    assert found(bob, f"{mark} cat") == []


@pytest.mark.guarantee("G-VISIBLE")
def test_search_shows_only_what_may_be_read(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    mark = alice.handle[1:].replace("-", "")
    thread_id = alice.send(bob, body=f"{mark} secret")["thread_id"]
    carol, auditor = new_agent(node, "carol"), new_agent(node, "auditor", "auditor")
    assert (len(found(alice, mark)), len(found(bob, mark)), len(found(auditor, mark))) == (1, 1, 1)
    assert found(carol, mark) == []
    assert found(carol, mark, thread_id=thread_id) == []
    assert found(carol, mark, sender=alice.handle) == []


def test_search_narrows_by_thread_and_sender(alice: Actor, bob: Actor) -> None:
    mark = alice.handle[1:].replace("-", "")
    one, other = alice.thread("one", bob), alice.thread("other", bob)
    alice.send(thread_id=one, body=f"{mark} 1")
    bob.send(thread_id=other, body=f"{mark} 2")
    assert found(alice, mark, thread_id=one) == [f"{mark} 1"]
    assert found(alice, mark, sender=bob.handle) == [f"{mark} 2"]
    assert len(found(alice, mark, limit=1)) == 1


def test_search_forgets_what_was_taken_back(alice: Actor, bob: Actor) -> None:
    mark = alice.handle[1:].replace("-", "")
    posted = alice.send(bob, body=f"{mark} oops")
    assert len(found(bob, mark)) == 1
    alice.post(f"/v1/messages/{posted['message_id']}/retract")
    assert found(bob, mark) == []


@pytest.mark.parametrize(
    "q",
    [
        '"',
        "a OR",
        "NEAR(a b)",
        "a*",
        "-a",
        "a:b",
        "(a",
        "subject:a",
        "' OR 1=1 --",
        "a & | !",
        "日本",
        "\\",
    ],
)
def test_search_takes_any_text_as_text(alice: Actor, bob: Actor, q: str) -> None:
    answer = alice.call("GET", "/v1/search?q=" + "".join(f"%{byte:02x}" for byte in q.encode()))
    assert answer.status in (200, 400), answer.body
    assert answer.status == 200 or answer.code == "INVALID_ARGUMENT"


def test_a_search_without_words_finds_nothing(alice: Actor, bob: Actor) -> None:
    alice.send(bob, body="!?")
    assert found(bob, "!?") == found(bob, '"" -') == []


@pytest.mark.parametrize("query", ["", "q=", "q=a%00b", "q=a&limit=101", "q=" + "a" * 501, "q=a&x=1", "q=a&of=x"])
def test_a_search_for_nothing_is_refused(alice: Actor, query: str) -> None:
    alice.refused("INVALID_ARGUMENT", "GET", f"/v1/search?{query}")


# -- the audit --------------------------------------------------------------------------------------------------------


def test_refusals_are_counted_per_principal_rule_and_minute(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    for _ in range(3):
        alice.send_refused("RESTRICTED_TAG", bob, tags=["system"])
    alice.send_refused("CLAIM_MISMATCH", bob, sender=bob.handle)
    alice.refused("GRANT_MISSING", "GET", f"/v1/inbox?of={bob.handle}")
    alice.refused("ROLE_FORBIDDEN", "POST", "/v1/prune", keep=0)
    alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all")  # wrong is not forbidden
    alice.refused("ROLE_FORBIDDEN", "GET", "/v1/refusals")
    Actor(node, alice.handle, alice.token, "elsewhere").refused("WORKSPACE_MISMATCH", "GET", "/v1/inbox")
    rows = [one for one in operator(node).get("/v1/refusals")["refusals"] if one["handle"] == alice.handle]
    counts: dict[str, int] = {}
    for row in rows:
        assert set(row) == {"handle", "rule", "minute", "count", "last_message"}
        counts[row["rule"]] = counts.get(row["rule"], 0) + row["count"]
    assert counts == {
        "restricted_tags": 3, "claims": 1, "CAN_READ_INBOX_OF": 1, "role_gate": 1, "audit": 1, "workspace": 1,
    }  # fmt: skip
    auditor = new_agent(node, "auditor", "auditor")
    assert auditor.get("/v1/refusals")["refusals"]


# -- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-LOG-ORDER")
def test_the_log_is_read_page_by_page_without_gaps(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    start = operator(node).get("/v1/status")["position"]
    posted = [alice.send(bob)["log_id"] for _ in range(7)]
    page = operator(node).get("/v1/log", after=start, limit=3)
    seen = [one["log_id"] for one in page["events"]]
    while page["has_more"]:
        page = operator(node).get("/v1/log", after=page["position"], limit=3)
        seen += [one["log_id"] for one in page["events"]]
    assert seen == list(range(posted[0], posted[-1] + 1))


@pytest.mark.guarantee("G-VISIBLE")
def test_the_log_shows_everybody_their_own(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    start = alice.get("/v1/status")["position"]
    carol = new_agent(node, "carol")
    posted = alice.send(bob, body="secret")
    carol.post("/v1/blocks", blocked=bob.handle)
    page = bob.get("/v1/log", after=start)
    assert [one["log_id"] for one in page["events"]] == [posted["log_id"]]
    assert page["events"][0]["message"]["body"] == "secret"
    assert not page["has_more"]
    assert "secret" not in str(carol.get("/v1/log", after=start))
    kinds = [one["kind"] for one in operator(node).get("/v1/log", after=start)["events"]]
    assert kinds == ["agent.added", "token.issued", "message.posted", "block.set"]


@pytest.mark.parametrize("after", ["1", "-1", "x", "", "a-b", "%00", "0x0"])
def test_a_log_position_that_is_none_is_refused(alice: Actor, after: str) -> None:
    answer = alice.call("GET", f"/v1/log?after={after}")
    assert answer.status == 400
    assert answer.code in ("MALFORMED_POSITION", "INVALID_ARGUMENT")


# -- who and how ------------------------------------------------------------------------------------------------------


def test_everybody_can_ask_who_they_are(node: ServerProcess, alice: Actor) -> None:
    me = alice.get("/v1/whoami")
    assert me.pop("expires_at") is not None
    assert me == {
        "handle": alice.handle, "workspace": "default", "kind": "agent", "role": "participant", "operator": False,
    }  # fmt: skip
    human = operator(node).get("/v1/whoami")
    assert (human["handle"], human["operator"], human["expires_at"]) == ("@human", True, None)


def test_the_status_counts(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    before = bob.get("/v1/status")
    alice.send(bob)
    after = bob.get("/v1/status")
    assert after["messages"] == before["messages"] + 1
    assert after["unread"] == 1
    assert after["database"] in ("sqlite", "postgresql")


def test_health_and_readiness_are_for_anybody(node: ServerProcess) -> None:
    connection = node.connect()
    for path, field in (("/healthz", "status"), ("/readyz", "ready"), ("/openapi.json", "openapi")):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        assert f'"{field}"'.encode() in answer.read()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, b"wakeline_request_seconds" in answer.read()) == (200, True)
    connection.close()
