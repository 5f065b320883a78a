"""Arguments: one parser per command, built only for the command that runs, and the kinds of values people write.

The common options may stand before the command or after it, so the command's words are taken out first and the rest
is parsed as a whole.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter

from wakeline.faces.cli.commands import EXIT_CODES, GROUPS, INDEX, load
from wakeline.faces.cli.output import FORMATS
from wakeline.faces.cli.text import now, terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from wakeline.errors import WakelineError
    from wakeline.faces.cli.commands import Command

# The common options that are followed by a value, so that a value is not taken for a command.
VALUED = ("-o", "--output", "--data", "--url", "--token-file", "--workspace", "--as")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_HELP_WIDTH = 100


class Formatter(RawDescriptionHelpFormatter):
    """The width is given, because argparse would import half of the library to find it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=min(terminal_width() or _HELP_WIDTH, _HELP_WIDTH))


class Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise usage_error(f"{message[:1].upper()}{message[1:]}.", f"See '{self.prog} --help'.")


def usage_error(message: str, hint: str) -> WakelineError:
    from wakeline.errors import InvalidArgument

    return InvalidArgument("USAGE", message, hint)


def find_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command's name, as far as it was given, and all other words in their order."""
    rest = list(words)
    name = _take_word(rest, 0)
    if name in GROUPS:
        name = f"{name} {_take_word(rest, 0)}".strip()
    return name, rest


def _take_word(words: list[str], place: int) -> str:
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in VALUED else 1
    return words.pop(place) if place < len(words) else ""


def find_output(words: Sequence[str]) -> str:
    """The wanted format, also when the rest of the words make no sense: the error is shown in it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        form = following if word in ("-o", "--output") else word.removeprefix("--output=").removeprefix("-o")
        if form in FORMATS and word.startswith("-"):
            return form
    return "human"


def build(name: str, command: Command) -> Parser:
    parser = Parser(
        prog=f"wakeline {name}",
        usage=" ".join(f"wakeline {name} [options] {command.usage}".split()),
        description=f"{INDEX[name][1][:1].upper()}{INDEX[name][1][1:]}.",
        epilog=_epilog(command.examples),
        formatter_class=Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    fill(parser, command)
    return parser


def fill(parser: ArgumentParser, command: Command) -> None:
    if command.arguments is not None:
        command.arguments(parser)
    common = parser.add_argument_group("common options")
    common.add_argument("-h", "--help", action="help", help="show this and stop")
    forms = f"how to print: {', '.join(FORMATS)} (default: human)"
    common.add_argument("-o", "--output", choices=FORMATS, default="human", metavar="FORMAT", help=forms)
    common.add_argument("--data", metavar="DIR", help="the data directory (WAKELINE_DATA)")
    if not command.remote:
        return
    common.add_argument("--url", help="the server, together with a token (WAKELINE_URL)")
    common.add_argument("--token-file", metavar="FILE", help="a file that holds the token (WAKELINE_TOKEN_FILE)")
    common.add_argument("--workspace", metavar="NAME", help="the operator's workspace (WAKELINE_WORKSPACE)")
    common.add_argument("--as", metavar="@NAME", dest="as_handle", help="as the operator, act as this agent")


def tree(kind: type[ArgumentParser] = ArgumentParser) -> ArgumentParser:
    """All commands in one parser, for completion and for the reference page."""
    root = kind(prog="wakeline", description="Messages between agents, and the wake-ups that get them read.")
    root.add_argument("-o", "--output", choices=FORMATS, help="how to print (default: human)")
    words = root.add_subparsers(metavar="COMMAND")
    groups = {name: words.add_parser(name, help=about).add_subparsers() for name, about in GROUPS.items()}
    for name, (_, summary) in INDEX.items():
        group, _, leaf = name.rpartition(" ")
        command = load(name)
        place = groups[group] if group else words
        parser = place.add_parser(leaf, help=summary, add_help=False, epilog=_epilog(command.examples))
        fill(parser, command)
    return root


def overview(group: str = "") -> str:
    """The help of the whole, or of one group."""
    names = [name for name in INDEX if not group or name.startswith(f"{group} ")]
    room = max(map(len, names))
    lines = [f"  {name:<{room}}  {INDEX[name][1]}" for name in names]
    head = f"usage: wakeline [options] {group or 'COMMAND'} …\n\ncommands:"
    tail = "'wakeline COMMAND --help' shows the options of a command, with examples."
    if group:
        return "\n".join((head, *lines, "", tail))
    codes = [f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()]
    return "\n".join((head, *lines, "", "exit codes:", *codes, "", tail))


def _epilog(examples: tuple[str, ...]) -> str:
    lines = "\n".join(f"  {line}" for line in examples)
    return f"examples:\n{lines}\n\n'wakeline --help' lists all commands and the exit codes."


# -- values -----------------------------------------------------------------------------------------------------------


def duration(text: str) -> int:
    """Seconds: '90s', '10m', '2h', '7d', '1w'."""
    if text[:-1].isdecimal() and text[-1] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    raise ArgumentTypeError(f"{text!r} is not a duration such as 90s, 10m, 2h or 7d")


def deadline(text: str) -> str:
    """An instant: RFC 3339 as it is, or a duration from now."""
    if "T" in text:
        return text
    from time import gmtime, strftime

    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(now() + duration(text)))


def handle(text: str) -> str:
    if not text.startswith("@"):
        raise ArgumentTypeError(f"{text!r} is not a handle; handles begin with '@'")
    return text
