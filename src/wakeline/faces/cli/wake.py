"""What wakes an agent, and by which route: `wake …`."""

from __future__ import annotations

from argparse import ArgumentTypeError

from wakeline import calls
from wakeline.faces.cli.arguments import duration, handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, block, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from wakeline.faces.cli.context import Context

ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
DEFAULT = "default"  # a window of the server's choice


def _trigger(text: str) -> str:
    return text.upper().replace("-", "_")


def _window(text: str) -> int | str:
    if text == DEFAULT:
        return DEFAULT
    try:
        return duration(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is not a duration such as 30s, 5m or 0s, nor 'default'") from None


def _since(text: str) -> tuple[int, str | None]:
    """The log id, and the history that it belongs to, if a position names it."""
    epoch, _, number = text.rpartition("-")
    if not number.isdecimal() or text.startswith("-"):
        raise ArgumentTypeError(f"{text!r} is not a log id, nor a position such as k3f9-120")
    return int(number), epoch or None


def _id_argument(parser: ArgumentParser) -> None:
    parser.add_argument("subscription_id", metavar="ID", help="as 'wake list' shows it")


def _what_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--from", type=handle, action="append", metavar="@NAME", dest="senders", help="only what comes from them")
    add("--tag", action="append", dest="tags", help="only what has one of these tags")
    add("--priority", choices=calls.PRIORITIES, help="only what has this priority")
    add("--in-reply-to", action="append", metavar="ID", dest="replies", help="only answers to it, or in this thread")


def _route_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    targets = ", ".join(calls.HARNESS_TARGETS)
    add("--target", choices=calls.HARNESS_TARGETS, metavar="TARGET", help=f"{targets} (default: the best that works)")
    add("--webhook", metavar="URL", help="where a webhook goes")
    add("--window", type=_window, metavar="SPAN", help="gather events for so long, 0s to 300s, or 'default'")
    add("--socket", metavar="PATH", help="the socket of a bridge")
    add("--wake", choices=calls.WAKE_POLICIES, help="when events that are not messages wake (default: immediate)")
    full = "bring whole messages into sessions, enclosed as untrusted data; else only how to fetch them"
    add("--full-body", action="store_true", default=None, help=full)
    add("--no-full-body", action="store_false", dest="full_body", default=None, help="only how to fetch them")


def _subscribe_arguments(parser: ArgumentParser) -> None:
    triggers = ", ".join(calls.WAKE_TRIGGERS)
    parser.add_argument("trigger", type=_trigger, choices=calls.WAKE_TRIGGERS, metavar="TRIGGER", help=triggers)
    _what_arguments(parser)
    _route_arguments(parser)


def _update_arguments(parser: ArgumentParser) -> None:
    _id_argument(parser)
    triggers = ", ".join(calls.WAKE_TRIGGERS)
    add = parser.add_argument
    add("--trigger", type=_trigger, choices=calls.WAKE_TRIGGERS, metavar="TRIGGER", help=triggers)
    add("--no-filters", action="store_true", help="wake for everything; filters that are given replace all of them")
    _what_arguments(parser)
    _route_arguments(parser)


def _list_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--of", type=handle, metavar="@NAME", help="only theirs (for humans; agents see their own)")
    add("--limit", type=int, metavar="N", help="at most so many (default: 100)")
    add("--after", metavar="PLACE", help="go on where the last page ended")


def _resync_arguments(parser: ArgumentParser) -> None:
    _id_argument(parser)
    since = "the last log id that was seen (0: all that is kept), or a position, which names its history too"
    parser.add_argument("--since", type=_since, metavar="POSITION", required=True, help=since)


def _filters(given: Namespace) -> dict[str, Any] | None:
    found = {
        "sender_filter": given.senders,
        "tagged_concepts": given.tags,
        "priority": given.priority,
        "in_reply_to_filter": given.replies,
    }
    return {name: value for name, value in found.items() if value is not None} or None


def _metadata(given: Namespace) -> dict[str, Any] | None:
    said = {"url": given.webhook, "daemon_socket_path": given.socket, "wake_policy": given.wake}
    said["full_body"] = given.full_body
    metadata = {name: value for name, value in said.items() if value is not None}
    if given.window is not None:
        metadata["coalesce_window"] = None if given.window == DEFAULT else given.window
    return metadata or None


def subscribe(context: Context) -> int:
    given = context.arguments
    call = calls.subscribe_wake(
        given.trigger,
        filters=_filters(given),
        harness_target=given.target,
        harness_target_metadata=_metadata(given),
    )
    return context.show(context.call(call), _subscribed_view)


def _subscribed_view(answer: dict[str, Any]) -> str:
    made = "exists already" if answer.get("status") == "existing" else "subscribed"
    lines = [f"{made}: {answer['subscription_id']}, by {answer['harness_target']}"]
    return "\n".join(lines + _key_lines(answer))


def _key_lines(answer: dict[str, Any]) -> list[str]:
    if "signing_key" not in answer:
        return []
    return ["signing key, shown only this once:", answer["signing_key"]]


def wake_list(context: Context) -> int:
    given = context.arguments
    answer = context.call(calls.list_wake_subscriptions(handle=given.of, after=given.after, limit=given.limit))
    return context.show(answer, _list_view, "subscriptions")


def _list_view(answer: dict[str, Any]) -> str:
    if not answer["subscriptions"]:
        return "no wake subscriptions"
    rows = [
        (row["subscription_id"], row["handle"], row["trigger"], row["harness_target"], row["status"], _asked(row))
        for row in answer["subscriptions"]
    ]
    shown = table(("SUBSCRIPTION", "HANDLE", "TRIGGER", "TARGET", "STATUS", "FILTERS"), rows)
    return f"{shown}\nthere is more: --after {answer['next']}" if answer["has_more"] else shown


def _asked(row: dict[str, Any]) -> str:
    filters = row["filters"]
    words = [f"from {one}" for one in filters["sender_filter"]] + [f"#{tag}" for tag in filters["tagged_concepts"]]
    words += [f"answers {one}" for one in filters["in_reply_to_filter"]]
    words += [filters["priority"]] if filters["priority"] else []
    return ", ".join(words)


def show(context: Context) -> int:
    return context.show(context.call(calls.get_wake_subscription(context.arguments.subscription_id)), _view)


def _view(row: dict[str, Any]) -> str:
    route, metrics = row["harness_target_metadata"], row["metrics"]
    window, average = route["coalesce_window"], metrics["latency_average_seconds"]
    fields = {
        "subscription": row["subscription_id"],
        "handle": row["handle"],
        "trigger": row["trigger"],
        "filters": _asked(row) or "none",
        "target": row["harness_target"],
        "url": route["url"],
        "socket": route["daemon_socket_path"],
        "bodies": "whole" if route["full_body"] else None,
        "window": "the server's" if window is None else f"{window} s",
        "wake policy": route["wake_policy"],
        "status": row["status"],
        "reason": row["reason"],
        "failures in a row": row["failures"] or None,
        "made by default": "yes" if row["is_default"] else None,
        "old key signs": ago(row["previous_key_until"]) or None,
        "created": ago(row["created_at"]),
        "changed": ago(row["updated_at"]),
        "confirmed": _confirmed(row.get("cursor")),
        "held": ", ".join(_held(one) for one in row.get("held") or []) or "nothing",
        "events": metrics["events"],
        "rings": metrics["rings"],
        "coalesced": metrics["coalesced"],
        "latency": None if average is None else f"{average:.1f} s, at most {metrics['latency_most_seconds']:.1f} s",
    }
    return "\n".join([block(fields), *_key_lines(row)])


def update(context: Context) -> int:
    given = context.arguments
    filters = _filters(given)
    if given.no_filters and filters:
        raise usage_error("--no-filters cannot stand beside a filter.", "Filters that are given replace all of them.")
    call = calls.update_wake_subscription(
        given.subscription_id,
        trigger=given.trigger,
        filters={} if given.no_filters else filters,
        harness_target=given.target,
        harness_target_metadata=_metadata(given),
    )
    return context.show(context.call(call), _view)


def unsubscribe(context: Context) -> int:
    answer = context.call(calls.unsubscribe_wake(context.arguments.subscription_id))
    return context.show(answer, lambda said: f"removed {said['subscription_id']}")


def resume(context: Context) -> int:
    answer = context.call(calls.resume_wake_subscription(context.arguments.subscription_id))
    return context.show(answer, lambda said: f"{said['subscription_id']} is {said['status']}")


def resync(context: Context) -> int:
    given = context.arguments
    since_log_id, epoch = given.since
    answer = context.call(calls.resync(given.subscription_id, since_log_id, epoch=epoch))
    return context.show(answer, _resynced_view)


def _resynced_view(answer: dict[str, Any]) -> str:
    count, last = answer["events_replayed"], answer["last_log_id"]
    events = f"{count} event{'' if count == 1 else 's'}"
    said = f"replayed {events} as {answer['delivery_id']}" if count else "nothing to replay"
    clamped = "\nthat position lies in the future: it was taken for the end of the log" if answer["clamped"] else ""
    return f"{said}; the log ends at {last}{clamped}"


def rotate_key(context: Context) -> int:
    return context.show(context.call(calls.rotate_wake_key(context.arguments.subscription_id)), _rotated_view)


def _rotated_view(answer: dict[str, Any]) -> str:
    until = ago(answer["previous_key_until"])
    old = f"the old key stops signing {until}" if until else "the old key signs no more"
    return "\n".join([*_key_lines(answer), old])


def _confirmed(cursor: dict[str, Any] | None) -> str | None:
    if cursor is None:
        return None
    failed = f"; last error: {cursor['last_error']}" if cursor["last_error"] else ""
    return f"up to {cursor['last_sequence']}{failed}" if cursor["last_sequence"] else f"nothing yet{failed}"


def _held(one: dict[str, Any]) -> str:
    until = f" until {one['until']}" if one["until"] else ""
    return f"{one['count']} {one['reason'] or one['state']}{until}"


COMMANDS = {
    "wake subscribe": Command(
        subscribe,
        arguments=_subscribe_arguments,
        usage="TRIGGER",
        examples=(
            "wakeline wake subscribe sent-to-me                       # by the best route that works",
            "wakeline wake subscribe sent-to-me --webhook https://hooks.example.org/wake --window 30s",
            "wakeline wake subscribe sent-to-me --from @ci --tag build --priority high",
        ),
    ),
    "wake list": Command(
        wake_list,
        arguments=_list_arguments,
        examples=("wakeline wake list", "wakeline wake list --of @bob -o json"),
    ),
    "wake show": Command(show, arguments=_id_argument, usage="ID", examples=(f"wakeline wake show {ID}",)),
    "wake update": Command(
        update,
        arguments=_update_arguments,
        usage="ID",
        examples=(
            f"wakeline wake update {ID} --webhook https://hooks.example.org/other",
            f"wakeline wake update {ID} --no-filters --window default",
        ),
    ),
    "wake unsubscribe": Command(
        unsubscribe, arguments=_id_argument, usage="ID", examples=(f"wakeline wake unsubscribe {ID}",)
    ),
    "wake resume": Command(resume, arguments=_id_argument, usage="ID", examples=(f"wakeline wake resume {ID}",)),
    "wake resync": Command(
        resync,
        arguments=_resync_arguments,
        usage="ID --since POSITION",
        examples=(f"wakeline wake resync {ID} --since 120", f"wakeline wake resync {ID} --since 0"),
    ),
    "wake rotate-key": Command(
        rotate_key, arguments=_id_argument, usage="ID", examples=(f"wakeline wake rotate-key {ID}",)
    ),
}
