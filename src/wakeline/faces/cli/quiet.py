"""When somebody is not to be woken: `agent quiet`."""

from __future__ import annotations

from os import environ, readlink

from wakeline.calls import CLEAR, change_agent
from wakeline.faces.cli.arguments import deadline, handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from wakeline.faces.cli.context import Context


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("handle", type=handle, metavar="@NAME", help="the agent or human; an agent may only name itself")
    add("--from", dest="begin", metavar="HH:MM", help="when the daily quiet begins")
    add("--until", metavar="HH:MM", help="when it ends, perhaps on the next day")
    add("--zone", metavar="NAME", help="whose clock counts, such as Europe/Berlin (default: this machine's)")
    add("--off", action="store_true", help="no daily quiet any more")
    add("--do-not-disturb", type=deadline, metavar="WHEN", help="no wakes until then: 90s, 10m, 2h, 7d, or an instant")
    add("--disturb", action="store_true", help="end that now")


def quiet(context: Context) -> int:
    given = context.arguments
    call = change_agent(
        given.handle,
        quiet_hours=CLEAR if given.off else _hours(given),
        do_not_disturb_until=CLEAR if given.disturb else given.do_not_disturb,
    )
    if not call.body:
        raise usage_error("Quiet when?", "Give --from and --until, --do-not-disturb, --off or --disturb.")
    return context.show(context.call(call), _view)


def _hours(given: Namespace) -> dict[str, str] | None:
    if given.begin is None and given.until is None:
        return None
    if given.begin is None or given.until is None:
        raise usage_error("Quiet hours have two ends.", "Give both --from and --until, such as 22:00 and 07:00.")
    return {"from": given.begin, "until": given.until, "time_zone": given.zone or _local_zone()}


def _local_zone() -> str:
    """The name of this machine's time zone, where it tells one."""
    try:
        found = environ.get("TZ") or readlink("/etc/localtime").partition("zoneinfo/")[2]  # noqa: PTH115 - pathlib is slow
    except OSError:
        found = ""
    return found.removeprefix(":") or "UTC"


def _view(answer: dict[str, Any]) -> str:
    hours, until = answer["quiet_hours"], answer["do_not_disturb_until"]
    said = [f"from {hours['from']} until {hours['until']} ({hours['time_zone']})"] if hours else []
    said += [f"until {clock(until)}"] if until else []
    return f"{answer['handle']} is quiet {' and '.join(said)}" if said else f"{answer['handle']} can always be woken"


COMMANDS = {
    "agent quiet": Command(
        quiet,
        arguments=_arguments,
        usage="@NAME",
        examples=(
            "wakeline agent quiet @human --from 22:00 --until 07:00 --zone Europe/Berlin",
            "wakeline agent quiet @bob --do-not-disturb 2h",
            "wakeline agent quiet @bob --off --disturb",
        ),
    ),
}
