"""Mail: `inbox`, `read`, `ack`, `archive`, `retract` and `search`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli import views
from wakeline.faces.cli.arguments import handle, usage_error
from wakeline.faces.cli.commands import OK, Command
from wakeline.faces.cli.text import count, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from wakeline.faces.cli.context import Context


def _inbox_arguments(parser: ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_const", const="all", dest="state", help="read mail too")
    which.add_argument("--archived", action="store_const", const="archived", dest="state", help="what was put away")
    add = parser.add_argument
    add("--limit", type=int, metavar="N", help="at most so many messages (default: 50)")
    add("--max-tokens", type=int, metavar="N", help="at most so many tokens of text")
    add("--after", metavar="CURSOR", help="go on where an earlier page ended")
    add("--of", type=handle, metavar="@NAME", help="somebody else's inbox; needs the grant CAN_READ_INBOX_OF")


def inbox(context: Context) -> int:
    given = context.arguments
    call = calls.get_inbox(
        limit=given.limit, max_tokens=given.max_tokens, after=given.after, state=given.state, of=given.of
    )
    return context.show(context.call(call), _inbox_view, "messages")


def _inbox_view(answer: dict[str, Any]) -> str:
    foot = f"{answer['unread']} unread" if answer["unread"] else "nothing unread"
    if answer["has_more"]:
        foot += f"; more with --after {one_line(str(answer['next']))}"
    shown = views.messages(answer["messages"], preview=True)
    return f"{shown}\n\n{foot}" if shown else foot


def _read_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="a thread, or else a message")
    add("--message", action="store_true", help="it is a message: do not look for a thread")
    add("--since-seq", type=int, metavar="N", help="only what comes after this number (default: 0)")
    add("--limit", type=int, metavar="N", help="at most so many messages (default: 50)")
    add("--max-tokens", type=int, metavar="N", help="at most so many tokens of text")


def read(context: Context) -> int:
    """A thread first, and a message of that id if there is no such thread."""
    given = context.arguments
    if given.message:
        return _read_message(context)
    call = calls.read_thread(given.id, since_seq=given.since_seq, limit=given.limit, max_tokens=given.max_tokens)
    try:
        answer = context.call(call)
    except Exception as error:
        if getattr(error, "code", None) != "THREAD_NOT_FOUND":
            raise
        return _read_message(context)
    return context.show(answer, _thread_view, "messages")


def _read_message(context: Context) -> int:
    return context.show(context.call(calls.get_message(context.arguments.id)), views.message_with_receipts)


def _thread_view(answer: dict[str, Any]) -> str:
    shown = views.messages(answer["messages"]) or "no messages"
    return f"{shown}\n\nmore with --since-seq {answer['next_seq']}" if answer["has_more"] else shown


def _ack_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("message_ids", nargs="*", metavar="MESSAGE", help="the messages")
    add("--thread", metavar="ID", help="instead of single messages: a thread …")
    add("--seq", type=int, metavar="N", help="… up to this number")


def ack(context: Context) -> int:
    given = context.arguments
    _check_ack(given)
    if given.thread is None:
        return context.show(context.call(calls.ack_messages(given.message_ids)), _acked)
    return context.show(context.call(calls.ack_thread(given.thread, given.seq)), _thread_acked)


def _check_ack(given: Namespace) -> None:
    by_thread = given.thread is not None and given.seq is not None
    if bool(given.message_ids) == by_thread or (given.thread is None) != (given.seq is None):
        raise usage_error("Name messages, or a thread together with --seq.", "See 'wakeline ack --help'.")


def _acked(answer: dict[str, Any]) -> str:
    return f"{count(answer['acked'], 'message')} read, {answer['unread']} unread"


def _thread_acked(answer: dict[str, Any]) -> str:
    return f"read up to #{answer['last_read_seq']}, {answer['unread']} unread"


def _archive_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("message_ids", nargs="+", metavar="MESSAGE", help="the messages")


def archive(context: Context) -> int:
    answer = context.call(calls.archive_messages(context.arguments.message_ids))
    return context.show(answer, lambda said: f"{count(said['archived'], 'message')} put away, {said['unread']} unread")


def _retract_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("message_id", metavar="MESSAGE", help="the message")
    parser.add_argument("--reason", help="why")


def retract(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.retract_message(given.message_id, reason=given.reason))
    return context.show(answer, lambda said: f"retracted {said['message_id']}")


def _search_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="+", metavar="WORD", help='words that must all occur; a "phrase in quotes" must occur as it is')
    add("--thread", metavar="ID", help="only in this thread")
    add("--from", type=handle, metavar="@NAME", dest="sender", help="only what this sender wrote")
    add("--limit", type=int, metavar="N", help="at most so many messages (default: 20)")


def search(context: Context) -> int:
    given = context.arguments
    call = calls.search(" ".join(given.words), thread_id=given.thread, sender=given.sender, limit=given.limit)
    found = context.call(call)
    context.show(found, lambda said: views.messages(said["messages"], preview=True) or "nothing found", "messages")
    return OK


_ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
COMMANDS = {
    "inbox": Command(
        inbox,
        arguments=_inbox_arguments,
        examples=(
            "wakeline inbox",
            "wakeline inbox --max-tokens 800 -o toon",
            "wakeline inbox --all --limit 10",
            "wakeline inbox --as @bob",
        ),
    ),
    "read": Command(
        read,
        arguments=_read_arguments,
        usage="THREAD|MESSAGE",
        examples=(
            f"wakeline read {_ID}",
            f"wakeline read {_ID} --since-seq 40 --limit 20",
            f"wakeline read --message {_ID} -o json",
        ),
    ),
    "ack": Command(
        ack,
        arguments=_ack_arguments,
        usage="MESSAGE… | --thread ID --seq N",
        examples=(
            f"wakeline ack {_ID}",
            f"wakeline ack --thread {_ID} --seq 12",
        ),
    ),
    "archive": Command(
        archive,
        arguments=_archive_arguments,
        usage="MESSAGE…",
        examples=(f"wakeline archive {_ID}",),
    ),
    "retract": Command(
        retract,
        arguments=_retract_arguments,
        usage="MESSAGE",
        examples=(f"wakeline retract {_ID} --reason 'wrong branch'",),
    ),
    "search": Command(
        search,
        arguments=_search_arguments,
        usage="WORD…",
        examples=(
            "wakeline search deploy staging",
            "wakeline search '\"merge freeze\"' --from @bob",
        ),
    ),
}
