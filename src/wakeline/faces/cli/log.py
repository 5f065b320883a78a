"""`log`: the last rows of the log, those after a position, or everything as it happens."""

from __future__ import annotations

import sys

from wakeline import calls
from wakeline.faces.cli import views
from wakeline.faces.cli.commands import OK, Command
from wakeline.faces.cli.output import encode, to_toon, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.context import Context
    from wakeline.wire import EventView

ROWS = 50
FOLLOW_SECONDS = 86_400  # `--as` while following: a token for a day, not for a minute


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="go on with what happens, until interrupted")
    add("--since", metavar="POSITION", help="start after this position or log id; 0 is the oldest row that is kept")
    add("--limit", type=int, default=ROWS, metavar="N", help=f"at most so many rows (default: {ROWS})")


def log(context: Context) -> int:
    given = context.arguments
    if given.follow:
        context.endpoint(as_seconds=FOLLOW_SECONDS)
    after = _start(context)
    if given.follow:
        return _follow(context, after)
    return context.show(context.call(calls.read_log(after=after, limit=given.limit)), _page_view, "events")


def _start(context: Context) -> str:
    """A position, from what people write: nothing is the end of the log, a bare number is a log id of this epoch."""
    since = context.arguments.since
    if since is not None and (since == "0" or not since.isdecimal()):
        return str(since)
    status = context.call(calls.get_status())
    if since is not None:
        return f"{status['epoch']}-{since}"
    if context.arguments.follow:
        return str(status["position"])
    last = int(status["position"].rpartition("-")[2])
    return f"{status['epoch']}-{max(last - context.arguments.limit, status['first_log_id'] - 1, 0)}"


def _page_view(answer: dict[str, Any]) -> str:
    rows = "\n".join(map(views.event, answer["events"])) or "no rows"
    return f"{rows}\n\nmore with --since {answer['position']}" if answer["has_more"] else rows


def _follow(context: Context, after: str) -> int:
    import asyncio

    from wakeline.client import Client

    endpoint = context.endpoint()

    async def follow() -> None:
        client = Client(url=endpoint.url, socket=endpoint.socket, token=endpoint.token, workspace=endpoint.workspace)
        async with client:
            async for event in client.events(after=after):
                _print(context.output, event)

    asyncio.run(follow())
    return OK


def _print(form: str, event: EventView) -> None:
    import msgspec

    row = msgspec.to_builtins(event)
    if form == "human":
        write(views.event(row))
    elif form == "toon":
        write(to_toon(row))
    else:
        write(encode(row))
    sys.stdout.flush()


COMMANDS = {
    "log": Command(
        log,
        arguments=_arguments,
        examples=(
            "wakeline log",
            "wakeline log --follow",
            "wakeline log --since 0 --limit 500 -o jsonl",
            "wakeline log --follow --since 1204 -o json",
        ),
    ),
}
