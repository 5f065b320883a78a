"""Conversations: `thread create|list|show|status|members|summary`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli import views
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context


def _create_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("title", metavar="TITLE", help="what it is about")
    add("--member", type=handle, action="append", metavar="@NAME", dest="members", help="a member; may be repeated")
    add("--type", choices=calls.THREAD_TYPES, help="what it is (default: conversation)")
    add("--coordinator", type=handle, metavar="@NAME", help="who leads a workflow")
    add("--key", help="an idempotency key: the same key and thread again is the same thread")


def create(context: Context) -> int:
    given = context.arguments
    call = calls.create_thread(
        given.title,
        type=given.type,
        members=given.members,
        coordinator=given.coordinator,
        idempotency_key=given.key,
    )
    return context.show(context.call(call), lambda said: f"opened thread {said['thread_id']}")


def _list_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--status", choices=calls.THREAD_STATUSES, help="only these")
    add("--type", choices=calls.THREAD_TYPES, help="only these")
    add("--limit", type=int, metavar="N", help="at most so many (default: 50)")
    add("--after", metavar="ID", help="go on where an earlier page ended")


def list_all(context: Context) -> int:
    given = context.arguments
    call = calls.list_threads(status=given.status, type=given.type, limit=given.limit, after=given.after)
    return context.show(context.call(call), _list_view, "threads")


def _list_view(answer: dict[str, Any]) -> str:
    if not answer["threads"]:
        return "no threads"
    more = f"\n\nmore with --after {one_line(str(answer['next']))}" if answer["has_more"] else ""
    return views.threads(answer["threads"]) + more


def _thread_argument(parser: ArgumentParser) -> None:
    parser.add_argument("thread", metavar="THREAD", help="the thread's id")


def show(context: Context) -> int:
    return context.show(context.call(calls.get_thread(context.arguments.thread)), views.thread)


def summary(context: Context) -> int:
    return context.show(context.call(calls.summarize_thread(context.arguments.thread)), views.summary)


def _status_arguments(parser: ArgumentParser) -> None:
    _thread_argument(parser)
    add = parser.add_argument
    add("status", choices=calls.THREAD_STATUSES, metavar="STATUS", help=", ".join(calls.THREAD_STATUSES))
    add("--reason", help="why; an override needs one")
    add("--escalation-owner", type=handle, metavar="@NAME", help="when blocking: who alone may unblock it")
    add("--override", action="store_true", help="as a coordinator or human, set a rule aside; the log keeps it")
    add("--yes", action="store_true", help="answer the question that an override asks; only on a terminal")


def status(context: Context) -> int:
    given = context.arguments
    context.endpoint()
    if given.override and context.is_operator:
        from wakeline.faces.cli.confirm import confirm

        confirm(f"Override the rules and make thread {one_line(given.thread)} {given.status}?", yes=given.yes)
    call = calls.change_status(
        given.thread,
        given.status,
        reason=given.reason,
        escalation_owner=given.escalation_owner,
        override=given.override or None,
    )
    return context.show(context.call(call), lambda said: f"thread {said['thread_id']} is {said['status']}")


def _members_arguments(parser: ArgumentParser) -> None:
    _thread_argument(parser)
    add = parser.add_argument
    add("--add", type=handle, action="append", metavar="@NAME", help="add a member; may be repeated")
    add("--remove", type=handle, action="append", metavar="@NAME", help="remove a member; may be repeated")


def members(context: Context) -> int:
    given = context.arguments
    if given.add:
        context.call(calls.add_members(given.thread, given.add))
    if given.remove:
        context.call(calls.remove_members(given.thread, given.remove))
    return context.show(context.call(calls.get_thread(given.thread)), views.thread, "members")


_ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
COMMANDS = {
    "thread create": Command(
        create,
        arguments=_create_arguments,
        usage="TITLE",
        examples=(
            "wakeline thread create 'Release 2.0' --member @bob --member @carol",
            "wakeline thread create 'Migrate the database' --type workflow --coordinator @lead",
        ),
    ),
    "thread list": Command(
        list_all,
        arguments=_list_arguments,
        examples=("wakeline thread list", "wakeline thread list --status blocked -o json"),
    ),
    "thread show": Command(show, arguments=_thread_argument, usage="THREAD", examples=(f"wakeline thread show {_ID}",)),
    "thread status": Command(
        status,
        arguments=_status_arguments,
        usage="THREAD STATUS",
        examples=(
            f"wakeline thread status {_ID} resolved",
            f"wakeline thread status {_ID} blocked --reason 'waits for a decision' --escalation-owner @human",
            f"wakeline thread status {_ID} closed --override --reason 'no longer needed'",
        ),
    ),
    "thread members": Command(
        members,
        arguments=_members_arguments,
        usage="THREAD",
        examples=(
            f"wakeline thread members {_ID}",
            f"wakeline thread members {_ID} --add @dora --remove @bob",
        ),
    ),
    "thread summary": Command(
        summary, arguments=_thread_argument, usage="THREAD", examples=(f"wakeline thread summary {_ID}",)
    ),
}
