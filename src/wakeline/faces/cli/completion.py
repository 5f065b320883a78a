"""`completion`: a script that teaches a shell our commands and options, made from the same parsers that parse them."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from typing import TYPE_CHECKING, Any

import shtab

from wakeline.faces.cli.arguments import tree
from wakeline.faces.cli.commands import OK, Command
from wakeline.faces.cli.output import write

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

SHELLS = ("bash", "zsh", "fish")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


class FileParser(ArgumentParser):
    """Remembers where a file is wanted, so that the shell offers files there."""

    def add_argument(self, *names: Any, **options: Any) -> Action:
        action = super().add_argument(*names, **options)
        if action.metavar == "FILE":
            vars(action)["complete"] = shtab.FILE
        return action


def completion(context: Context) -> int:
    write(shtab.complete(tree(FileParser), shell=context.arguments.shell))
    return OK


COMMANDS = {
    "completion": Command(
        completion,
        arguments=_arguments,
        usage="SHELL",
        examples=(
            'eval "$(wakeline completion bash)"',
            "wakeline completion zsh > ~/.zfunc/_wakeline",
            "wakeline completion fish > ~/.config/fish/completions/wakeline.fish",
        ),
        remote=False,
    ),
}
