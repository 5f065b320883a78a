"""Every tool in one table: its published text, what it takes, and the call that it becomes.

To add a tool, add a row.  `call` makes a request of the HTTP face (`wakeline.calls`) from the arguments; both
transports send it, one inside the process and one over a socket, so that a tool is checked, performed and refused as
HTTP is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from wakeline import calls
from wakeline.calls import Call
from wakeline.errors import InvalidArgument
from wakeline.faces.mcp import arguments
from wakeline.faces.mcp.arguments import AckRead, Arguments, PostMessage, ReadMessages


class Tool(msgspec.Struct, frozen=True):
    """`quotes`: the answer carries words of others.  `slow`: it may wait.  `reads`: it changes nothing.

    `posts`: it writes into a thread, and what is answered there is for the session that used it.
    """

    name: str
    text: str
    takes: type[Arguments]
    call: Callable[[Any], Call]
    quotes: bool = False
    slow: bool = False
    reads: bool = False
    posts: bool = False


_MESSAGE = calls.post_message("")


def _as(make: Callable[..., Call]) -> Callable[[Arguments], Call]:
    """The call whose parameters are the tool's arguments."""
    return lambda given: make(**given.given())


def _post(given: PostMessage) -> Call:
    """The same for the one that counts, in fewer steps."""
    return Call(_MESSAGE.method, _MESSAGE.path, body=msgspec.to_builtins(given), repeat=_MESSAGE.repeat)


def _read(given: ReadMessages) -> Call:
    if given.thread_id is None:
        _refuse(given, "since_seq", "thread_id")
        return calls.get_inbox(limit=given.limit, max_tokens=given.max_tokens, after=given.after, state=given.state)
    for name in ("after", "state"):
        _refuse(given, name, "no thread_id")
    return calls.read_thread(given.thread_id, since_seq=given.since_seq, limit=given.limit, max_tokens=given.max_tokens)


def _ack(given: AckRead) -> Call:
    if given.message_ids is not None and given.thread_id is None and given.last_read_seq is None:
        return calls.ack_messages(given.message_ids)
    if given.message_ids is None and given.thread_id is not None and given.last_read_seq is not None:
        return calls.ack_thread(given.thread_id, given.last_read_seq)
    raise InvalidArgument(
        "INVALID_ARGUMENT", "It is not clear what was read.", "Give message_ids, or thread_id with last_read_seq."
    )


def _refuse(given: Arguments, name: str, needs: str) -> None:
    if getattr(given, name) is not None:
        raise InvalidArgument("INVALID_ARGUMENT", f"'{name}' needs {needs}.", "Leave it out.")


TOOLS: tuple[Tool, ...] = (
    Tool(
        "post_message",
        "Send a message to agents or the human; it is kept until they read it. Give to, thread_id or in_reply_to.",
        PostMessage,
        _post,
        posts=True,
    ),
    Tool(
        "ask",
        "Send a message and wait for its first reply. Without one in time, repeat with the same idempotency_key, or go "
        "on: the reply comes to your inbox.",
        arguments.Ask,
        _as(calls.post_message),
        posts=True,
        quotes=True,
        slow=True,
    ),
    Tool(
        "read_messages",
        "Read your inbox, or a thread from since_seq on. Reading does not acknowledge.",
        arguments.ReadMessages,
        _read,
        quotes=True,
    ),
    Tool(
        "ack_read",
        "Mark as read: message_ids, or a thread up to last_read_seq.",
        arguments.AckRead,
        _ack,
    ),
    Tool(
        "wait",
        "Wait until you have unread mail, or some after a position.",
        arguments.Wait,
        _as(calls.wait_for_mail),
        quotes=True,
        slow=True,
        reads=True,
    ),
    Tool("search", "Search messages that you can see.", arguments.Search, _as(calls.search), quotes=True, reads=True),
    Tool(
        "create_thread",
        "Open a thread with members (@handles).",
        arguments.CreateThread,
        _as(calls.create_thread),
    ),
    Tool("get_thread", "A thread's state and members.", arguments.OneThread, _as(calls.get_thread), reads=True),
    Tool(
        "update_thread_status",
        "Change a thread's status; override needs a coordinator or human, and a reason.",
        arguments.UpdateThreadStatus,
        _as(calls.change_status),
    ),
    Tool(
        "summarize_thread",
        "A thread's participants, open questions and decisions.",
        arguments.OneThread,
        _as(calls.summarize_thread),
        quotes=True,
        reads=True,
    ),
    Tool(
        "list_peers",
        "Who is there, with presence and unread mail.",
        arguments.Nothing,
        _as(calls.list_peers),
        reads=True,
    ),
    Tool(
        "heartbeat_session",
        "Say that your session is there and how it is; hear of unread mail.",
        arguments.HeartbeatSession,
        _as(calls.heartbeat_session),
        quotes=True,
    ),
    Tool(
        "manage_wake_subscription",
        "Be woken by what happens: subscribe, or manage subscriptions. Without harnessTarget the best route is taken.",
        arguments.ManageWakeSubscription,
        _as(calls.manage_wake_subscription),
    ),
)

BY_NAME: dict[str, Tool] = {tool.name: tool for tool in TOOLS}
