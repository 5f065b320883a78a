"""`doctor HARNESS`: probe real harnesses in throwaway worlds, and keep what was proven.

The human view is the block of delivery levels, exactly, one for each harness; what happens meanwhile is told on stderr.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wakeline.core.verdict import Diagnosis, block
from wakeline.doctor.installs import PINNED, fetch, find
from wakeline.doctor.probe import examine
from wakeline.doctor.ways import TMUX, Way, ways
from wakeline.errors import NotFound, Unusable, WakelineError
from wakeline.faces.cli.arguments import usage_error
from wakeline.faces.cli.commands import FAILED, OK
from wakeline.faces.cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeline.faces.cli.context import Context
    from wakeline.testing.installed import Installed

ALL = "all"


def probe(context: Context) -> int:
    """Every harness that was named, or that is here: what each of its levels came to."""
    if shutil.which("tmux", path=context.environ.get("PATH")) is None:
        raise Unusable("TERMINAL_NOT_FOUND", "There is no tmux to run a harness in.", "Install tmux.")
    wanted = _wanted(context)
    found = _find(context, wanted)
    if not found:
        hint = "Install one, or let --fetch install the versions that we know."
        raise NotFound("HARNESS_NOT_FOUND", "No harness is on PATH or in the cache.", hint)
    if context.arguments.keep:
        _warn(context)
    signal.signal(signal.SIGTERM, _interrupted)
    diagnoses = [_examine(installed, way) for installed in found for way in wanted[installed.harness]]
    kept = [_keep(context, one) for one in diagnoses] if context.arguments.keep else []
    answer = {"healthy": all(one.healthy for one in diagnoses), "kept": all(kept) and bool(kept)}
    harnesses = [{**msgspec.to_builtins(one), "healthy": one.healthy} for one in diagnoses]
    context.show({**answer, "harnesses": harnesses}, _view, "harnesses")
    return OK if answer["healthy"] else FAILED


def _interrupted(*_: object) -> None:
    """Whoever ends us ends the world that we made, too."""
    raise KeyboardInterrupt


def _wanted(context: Context) -> dict[str, list[Way | None]]:
    """By which ways each harness is to be probed.  None: the one that it takes by itself."""
    named, transport = context.arguments.harness, context.arguments.transport
    if named == TMUX and transport not in (None, TMUX):
        raise usage_error("'doctor tmux' probes one way: keystrokes.", "Name a harness for another one.")
    if named == TMUX:
        transport = TMUX
    known = {harness: ways(harness) for harness in (PINNED if named in (ALL, TMUX, None) else [named])}
    if transport is None:
        return {harness: [None] for harness in known}
    chosen = {
        harness: [way for way in found.values() if transport in (ALL, way.transport)]
        for harness, found in known.items()
    }
    if not any(chosen.values()):
        there = sorted({way for found in known.values() for way in found})
        raise usage_error(
            f"There is no way '{transport}' into {named or 'any harness'}.", f"Name one of {', '.join(there)}, or all."
        )
    return {harness: list(found) for harness, found in chosen.items() if found}


def _find(context: Context, wanted: Iterable[str]) -> list[Installed]:
    given = context.arguments
    several = given.harness in (ALL, TMUX, None)
    found = []
    for harness in wanted:
        installed = find(harness, context.environ)
        if installed is None and given.fetch:
            _tell(f"fetching {' '.join(PINNED[harness])}")
            installed = fetch(harness, context.environ)
        if installed is not None:
            found.append(installed)
        elif not several:
            hint = "Install it, or let --fetch install the version that we know."
            raise NotFound("HARNESS_NOT_FOUND", f"{harness} is neither on PATH nor in the cache.", hint)
        else:
            _tell(f"{harness} is not here")
    return found


def _examine(installed: Installed, way: Way | None) -> Diagnosis:
    with tempfile.TemporaryDirectory(prefix="wakeline", ignore_cleanup_errors=True) as folder:
        return examine(installed, installed.version(), Path(folder), _tell, way)


def _warn(context: Context) -> None:
    """A probe takes minutes: who would lose its result should hear of that before, not after."""
    from wakeline.calls import whoami

    try:
        trouble = None if context.call(whoami())["kind"] == "human" else "only a human may record a proof"
    except WakelineError as error:
        trouble = one_line(error.message)
    if trouble is not None:
        _tell(f"what is found will be shown but not kept: {trouble}; it is kept for the human of a running server")


def _keep(context: Context, found: Diagnosis) -> bool:
    """Tell the server, if there is one: it routes by what was proven."""
    from wakeline.calls import record_proof

    try:
        context.call(record_proof(found.harness, found.transport, found.version, msgspec.to_builtins(found.verdicts)))
    except WakelineError as error:
        _tell(f"the result was not kept: {one_line(error.message)}")
        return False
    return True


def _tell(text: str) -> None:
    sys.stderr.write(f"{one_line(text)}\n")
    sys.stderr.flush()


def _view(answer: dict[str, Any]) -> str:
    return "\n\n".join(one_block(harness) for harness in answer["harnesses"])


def one_block(harness: dict[str, Any]) -> str:
    fields = {name: harness[name] for name in Diagnosis.__struct_fields__}
    return block(msgspec.convert(fields, Diagnosis))
