"""Bringing dormant agents back: `agent activation` and `activations list|show|stop`."""

from __future__ import annotations

from wakeline import calls
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, block, indented, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context

ALLOW = ("none", "resume", "spawn")
RESULTS = ("triggered", "already_active", "failed", "fallback_resumed", "fallback_spawned", "open")


def _allow_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("handle", type=handle, metavar="@NAME", help="the agent")
    add("--allow", choices=ALLOW, help="what may be started; 'spawn' includes 'resume' (without: show it)")
    add("--max-per-hour", type=int, metavar="N", help="processes per hour (default: 4)")
    add("--concurrency", type=int, metavar="N", help="processes at once (default: 1)")
    add("--harness", metavar="NAME", help="what a new session runs in (default: as the latest one)")
    add("--host", metavar="NAME", help="where a new session runs (default: as the latest one)")
    add("--cwd", metavar="DIR", help="in which folder (default: as the latest one)")
    add(
        "--command",
        metavar="WORDS",
        help="your own command, instead of the harness's; its words may be {prompt}, {session}, {handle} and {way}",
    )


def agent_activation(context: Context) -> int:
    given = context.arguments
    if given.allow is None:
        return context.show(context.call(calls.get_mandate(given.handle)), _mandate_view)
    call = calls.allow_activation(
        given.handle,
        given.allow,
        max_per_hour=given.max_per_hour,
        concurrency=given.concurrency,
        command=_words(given.command),
        harness=given.harness,
        host=given.host,
        cwd=given.cwd,
    )
    return context.show(context.call(call), _mandate_view)


def _words(command: str | None) -> list[str] | None:
    """Split as a shell would, but never run by one."""
    if command is None:
        return None
    from shlex import split

    return split(command)


def _mandate_view(answer: dict[str, Any]) -> str:
    if answer["allow"] == "none":
        return f"nothing is started for {answer['handle']}"
    fields = {name.replace("_", " "): value for name, value in answer.items() if name not in ("command", "changed_at")}
    fields["command"] = " ".join(answer["command"]) if answer["command"] else None
    fields["changed"] = ago(answer["changed_at"]) or None
    return block(fields)


def _list_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--of", type=handle, metavar="@NAME", help="only those for this agent")
    add("--result", choices=RESULTS, help="only those that ended so")
    add("--before", metavar="ID", help="only those before this one")
    add("--limit", type=int, metavar="N", help="at most so many (default: 50)")


def activations_list(context: Context) -> int:
    given = context.arguments
    call = calls.list_activations(handle=given.of, result=given.result, before=given.before, limit=given.limit)
    return context.show(context.call(call), _list_view)


def _list_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            row["activation_id"],
            row["handle"],
            ago(row["created_at"]),
            row["way"],
            row["result"] or row["state"],
            row["attempt"],
            row["host"] or "",
            row["reason"] or "",
        )
        for row in answer["activations"]
    ]
    tried = table(("ACTIVATION", "AGENT", "WHEN", "WAY", "RESULT", "TRY", "HOST", "REASON"), rows)
    waiting = [
        (row["handle"], row["reason"] or "", row["tries"], row["failures"], ago(row["next_at"]) or "")
        for row in answer["dormant"]
    ]
    dormant = table(("DORMANT", "WHY NOTHING IS STARTED", "WAKES", "FAILURES", "NEXT LOOK"), waiting)
    return "\n\n".join([tried if rows else "no activations", *([dormant] if waiting else [])])


def _one_argument(parser: ArgumentParser) -> None:
    parser.add_argument("activation_id", metavar="ID", help="as 'activations list' shows it")


def activations_show(context: Context) -> int:
    return context.show(context.call(calls.get_activation(context.arguments.activation_id)), _show_view)


def _show_view(answer: dict[str, Any]) -> str:
    about = {name.replace("_", " "): answer[name] for name in answer if name != "output"}
    printed = answer.get("output")
    return f"{block(about)}\n\n{indented(printed)}" if printed else block(about)


def activations_stop(context: Context) -> int:
    answer = context.call(calls.stop_activation(context.arguments.activation_id))
    ended = answer["result"] is not None
    return context.show(answer, lambda said: f"{said['activation_id']} {'has ended' if ended else 'is being ended'}")


COMMANDS = {
    "agent activation": Command(
        agent_activation,
        arguments=_allow_arguments,
        usage="@NAME",
        examples=(
            "wakeline agent activation @bob --allow resume",
            "wakeline agent activation @bob --allow spawn --max-per-hour 2 --cwd ~/code/parser",
            "wakeline agent activation @bob --allow spawn --command 'my-agent --say {prompt}'",
            "wakeline agent activation @bob --allow none",
        ),
    ),
    "activations list": Command(
        activations_list,
        arguments=_list_arguments,
        examples=("wakeline activations list", "wakeline activations list --of @bob --result failed -o json"),
    ),
    "activations show": Command(
        activations_show,
        arguments=_one_argument,
        usage="ID",
        examples=("wakeline activations show 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
    "activations stop": Command(
        activations_stop,
        arguments=_one_argument,
        usage="ID",
        examples=("wakeline activations stop 01JD3Z8Q0W4T6N9X2C5V7B1M3K",),
    ),
}
