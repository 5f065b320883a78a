"""Wakes on their way: `deliveries list|show|retry`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, block, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context


def _list_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--of", type=handle, metavar="@NAME", help="only those to this receiver")
    add("--subscription", metavar="ID", help="only those of this subscription")
    add("--outcome", choices=calls.OUTCOMES, help="only those that ended so")
    add("--before", metavar="ID", help="only those before this one")
    add("--limit", type=int, metavar="N", help="at most so many (default: 50)")


def deliveries_list(context: Context) -> int:
    given = context.arguments
    call = calls.list_deliveries(
        handle=given.of,
        subscription_id=given.subscription,
        outcome=given.outcome,
        before=given.before,
        limit=given.limit,
    )
    return context.show(context.call(call), _list_view, "deliveries")


def _list_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            row["delivery_id"],
            row["handle"],
            ago(row["created_at"]),
            row["step"],
            row["outcome"] or "under way",
            row["attempts"],
            row["events"],
            row["target"],
            row["reason"] or "",
        )
        for row in answer["deliveries"]
    ]
    titles = ("DELIVERY", "TO", "WHEN", "STEP", "OUTCOME", "TRIES", "EVENTS", "ROUTE", "REASON")
    return table(titles, rows) if rows else "no deliveries"


def _one_argument(parser: ArgumentParser) -> None:
    parser.add_argument("delivery_id", metavar="ID", help="as 'deliveries list' shows it")


def deliveries_show(context: Context) -> int:
    return context.show(context.call(calls.get_delivery(context.arguments.delivery_id)), _show_view)


def _show_view(answer: dict[str, Any]) -> str:
    about = {name.replace("_", " "): answer[name] for name in answer if name not in ("steps", "body")}
    steps = [(step["at"], step["step"], step["attempt"], _detail(step["detail"])) for step in answer["steps"]]
    return f"{block(about)}\n\n{table(('AT', 'STEP', 'TRY', 'DETAIL'), steps)}"


def _detail(detail: dict[str, Any] | None) -> str:
    return " ".join(f"{name}={value}" for name, value in (detail or {}).items() if value not in (None, ""))


def deliveries_retry(context: Context) -> int:
    answer = context.call(calls.retry_delivery(context.arguments.delivery_id))
    return context.show(answer, lambda said: f"sending it again as {said['delivery_id']}")


COMMANDS = {
    "deliveries list": Command(
        deliveries_list,
        arguments=_list_arguments,
        examples=(
            "wakeline deliveries list",
            "wakeline deliveries list --outcome failed   # what did not arrive",
            "wakeline deliveries list --of @bob -o json",
        ),
    ),
    "deliveries show": Command(
        deliveries_show,
        arguments=_one_argument,
        usage="ID",
        examples=("wakeline deliveries show 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
    "deliveries retry": Command(
        deliveries_retry,
        arguments=_one_argument,
        usage="ID",
        examples=("wakeline deliveries retry 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
}
