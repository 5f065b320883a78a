"""`connect tmux`: register a pane as a session, for a harness that has no better way in.  Nothing is written anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

NAME = "tmux"


def connect(context: Context) -> int:
    raise NotImplementedError


def disconnect(context: Context) -> int:
    raise NotImplementedError
