"""`up`: run the server.  Every setting is a flag here, except the secret one, which no process list may show."""

from __future__ import annotations

from argparse import BooleanOptionalAction

from wakeline.faces.cli.commands import Command
from wakeline.runtime.settings import DEFAULTS, NAMES, SECRET, describe, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context


def _arguments(parser: ArgumentParser) -> None:
    for name in NAMES:
        if name in (SECRET, "data"):  # --data is one of the common options
            continue
        flag = f"--{name.replace('_', '-')}"
        meaning = describe(name).replace("%", "%%")
        if isinstance(DEFAULTS[name], bool):
            parser.add_argument(flag, action=BooleanOptionalAction, default=None, help=meaning)
        else:
            default = DEFAULTS[name]
            shown = ",".join(default) if isinstance(default, tuple) else default
            parser.add_argument(flag, metavar="…", help=f"{meaning} ({shown})" if shown != "" else meaning)


def up(context: Context) -> int:
    from wakeline.runtime.bootstrap import serve

    flags = {name: getattr(context.arguments, name, None) for name in NAMES}
    settings, _ = load(flags, context.environ)
    return serve(settings)


COMMANDS = {
    "up": Command(
        up,
        arguments=_arguments,
        examples=(
            "wakeline up",
            "wakeline up --port 0 --data /srv/wakeline",
            "wakeline up --host 0.0.0.0 --database postgresql://wakeline@db/wakeline",
        ),
        remote=False,
    ),
}
