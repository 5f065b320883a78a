"""Keeping it running: `status`, `dead-letter …`, `workspace …` and `prune`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli.arguments import duration, handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, block, count, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context


def status(context: Context) -> int:
    return context.show(context.call(calls.get_status()), _status_view)


def _status_view(answer: dict[str, Any]) -> str:
    return block({name.replace("_", " "): value for name, value in answer.items()})


def _dead_letter_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--sender", type=handle, metavar="@NAME", help="only those of this sender")
    add("--all", action="store_false", default=None, dest="open", help="those that were posted again too")
    add("--limit", type=int, metavar="N", help="at most so many (default: 50)")


def dead_letter_list(context: Context) -> int:
    given = context.arguments
    call = calls.list_dead_letters(sender=given.sender, open=given.open, limit=given.limit)
    return context.show(context.call(call), _dead_letters_view, "dead_letters")


def _dead_letters_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            letter["dead_letter_id"],
            letter["sender"],
            ago(letter["created_at"]),
            letter["message_id"] or ("tried again" if letter["attempts"] else "open"),
            letter["code"],
            letter["reason"],
        )
        for letter in answer["dead_letters"]
    ]
    return table(("DEAD LETTER", "SENDER", "WHEN", "STATE", "CODE", "REASON"), rows) if rows else "no dead letters"


def _redrive_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("dead_letter_id", metavar="ID", help="as 'dead-letter list' shows it")


def dead_letter_redrive(context: Context) -> int:
    answer = context.call(calls.redrive(context.arguments.dead_letter_id))
    return context.show(answer, lambda said: f"posted {said['message_id']} as #{said['seq']} of {said['thread_id']}")


def _workspace_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a lower-case word")


def workspace_add(context: Context) -> int:
    answer = context.call(calls.add_workspace(context.arguments.name))
    return context.show(answer, lambda said: f"added workspace {said['name']}")


def workspace_list(context: Context) -> int:
    return context.show(context.call(calls.list_workspaces()), _workspaces_view, "workspaces")


def _workspaces_view(answer: dict[str, Any]) -> str:
    rows = [
        (space["name"], space["first_log_id"], space["last_log_id"], space["epoch"], ago(space["created_at"]))
        for space in answer["workspaces"]
    ]
    return table(("WORKSPACE", "FIRST ROW", "LAST ROW", "EPOCH", "CREATED"), rows)


def _prune_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--older-than",
        type=duration,
        metavar="SPAN",
        help="remove rows older than this, such as 30d, and sessions that ended before then",
    )
    add("--keep", type=int, metavar="N", help="remove all but the newest so many")


def prune(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.prune(older_than_seconds=given.older_than, keep=given.keep))
    return context.show(answer, _pruned_view)


def _pruned_view(answer: dict[str, Any]) -> str:
    rows, messages = count(answer["log_rows"], "log row"), count(answer["messages"], "message")
    gone = f"{rows}, {messages} and {count(answer['sessions'], 'ended session')} removed"
    return f"{gone}; the log now begins at {answer['first_log_id']}"


COMMANDS = {
    "status": Command(status, examples=("wakeline status", "wakeline status -o json")),
    "dead-letter list": Command(
        dead_letter_list,
        arguments=_dead_letter_arguments,
        examples=("wakeline dead-letter list", "wakeline dead-letter list --sender @bob --all"),
    ),
    "dead-letter redrive": Command(
        dead_letter_redrive,
        arguments=_redrive_arguments,
        usage="ID",
        examples=("wakeline dead-letter redrive 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
    "workspace add": Command(
        workspace_add, arguments=_workspace_arguments, usage="NAME", examples=("wakeline workspace add staging",)
    ),
    "workspace list": Command(workspace_list, examples=("wakeline workspace list",)),
    "prune": Command(
        prune,
        arguments=_prune_arguments,
        examples=(
            "wakeline prune                    # what the server's own schedule would remove now",
            "wakeline prune --older-than 30d",
            "wakeline prune --keep 100000",
        ),
    ),
}
