"""The door of the command line: find the command, parse, run, and turn failures into words and an exit code.

A one-shot command imports what it needs and no more: the whole of `wakeline send` takes less than three bare starts of
Python.  `python -X importtime` shows who broke that.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from wakeline.faces.cli.arguments import build, find_command, find_output, overview, usage_error
from wakeline.faces.cli.commands import GROUPS, INDEX, INTERRUPTED, OK, USAGE, load
from wakeline.faces.cli.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> int:
    """The console script."""
    code = run(sys.argv[1:])
    sys.stdout.flush()
    if "threading" not in sys.modules:
        # Nothing to join and nothing to close: taking the interpreter down piece by piece would be a tenth of our time.
        sys.stderr.flush()
        os._exit(code)
    return code


def run(words: Sequence[str]) -> int:
    """Run one command line and answer its exit code."""
    if isinstance(sys.stdout, TextIOWrapper):  # an odd character must not end a command in a traceback
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - `report` raises again what is not ours
        from wakeline.faces.cli.failure import report

        return report(error, find_output(words))
    return code


def _dispatch(words: Sequence[str]) -> int:
    name, rest = find_command(words)
    if name not in INDEX:
        return _explain(name, rest)
    command = load(name)
    passed: list[str] = []
    if command.passes and "--" in rest:
        rest, passed = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    arguments = build(name, command).parse_intermixed_args(rest)
    arguments.passed = passed
    return command.run(Context(arguments, os.environ))


def _explain(name: str, rest: Sequence[str]) -> int:
    """No command, half a command, or a word that is none."""
    if "--version" in rest and not name:
        name, rest = "version", []
        return load(name).run(Context(build(name, load(name)).parse_args(rest), os.environ))
    if name in ("", "help") or name in GROUPS:
        asked = name == "help" or "-h" in rest or "--help" in rest
        print(overview(name if name in GROUPS else ""), file=sys.stdout if asked else sys.stderr)
        return OK if asked else USAGE
    from difflib import get_close_matches

    close = get_close_matches(name, INDEX, n=1)
    raise usage_error(
        f"There is no command '{name}'.",
        f"Did you mean '{close[0]}'?" if close else "'wakeline --help' lists them all.",
    )


if __name__ == "__main__":
    sys.exit(main())
