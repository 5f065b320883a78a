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
from wakeline.errors import NotFound, Unusable, WakelineError
from wakeline.faces.cli.commands import FAILED, OK
from wakeline.faces.cli.text import one_line

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context
    from wakeline.testing.installed import Installed

ALL = "all"


def probe(context: Context) -> int:
    """Every harness that was named, or that is here: what each of its levels came to."""
    if shutil.which("tmux", path=context.environ.get("PATH")) is None:
        raise Unusable("TERMINAL_NOT_FOUND", "There is no tmux to run a harness in.", "Install tmux.")
    found = _find(context)
    if not found:
        hint = "Install one, or let --fetch install the versions that we know."
        raise NotFound("HARNESS_NOT_FOUND", "No harness is on PATH or in the cache.", hint)
    signal.signal(signal.SIGTERM, _interrupted)
    diagnoses = [_examine(installed) for installed in found]
    kept = [_keep(context, one) for one in diagnoses] if context.arguments.keep else []
    answer = {"healthy": all(one.healthy for one in diagnoses), "kept": all(kept) and bool(kept)}
    harnesses = [{**msgspec.to_builtins(one), "healthy": one.healthy} for one in diagnoses]
    context.show({**answer, "harnesses": harnesses}, _view, "harnesses")
    return OK if answer["healthy"] else FAILED


def _interrupted(*_: object) -> None:
    """Whoever ends us ends the world that we made, too."""
    raise KeyboardInterrupt


def _find(context: Context) -> list[Installed]:
    given = context.arguments
    wanted = list(PINNED) if given.harness in (ALL, None) else [given.harness]
    found = []
    for harness in wanted:
        installed = find(harness, context.environ)
        if installed is None and given.fetch:
            _tell(f"fetching {' '.join(PINNED[harness])}")
            installed = fetch(harness, context.environ)
        if installed is not None:
            found.append(installed)
        elif given.harness not in (ALL, None):
            hint = "Install it, or let --fetch install the version that we know."
            raise NotFound("HARNESS_NOT_FOUND", f"{harness} is neither on PATH nor in the cache.", hint)
        else:
            _tell(f"{harness} is not here")
    return found


def _examine(installed: Installed) -> Diagnosis:
    with tempfile.TemporaryDirectory(prefix="wakeline", ignore_cleanup_errors=True) as folder:
        return examine(installed, installed.version(), Path(folder), _tell)


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
