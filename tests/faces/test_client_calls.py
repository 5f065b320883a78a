"""`wakeline.calls` describes the HTTP face without importing its types: here it is held against them."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from typing import Any, get_args
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline import Client, calls, wire
from wakeline.calls import Call
from wakeline.errors import Forbidden, InvalidArgument, NotFound, Unavailable
from wakeline.testing.server import ServerProcess

ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
STARTED = {"harness": "codex", "native_id": "01a1-e5", "cwd": "/work"}
MESSAGE: dict[str, Any] = {
    "to": ["@bob"],
    "thread_id": ID,
    "subject": "s",
    "kind": "chat",
    "priority": "high",
    "wake_policy": "silent",
    "tags": ["a"],
    "in_reply_to": ID,
    "idempotency_key": "k",
    "expires_at": "2030-01-01T00:00:00Z",
    "answer_by": "2029-01-01T00:00:00Z",
    "supersedes": ID,
    "metadata": {"a": 1},
    "session_id": "s",
    "wait_seconds": 5,
}
HEARTBEAT: dict[str, Any] = {
    "session_id": ID,
    "harness": "codex",
    "harness_version": "1.2",
    "transport": "app-server",
    "native_id": "n",
    "host": "h",
    "cwd": "/w",
    "pid": 7,
    "pid_started_at": "2030-01-01T00:00:00Z",
    "wake_mode": "socket",
    "replyable": True,
    "capabilities": ["a"],
    "levels": {"D4": "pass"},
    "presence": "idle",
    "active_turn_id": "t",
    "presence_source": "hook",
    "context_tokens": 1,
    "context_limit": 2,
    "resumable": True,
    "task_id": "t",
    "branch": "b",
}
FILTERS: dict[str, Any] = {
    "tagged_concepts": ["a"],
    "priority": "high",
    "sender_filter": ["@bob"],
    "in_reply_to_filter": [ID],
}
ROUTE: dict[str, Any] = {
    "url": "https://hooks.example.org/",
    "coalesce_window": 5,
    "daemon_socket_path": "/run/x",
    "wake_policy": "silent",
    "full_body": True,
}
CAMEL: dict[str, Any] = {
    "subscriptionId": ID,
    "trigger": "SENT_TO_ME",
    "filters": {"taggedConcepts": ["a"], "priority": "high", "senderFilter": ["@bob"], "inReplyToFilter": [ID]},
    "harnessTarget": "a2a-webhook",
    "harnessTargetMetadata": {"url": "https://hooks.example.org/", "coalesceWindow": 5, "daemonSocketPath": "/run/x"},
    "sinceLogId": 5,
    "epoch": "e",
    "mcpConnected": True,
}
GRANT = ("CAN_REPLY_TO", "@bob", "@alice")

# Every call with every argument, and the type that the server reads it with.
EVERY = [
    (calls.post_message("text", **MESSAGE), wire.PostMessage),
    (calls.get_message(ID), None),
    (calls.retract_message(ID, reason="r"), wire.RetractMessage),
    (calls.get_inbox(limit=5, max_tokens=10, after="x", state="all", of="@bob"), wire.InboxQuery),
    (calls.wait_for_mail(after="0", wait_seconds=3), wire.MailQuery),
    (calls.ack_messages([ID]), wire.MessageIds),
    (calls.archive_messages([ID]), wire.MessageIds),
    (calls.search("q", thread_id=ID, sender="@bob", limit=3), wire.SearchQuery),
    (
        calls.create_thread("t", type="workflow", members=["@bob"], coordinator="@bob", idempotency_key="k"),
        wire.CreateThread,
    ),
    (calls.list_threads(status="active", type="workflow", limit=1, after=ID), wire.ThreadsQuery),
    (calls.get_thread(ID), None),
    (calls.add_members(ID, ["@bob"]), wire.ChangeMembers),
    (calls.remove_members(ID, ["@bob"]), wire.ChangeMembers),
    (calls.change_status(ID, "closed", reason="r", escalation_owner="@bob", override=True), wire.ChangeStatus),
    (calls.read_thread(ID, since_seq=0, limit=1, max_tokens=1), wire.ReadQuery),
    (calls.ack_thread(ID, 3), wire.AckThread),
    (calls.summarize_thread(ID), None),
    (calls.heartbeat_session(**HEARTBEAT), wire.HeartbeatSession),
    (calls.end_session(ID), wire.EndSession),
    (calls.list_sessions(handle="@bob", ended=True, limit=3), wire.SessionsQuery),
    (calls.list_peers(), None),
    (
        calls.subscribe_wake(
            "SENT_TO_ME",
            filters=FILTERS,
            harness_target="none",
            harness_target_metadata=ROUTE,
            mcp_connected=True,
        ),
        wire.SubscribeWake,
    ),
    (calls.list_wake_subscriptions(handle="@bob", after=f"@bob/{ID}", limit=3), wire.WakeSubscriptionsQuery),
    (calls.get_wake_subscription(ID), None),
    (
        calls.update_wake_subscription(
            ID, trigger="SENT_TO_ME", filters=FILTERS, harness_target="none", harness_target_metadata=ROUTE
        ),
        wire.ChangeWake,
    ),
    (calls.unsubscribe_wake(ID), None),
    (calls.resume_wake_subscription(ID), None),
    (calls.rotate_wake_key(ID), None),
    (calls.manage_wake_subscription("subscribe", **CAMEL), wire.ManageWake),
    (calls.record_proof("pi", "extension", "1.0", [{"level": "D4", "result": "pass"}]), wire.RecordProof),
    (calls.list_proofs(), None),
    (
        calls.allow_activation(
            "@bob",
            "spawn",
            max_per_hour=2,
            concurrency=1,
            command=["agent", "{prompt}"],
            harness="codex",
            host="h",
            cwd="/w",
        ),
        wire.AllowActivation,
    ),
    (calls.get_mandate("@bob"), None),
    (calls.list_activations(handle="@bob", result="open", before=ID, limit=3), wire.ActivationsQuery),
    (calls.get_activation(ID), None),
    (calls.stop_activation(ID), wire.StopActivation),
    (calls.claim_activations("bridge-1", limit=3), wire.ClaimActivations),
    (
        calls.start_activation("bridge-1", ID, 1, 7, pid_started_at="2030-01-01T00:00:00Z", session=STARTED),
        wire.StartActivation,
    ),
    (
        calls.settle_activation(
            "bridge-1", ID, 1, "ended", reason="stopped", exit_status=0, output="o", session=STARTED
        ),
        wire.SettleActivation,
    ),
    (calls.list_agents(), None),
    (
        calls.add_agent(
            "@bob",
            roles=["x"],
            kind="human",
            display_name="B",
            token=False,
            token_seconds=5,
            idempotency_key="k",
        ),
        wire.AddAgent,
    ),
    (
        calls.change_agent(
            "@bob",
            roles=["x"],
            display_name="B",
            retired=True,
            quiet_hours={"from": "22:00", "until": "07:00", "time_zone": "UTC"},
            do_not_disturb_until=calls.CLEAR,
        ),
        wire.ChangeAgent,
    ),
    (
        calls.create_token("@bob", bridge="h", role="x", seconds=5, session_id="s", note="n", idempotency_key="k"),
        wire.CreateToken,
    ),
    (calls.attend_bridge(ID, "1", transports=["seat"], started=True), wire.AttendBridge),
    (calls.leave_bridge(ID), wire.LeaveBridge),
    (calls.list_bridge_sessions(), None),
    (calls.claim_rings(ID, limit=3), wire.ClaimRings),
    (calls.settle_ring(ID, ID, 1, "refused", reason="busy", detail="d"), wire.SettleRing),
    (calls.report_observations(ID, [{"type": "gone", "session_id": ID}]), wire.ReportObservations),
    (calls.announce_turn(ID, ID, turn_id="t", shown=[f"wl-{ID}"]), wire.AnnounceTurn),
    (calls.list_tokens(handle="@bob"), wire.TokensQuery),
    (calls.revoke_token(ID), None),
    (calls.put_grant(*GRANT), wire.PutGrant),
    (calls.remove_grant(*GRANT), wire.PutGrant),
    (calls.list_grants(), None),
    (calls.put_block("@bob", blocker="@alice"), wire.PutBlock),
    (calls.remove_block("@bob", blocker="@alice"), wire.PutBlock),
    (calls.list_blocks(), None),
    (calls.list_refusals(), None),
    (calls.whoami(), None),
    (calls.read_log(after="0", limit=3), wire.LogQuery),
    (calls.stream_events(after="0"), wire.EventsQuery),
    (calls.stream_wakes(events=["wake/digest"]), wire.WakesQuery),
    (calls.list_dead_letters(sender="@bob", open=False, limit=3), wire.DeadLettersQuery),
    (calls.redrive(ID), None),
    (
        calls.list_deliveries(handle="@bob", subscription_id=ID, outcome="failed", before=ID, limit=3),
        wire.DeliveriesQuery,
    ),
    (calls.get_delivery(ID), None),
    (calls.retry_delivery(ID), None),
    (calls.resync(ID, 5, epoch="e"), wire.Resync),
    (calls.list_workspaces(), None),
    (calls.add_workspace("w"), wire.AddWorkspace),
    (calls.prune(older_than_seconds=5, keep=3), wire.Prune),
    (calls.get_status(), None),
    (calls.get_readiness(), None),
]


def makers() -> dict[str, Any]:
    return {
        name: made
        for name, made in inspect.getmembers(calls, inspect.isfunction)
        if made.__annotations__.get("return") == "Call" and not name.startswith("_")
    }


@pytest.mark.parametrize(("call", "kind"), EVERY, ids=lambda value: value.target if isinstance(value, Call) else None)
def test_the_server_understands_every_field(call: Call, kind: type[msgspec.Struct] | None) -> None:
    sent = call.body if call.body is not None else dict(parse_qsl(urlsplit(call.target).query))
    if kind is None:
        assert not sent
        return
    read = msgspec.convert(sent, kind, strict=call.body is not None)
    names = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    assert all(getattr(read, names[name]) is not msgspec.UNSET for name in sent)


@pytest.mark.parametrize(("call", "kind"), EVERY, ids=lambda value: value.target if isinstance(value, Call) else None)
def test_no_field_of_a_request_is_out_of_reach(call: Call, kind: type[msgspec.Struct] | None) -> None:
    if kind is None:
        return
    claims = {"agent_id", "workspace_id", "sender", "from"} if kind is wire.PostMessage else set()
    claims |= {"agent_id", "workspace_id"} | ({"role"} if kind is wire.AddAgent else set())
    fields = {field.encode_name for field in msgspec.structs.fields(kind)} - claims - {"schema_version"}
    assert set(call.body if call.body is not None else call.query) >= fields


def test_every_call_is_in_the_table_above() -> None:
    assert len(EVERY) == len(makers())


def test_the_client_has_a_method_for_every_call() -> None:
    missing = {name for name in makers() if not hasattr(Client, name)}
    # `events` and `wakes` are better, and probes are for the doctor
    assert missing == {"stream_events", "stream_wakes", "get_readiness"}
    for name, made in makers().items():
        if name not in missing:
            assert getattr(Client, name).__doc__ == made.__doc__


async def test_the_server_offers_every_call_and_the_client_every_operation(server: ServerProcess) -> None:
    async with Client(socket=server.socket) as client:
        document = json.loads(await client.send(Call("GET", "/openapi.json")))
    offered = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path))
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("get", "post", "put", "patch", "delete")
    }
    known = {(call.method, re.sub(rf"{ID}|(?<=agents/)@bob", "{}", call.path)) for call, _ in EVERY}
    assert known <= offered
    assert offered - known <= {("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/openapi.json")}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (calls.KINDS, wire.MessageKind),
        (calls.PRIORITIES, wire.Priority),
        (calls.WAKE_POLICIES, wire.WakePolicy),
        (calls.THREAD_TYPES, wire.ThreadType),
        (calls.THREAD_STATUSES, wire.ThreadStatus),
        (calls.SCOPES, wire.Scope),
        (calls.PRESENCES, wire.Presence),
        (calls.WAKE_MODES, wire.WakeMode),
        (calls.WAKE_TRIGGERS, wire.WakeTrigger),
        (calls.HARNESS_TARGETS, wire.HarnessTarget),
    ],
)
def test_the_words_are_those_of_the_wire(ours: tuple[str, ...], theirs: object) -> None:
    assert ours == get_args(theirs)


@given(st.text())
def test_text_is_quoted_as_the_standard_library_does_it(text: str) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        return
    assert calls.quote(text) == quote(text, safe="@")


def test_a_key_is_added_once_and_only_where_it_belongs() -> None:
    keyed = calls.post_message("x", to="@bob").with_key("k")
    assert keyed.body is not None
    assert (keyed.body["idempotency_key"], keyed.repeat) == ("k", calls.SAFE)
    again = calls.post_message("x", to="@bob", idempotency_key="mine").with_key("k")
    assert again.body is not None
    assert again.body["idempotency_key"] == "mine"
    assert calls.add_workspace("w").with_key("k").body == {"name": "w"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidArgument), (403, Forbidden), (404, NotFound), (418, InvalidArgument), (502, Unavailable)],
)
def test_an_answer_becomes_the_error_it_stands_for(status: int, kind: type[Exception]) -> None:
    said = {"code": "SOME_CODE", "message": "m", "hint": "h", "details": {"code": 1, "hint": 2}, "retryable": False}
    error = calls.refusal(status, {"error": said, "request_id": "r", "occurred_at": "2030-01-01T00:00:00Z"})
    assert type(error) is kind
    assert (error.code, error.message, error.hint) == ("SOME_CODE", "m", "h")
    assert error.details == {"code": 1, "hint": 2, "request_id": "r"}


def test_describing_a_call_imports_nothing_heavy() -> None:
    probe = "import sys, wakeline.calls; print({'msgspec', 'typing', 'wakeline.errors'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
