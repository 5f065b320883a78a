"""Who is there: `peers` and `session heartbeat|list|end`.

A heartbeat is meant to be sent from a harness's own hooks: it starts fast, finds out by itself where it runs, and
prints the doorbell alone, so that a hook can hand its output on.
"""

from __future__ import annotations

from os import getcwd

from wakeline import calls
from wakeline.faces.cli.arguments import handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import ago, one_line, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from typing import Any

    from wakeline.faces.cli.context import Context

PROOFS = ("pass", "partial", "fail", "unknown")


def _heartbeat_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--session", metavar="ID", help="the session, if it is known already")
    add("--harness", metavar="NAME", help="what runs it, such as claude-code; needed the first time")
    add("--harness-version", metavar="V", help="the version of what runs it, as it spells it")
    add("--transport", metavar="NAME", help="by which way into its harness it is reached, such as command")
    add("--native-id", metavar="ID", help="the harness's own id of it, by which it is found again")
    add("--host", help="the machine that it runs on (default: this one, as its bridge calls it)")
    add("--cwd", metavar="DIR", help="where it works (default: here)")
    add("--pid", type=int, metavar="N", help="its process; when that started is found out, if it runs here")
    add("--wake-mode", choices=calls.WAKE_MODES, help="how it can be woken (default: none)")
    add("--capability", action="append", dest="capabilities", metavar="WORD", help="what it can; may be repeated")
    add(
        "--level",
        action="append",
        dest="levels",
        metavar="D4=fail",
        help="what it cannot do, whatever was proven; may be repeated",
    )
    add("--presence", choices=calls.PRESENCES, help="how it is now")
    add("--turn", metavar="ID", help="the turn that it is in")
    add("--source", metavar="NAME", help="who says so, such as hook")
    add("--context-tokens", type=int, metavar="N", help="how much context it has used")
    add("--context-limit", type=int, metavar="N", help="from how much on it should not be woken")
    add("--resumable", action="store_true", default=None, help="it can be resumed after it has ended")
    add("--task", metavar="ID", help="the task that it works on")
    add("--branch", help="the branch that it works on")


def heartbeat(context: Context) -> int:
    given = context.arguments
    call = calls.heartbeat_session(
        session_id=given.session,
        harness=given.harness,
        harness_version=given.harness_version,
        transport=given.transport,
        native_id=given.native_id,
        wake_mode=given.wake_mode,
        capabilities=given.capabilities,
        levels=_levels(given.levels) if given.levels else None,
        presence=given.presence,
        active_turn_id=given.turn,
        presence_source=given.source,
        context_tokens=given.context_tokens,
        context_limit=given.context_limit,
        resumable=given.resumable,
        task_id=given.task,
        branch=given.branch,
        **_place(context),
    )
    return context.show(context.call(call), _heartbeat_view)


def _place(context: Context) -> dict[str, Any]:
    """Where it runs.  A session that is named was placed when it was registered; only what is said is sent."""
    from wakeline.runtime.processes import bridged_name, host_name, look

    given = context.arguments
    here, named = bridged_name(context.endpoint().data), given.session is not None
    place = {"host": given.host or (None if named else here), "cwd": given.cwd or (None if named else _here())}
    if given.pid is not None:
        place["pid"] = given.pid
        place["pid_started_at"] = started(look(given.pid)[1]) if given.host in (None, here, host_name()) else None
    return place


def _here() -> str | None:
    try:
        return getcwd()  # noqa: PTH109 - pathlib takes longer to import than a command may
    except FileNotFoundError:  # the directory was removed under us
        return None


def started(instant: int | None) -> str | None:
    if instant is None:
        return None
    from time import gmtime, strftime

    seconds, micros = divmod(instant, 1_000_000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{micros:06d}Z"


def _levels(words: Sequence[str]) -> dict[str, str]:
    levels = dict(word.partition("=")[::2] for word in words)
    for level, proof in levels.items():
        if proof not in PROOFS:
            raise usage_error(f"'{level}={proof}' is not a level.", f"Say D0 to D8 and one of {', '.join(PROOFS)}.")
    return levels


def _heartbeat_view(answer: dict[str, Any]) -> str:
    """Only the doorbell, if there is one: what a hook prints is put before the model."""
    return one_line(answer["doorbell"] or "")


def _list_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("handle", nargs="?", type=handle, metavar="@NAME", help="only those of this agent")
    add("--ended", action="store_true", default=None, help="also those that have ended")
    add("--limit", type=int, metavar="N", help="at most so many (default: 100)")


def list_all(context: Context) -> int:
    given = context.arguments
    call = calls.list_sessions(handle=given.handle, ended=given.ended, limit=given.limit)
    return context.show(context.call(call), _list_view, "sessions")


def _list_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            one["session_id"],
            one["handle"],
            one["harness"],
            "ended" if one["ended_at"] else one["presence"],
            one["liveness"],
            ago(one["last_seen_at"]),
            one["host"],
            one["branch"],
            one["cwd"],
        )
        for one in answer["sessions"]
    ]
    titles = ("SESSION", "HANDLE", "HARNESS", "PRESENCE", "LIVENESS", "SEEN", "HOST", "BRANCH", "CWD")
    return table(titles, rows) if rows else "no sessions"


def _end_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the session's id, as 'session list' shows it")


def end(context: Context) -> int:
    answer = context.call(calls.end_session(context.arguments.session))
    return context.show(answer, lambda said: f"session {said['session_id']} of {said['handle']} has ended")


def peers(context: Context) -> int:
    return context.show(context.call(calls.list_peers()), _peers_view, "peers")


def _peers_view(answer: dict[str, Any]) -> str:
    rows = [
        (
            one["handle"],
            one["kind"],
            one["unread"],
            one["backend"],
            one["presence"],
            one["liveness"],
            ago(one["last_seen_at"]),
            one["wake_mode"],
            _proven(one["levels"] or {}),
            one["branch"],
            one["session_id"],
        )
        for one in answer["peers"]
    ]
    titles = (
        "HANDLE",
        "KIND",
        "UNREAD",
        "BACKEND",
        "PRESENCE",
        "LIVENESS",
        "SEEN",
        "WAKE",
        "LEVEL",
        "BRANCH",
        "SESSION",
    )
    return table(titles, rows)


def _proven(levels: dict[str, str]) -> str:
    return " ".join(sorted(level for level, proof in levels.items() if proof == "pass"))


_ID = "01JD3Z8Q0W4T6N9X2C5V7B1M3K"
COMMANDS = {
    "peers": Command(peers, examples=("wakeline peers", "wakeline peers -o json")),
    "session heartbeat": Command(
        heartbeat,
        arguments=_heartbeat_arguments,
        examples=(
            "wakeline session heartbeat --harness claude-code --native-id $ID --pid $PPID --presence active",
            f"wakeline session heartbeat --session {_ID} --presence idle --context-tokens 81000",
            "wakeline session heartbeat --harness codex --level D4=pass --level D7=partial --resumable",
        ),
    ),
    "session list": Command(
        list_all,
        arguments=_list_arguments,
        usage="[@NAME]",
        examples=("wakeline session list", "wakeline session list @bob --ended -o json"),
    ),
    "session end": Command(end, arguments=_end_arguments, usage="ID", examples=(f"wakeline session end {_ID}",)),
}
