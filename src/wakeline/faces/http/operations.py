"""Every HTTP operation in one table: what it takes, what it answers, which service does it.

The application dispatches by this table and the OpenAPI document is generated from it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from wakeline import wire
from wakeline.faces.http.activations import ACTIVATIONS
from wakeline.faces.http.operation import Call, Operation

# What a path parameter must look like; anything else is not found.
PATH_PARAMETERS: dict[str, Any] = {
    "message_id": wire.Id,
    "thread_id": wire.Id,
    "dead_letter_id": wire.Id,
    "delivery_id": wire.Id,
    "activation_id": wire.Id,
    "subscription_id": wire.Id,
    "handle": wire.Handle,
    "jti": wire.TokenId,
    "session_id": wire.SessionId,
}


def _post_message(call: Call) -> Awaitable[wire.Posted]:
    return call.services.messages.post(call.caller, call.body)


async def _get_message(call: Call) -> wire.MessageView:
    return await call.services.messages.get(call.caller, call.path["message_id"])


async def _retract(call: Call) -> wire.MessageView:
    return await call.services.messages.retract(call.caller, call.path["message_id"], call.body)


async def _inbox(call: Call) -> wire.Inbox:
    return await call.services.inboxes.read(call.caller, call.query)


async def _wait_for_mail(call: Call) -> wire.Mail:
    return await call.services.inboxes.wait(call.caller, call.query)


async def _ack_inbox(call: Call) -> wire.Acked:
    return await call.services.inboxes.ack(call.caller, call.body)


async def _archive(call: Call) -> wire.Archived:
    return await call.services.inboxes.archive(call.caller, call.body)


async def _create_thread(call: Call) -> wire.ThreadView:
    return await call.services.threads.create(call.caller, call.body)


async def _list_threads(call: Call) -> wire.Threads:
    return await call.services.threads.list(call.caller, call.query)


async def _get_thread(call: Call) -> wire.ThreadView:
    return await call.services.threads.get(call.caller, call.path["thread_id"])


async def _add_members(call: Call) -> wire.ThreadView:
    return await call.services.threads.add_members(call.caller, call.path["thread_id"], call.body)


async def _remove_members(call: Call) -> wire.ThreadView:
    return await call.services.threads.remove_members(call.caller, call.path["thread_id"], call.body)


async def _change_status(call: Call) -> wire.ThreadView:
    return await call.services.threads.change_status(call.caller, call.path["thread_id"], call.body)


async def _read_thread(call: Call) -> wire.ThreadMessages:
    return await call.services.threads.read(call.caller, call.path["thread_id"], call.query)


async def _ack_thread(call: Call) -> wire.ThreadAcked:
    return await call.services.threads.ack(call.caller, call.path["thread_id"], call.body)


async def _summarise(call: Call) -> wire.ThreadSummary:
    return await call.services.threads.summarise(call.caller, call.path["thread_id"])


async def _search(call: Call) -> wire.Found:
    return await call.services.logs.search(call.caller, call.query)


async def _log(call: Call) -> wire.LogPage:
    return await call.services.logs.page(call.caller, call.query)


async def _list_agents(call: Call) -> wire.Agents:
    return await call.services.principals.list(call.caller)


async def _add_agent(call: Call) -> wire.AgentAdded:
    return await call.services.principals.add(call.caller, call.body)


async def _change_agent(call: Call) -> wire.AgentView:
    return await call.services.principals.change(call.caller, call.path["handle"], call.body)


async def _heartbeat_session(call: Call) -> wire.Attended:
    return await call.services.sessions.heartbeat(call.caller, call.body)


async def _end_session(call: Call) -> wire.SessionView:
    return await call.services.sessions.end(call.caller, call.path["session_id"], call.body)


async def _list_sessions(call: Call) -> wire.Sessions:
    return await call.services.sessions.list(call.caller, call.query)


async def _list_peers(call: Call) -> wire.Peers:
    return await call.services.sessions.peers(call.caller)


async def _create_token(call: Call) -> wire.TokenCreated:
    return await call.services.principals.create_token(call.caller, call.body)


async def _list_tokens(call: Call) -> wire.TokenList:
    return await call.services.principals.list_tokens(call.caller, call.query)


async def _revoke_token(call: Call) -> wire.TokenView:
    return await call.services.principals.revoke_token(call.caller, call.path["jti"])


async def _add_grant(call: Call) -> wire.GrantView:
    return await call.services.principals.change_grant(call.caller, call.body, granted=True)


async def _remove_grant(call: Call) -> wire.GrantView:
    return await call.services.principals.change_grant(call.caller, call.body, granted=False)


async def _list_grants(call: Call) -> wire.Grants:
    return await call.services.principals.list_grants(call.caller)


async def _add_block(call: Call) -> wire.BlockView:
    return await call.services.principals.change_block(call.caller, call.body, blocked=True)


async def _remove_block(call: Call) -> wire.BlockView:
    return await call.services.principals.change_block(call.caller, call.body, blocked=False)


async def _list_blocks(call: Call) -> wire.Blocks:
    return await call.services.principals.list_blocks(call.caller)


async def _list_refusals(call: Call) -> wire.Refusals:
    return await call.services.principals.list_refusals(call.caller)


async def _list_dead_letters(call: Call) -> wire.DeadLetters:
    return await call.services.dead_letters.list(call.caller, call.query)


async def _redrive(call: Call) -> wire.Posted:
    return await call.services.dead_letters.redrive(call.caller, call.path["dead_letter_id"])


async def _list_deliveries(call: Call) -> wire.Deliveries:
    return await call.services.deliveries.list(call.caller, call.query)


async def _get_delivery(call: Call) -> wire.DeliveryView:
    return await call.services.deliveries.get(call.caller, call.path["delivery_id"])


async def _retry_delivery(call: Call) -> wire.DeliveryView:
    return await call.services.deliveries.retry(call.caller, call.path["delivery_id"])


async def _resync(call: Call) -> wire.Resynced:
    return await call.services.deliveries.resync(call.caller, call.path["subscription_id"], call.body)


async def _subscribe_wake(call: Call) -> wire.WakeSubscribed:
    return await call.services.subscriptions.subscribe(call.caller, call.body)


async def _list_wake_subscriptions(call: Call) -> wire.WakeSubscriptions:
    return await call.services.subscriptions.list(call.caller, call.query)


async def _get_wake_subscription(call: Call) -> wire.WakeSubscriptionView:
    return await call.services.subscriptions.get(call.caller, call.path["subscription_id"])


async def _update_wake_subscription(call: Call) -> wire.WakeSubscriptionView:
    return await call.services.subscriptions.change(call.caller, call.path["subscription_id"], call.body)


async def _unsubscribe_wake(call: Call) -> wire.WakeUnsubscribed:
    return await call.services.subscriptions.unsubscribe(call.caller, call.path["subscription_id"])


async def _resume_wake_subscription(call: Call) -> wire.WakeSubscriptionView:
    return await call.services.subscriptions.resume(call.caller, call.path["subscription_id"])


async def _rotate_wake_key(call: Call) -> wire.WakeKey:
    return await call.services.subscriptions.rotate_key(call.caller, call.path["subscription_id"])


async def _manage_wake_subscription(call: Call) -> wire.ManagedWake:
    return await call.services.wake_protocol.manage(call.caller, call.body)


async def _record_proof(call: Call) -> wire.ProofView:
    return await call.services.proofs.record(call.caller, call.body)


async def _list_proofs(call: Call) -> wire.Proofs:
    return await call.services.proofs.list(call.caller)


async def _attend_bridge(call: Call) -> wire.BridgeAttended:
    return await call.services.bridges.attend(call.caller, call.body)


async def _leave_bridge(call: Call) -> wire.BridgeLeft:
    return await call.services.bridges.leave(call.caller, call.body)


async def _bridge_sessions(call: Call) -> wire.Sessions:
    return await call.services.bridges.sessions(call.caller)


async def _claim_rings(call: Call) -> wire.Rings:
    return await call.services.bridges.claim(call.caller, call.body)


async def _settle_ring(call: Call) -> wire.RingSettled:
    return await call.services.bridges.settle(call.caller, call.body)


async def _report_observations(call: Call) -> wire.Reported:
    return await call.services.bridges.report(call.caller, call.body)


async def _announce_turn(call: Call) -> wire.Announced:
    return await call.services.bridges.announce(call.caller, call.body)


async def _list_workspaces(call: Call) -> wire.Workspaces:
    return await call.services.operations.workspaces(call.caller)


async def _add_workspace(call: Call) -> wire.WorkspaceView:
    return await call.services.operations.add_workspace(call.caller, call.body)


async def _prune(call: Call) -> wire.Pruned:
    return await call.services.operations.prune(call.caller, call.body)


async def _who_am_i(call: Call) -> wire.WhoAmI:
    return call.services.operations.who_am_i(call.caller)


async def _status(call: Call) -> wire.StatusAnswer:
    return await call.services.operations.status(call.caller)


_MESSAGE = "/v1/messages/{message_id}"
_THREAD = "/v1/threads/{thread_id}"
_WAKE = "/v1/wake-subscriptions/{subscription_id}"

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", "/v1/messages", "post_message", "Post a message; with wait_seconds, wait for the first reply",
              _post_message, wire.Posted, body=wire.PostMessage, status=201),
    Operation("GET", _MESSAGE, "get_message", "One message, with its receipts for who sent it", _get_message,
              wire.MessageView),
    Operation("POST", f"{_MESSAGE}/retract", "retract_message", "Take a message back before anybody has read it",
              _retract, wire.MessageView, body=wire.RetractMessage),
    Operation("GET", "/v1/inbox", "read_inbox", "Your mail, most urgent first, within a token budget", _inbox,
              wire.Inbox, query=wire.InboxQuery),
    Operation("GET", "/v1/inbox/wait", "wait_for_mail", "Unread mail after a position; with wait_seconds, wait",
              _wait_for_mail, wire.Mail, query=wire.MailQuery),
    Operation("POST", "/v1/inbox/ack", "ack_messages", "Mark messages as read", _ack_inbox, wire.Acked,
              body=wire.MessageIds),
    Operation("POST", "/v1/inbox/archive", "archive_messages", "Put messages away", _archive, wire.Archived,
              body=wire.MessageIds),
    Operation("POST", "/v1/threads", "create_thread", "Open a thread", _create_thread, wire.ThreadView,
              body=wire.CreateThread, status=201),
    Operation("GET", "/v1/threads", "list_threads", "Threads that you can see, newest first", _list_threads,
              wire.Threads, query=wire.ThreadsQuery),
    Operation("GET", _THREAD, "get_thread", "One thread with its members", _get_thread, wire.ThreadView),
    Operation("POST", f"{_THREAD}/members", "add_members", "Add members to a thread", _add_members, wire.ThreadView,
              body=wire.ChangeMembers),
    Operation("DELETE", f"{_THREAD}/members", "remove_members", "Remove members from a thread, or leave it",
              _remove_members, wire.ThreadView, body=wire.ChangeMembers),
    Operation("POST", f"{_THREAD}/status", "change_thread_status", "Move a thread to another state", _change_status,
              wire.ThreadView, body=wire.ChangeStatus),
    Operation("GET", f"{_THREAD}/messages", "read_thread", "Messages of a thread after a seq, within a token budget",
              _read_thread, wire.ThreadMessages, query=wire.ReadQuery),
    Operation("POST", f"{_THREAD}/ack", "ack_thread", "Mark a thread as read up to a seq", _ack_thread,
              wire.ThreadAcked, body=wire.AckThread),
    Operation("GET", f"{_THREAD}/summary", "summarise_thread", "Participants, open questions, decisions, counts",
              _summarise, wire.ThreadSummary),
    Operation("GET", "/v1/search", "search", "Full-text search in what you can see", _search, wire.Found,
              query=wire.SearchQuery),
    Operation("GET", "/v1/log", "read_log", "A page of the log, as far as you may see it", _log, wire.LogPage,
              query=wire.LogQuery),
    Operation("GET", "/v1/agents", "list_agents", "Who exists in this workspace", _list_agents, wire.Agents),
    Operation("POST", "/v1/agents", "add_agent", "Add an agent and print its token once", _add_agent, wire.AgentAdded,
              body=wire.AddAgent, status=201),
    Operation("PATCH", "/v1/agents/{handle}", "change_agent", "Change an agent, or when to leave it alone",
              _change_agent, wire.AgentView, body=wire.ChangeAgent),
    Operation("POST", "/v1/sessions/heartbeat", "heartbeat_session",
              "Say that a session is there and how it is; hear of mail", _heartbeat_session, wire.Attended,
              body=wire.HeartbeatSession),
    Operation("POST", "/v1/sessions/{session_id}/end", "end_session", "Say that a session has ended", _end_session,
              wire.SessionView, body=wire.EndSession),
    Operation("GET", "/v1/sessions", "list_sessions", "Your sessions; those of all for who reads everything",
              _list_sessions, wire.Sessions, query=wire.SessionsQuery),
    Operation("GET", "/v1/peers", "list_peers", "Who is there: sessions, presence, levels, unread mail", _list_peers,
              wire.Peers),
    Operation("POST", "/v1/tokens", "create_token", "Issue a token", _create_token, wire.TokenCreated,
              body=wire.CreateToken, status=201),
    Operation("GET", "/v1/tokens", "list_tokens", "Tokens that were issued, never their text", _list_tokens,
              wire.TokenList, query=wire.TokensQuery),
    Operation("DELETE", "/v1/tokens/{jti}", "revoke_token", "Revoke a token", _revoke_token, wire.TokenView),
    Operation("POST", "/v1/grants", "add_grant", "Grant a permission", _add_grant, wire.GrantView,
              body=wire.PutGrant, status=201),
    Operation("GET", "/v1/grants", "list_grants", "Grants that concern you", _list_grants, wire.Grants),
    Operation("DELETE", "/v1/grants", "remove_grant", "Take a grant back", _remove_grant, wire.GrantView,
              body=wire.PutGrant),
    Operation("POST", "/v1/blocks", "add_block", "Block a principal", _add_block, wire.BlockView, body=wire.PutBlock,
              status=201),
    Operation("GET", "/v1/blocks", "list_blocks", "Blocks that you have set", _list_blocks, wire.Blocks),
    Operation("DELETE", "/v1/blocks", "remove_block", "Lift a block", _remove_block, wire.BlockView,
              body=wire.PutBlock),
    Operation("GET", "/v1/refusals", "list_refusals", "What policy refused, per principal, rule and minute",
              _list_refusals, wire.Refusals),
    Operation("GET", "/v1/dead-letters", "list_dead_letters", "What could not be brought anywhere",
              _list_dead_letters, wire.DeadLetters, query=wire.DeadLettersQuery),
    Operation("POST", "/v1/dead-letters/{dead_letter_id}/redrive", "redrive_dead_letter", "Send a dead letter again",
              _redrive, wire.Posted, status=201),
    Operation("GET", "/v1/deliveries", "list_deliveries", "Wakes that were brought out, newest first",
              _list_deliveries, wire.Deliveries, query=wire.DeliveriesQuery),
    Operation("GET", "/v1/deliveries/{delivery_id}", "get_delivery", "One delivery with every step and its body",
              _get_delivery, wire.DeliveryView),
    Operation("POST", "/v1/deliveries/{delivery_id}/retry", "retry_delivery",
              "Send again what did not arrive, byte by byte", _retry_delivery, wire.DeliveryView, status=201),
    Operation("POST", "/v1/wake-subscriptions/{subscription_id}/resync", "resync_wake_subscription",
              "Replay what is unread since a log id, as one digest", _resync, wire.Resynced, body=wire.Resync),
    Operation("POST", "/v1/wake-subscriptions", "subscribe_wake",
              "Be woken by what happens; 200 when the same route exists already", _subscribe_wake,
              wire.WakeSubscribed, body=wire.SubscribeWake, status=201, once=True),
    Operation("GET", "/v1/wake-subscriptions", "list_wake_subscriptions", "Your wake subscriptions; a human sees all",
              _list_wake_subscriptions, wire.WakeSubscriptions, query=wire.WakeSubscriptionsQuery),
    Operation("GET", _WAKE, "get_wake_subscription", "One wake subscription, with how it is and what it did",
              _get_wake_subscription, wire.WakeSubscriptionView),
    Operation("PATCH", _WAKE, "update_wake_subscription", "Change what wakes you, or by which route",
              _update_wake_subscription, wire.WakeSubscriptionView, body=wire.ChangeWake),
    Operation("DELETE", _WAKE, "unsubscribe_wake", "Remove a wake subscription", _unsubscribe_wake,
              wire.WakeUnsubscribed),
    Operation("POST", f"{_WAKE}/resume", "resume_wake_subscription", "Try a degraded route again",
              _resume_wake_subscription, wire.WakeSubscriptionView),
    Operation("POST", f"{_WAKE}/rotate-key", "rotate_wake_key", "A new signing key, shown once; the old one overlaps",
              _rotate_wake_key, wire.WakeKey),
    Operation("POST", "/v1/manage-wake-subscription", "manage_wake_subscription",
              "All of it through one call, spelled as the wake protocol does", _manage_wake_subscription,
              wire.ManagedWake, body=wire.ManageWake),
    Operation("POST", "/v1/proofs", "record_proof", "Keep what a probe of a harness found; routing goes by it",
              _record_proof, wire.ProofView, body=wire.RecordProof),
    Operation("GET", "/v1/proofs", "list_proofs", "What was proven of ways into harnesses", _list_proofs, wire.Proofs),
    Operation("POST", "/v1/bridge/attend", "attend_bridge", "Take or renew the lease on the bridge's host",
              _attend_bridge, wire.BridgeAttended, body=wire.AttendBridge, bridge=True),
    Operation("POST", "/v1/bridge/leave", "leave_bridge", "Give the lease back", _leave_bridge, wire.BridgeLeft,
              body=wire.LeaveBridge, bridge=True),
    Operation("GET", "/v1/bridge/sessions", "list_bridge_sessions", "The sessions of the bridge's host",
              _bridge_sessions, wire.Sessions, bridge=True),
    Operation("POST", "/v1/bridge/claim", "claim_rings", "Take up what is to be rung on the bridge's host",
              _claim_rings, wire.Rings, body=wire.ClaimRings, bridge=True),
    Operation("POST", "/v1/bridge/settle", "settle_ring", "Say what came of a ring, with its fence", _settle_ring,
              wire.RingSettled, body=wire.SettleRing, bridge=True),
    Operation("POST", "/v1/bridge/report", "report_observations", "Say what was seen of the host's sessions",
              _report_observations, wire.Reported, body=wire.ReportObservations, bridge=True),
    Operation("POST", "/v1/bridge/announce", "announce_turn", "What to tell a session in the turn that it begins",
              _announce_turn, wire.Announced, body=wire.AnnounceTurn, bridge=True),
    *ACTIVATIONS,
    Operation("GET", "/v1/workspaces", "list_workspaces", "Workspaces that you can see", _list_workspaces,
              wire.Workspaces),
    Operation("POST", "/v1/workspaces", "add_workspace", "Add a workspace", _add_workspace, wire.WorkspaceView,
              body=wire.AddWorkspace, status=201),
    Operation("POST", "/v1/prune", "prune_log", "Drop old log rows and sessions", _prune, wire.Pruned, body=wire.Prune),
    Operation("GET", "/v1/whoami", "who_am_i", "Whom this server takes you for", _who_am_i, wire.WhoAmI),
    Operation("GET", "/v1/status", "status", "How the server and your workspace are", _status, wire.StatusAnswer),
)
# fmt: on
