"""Which harnesses are installed here, in which version, and what is proven of each way into that version.

It looks only: a harness is asked for its version, in a home that is not the user's, and for nothing else.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeline.calls import list_proofs
from wakeline.core.level import proven
from wakeline.core.seat import IDLE_WAKE
from wakeline.doctor.installs import PINNED, find, is_cached
from wakeline.doctor.ways import ways
from wakeline.errors import WakelineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeline.faces.cli.context import Context
    from wakeline.testing.installed import Installed

VERSION_SECONDS = 5.0  # a look at everything is not held up by one of them

Stored = dict[tuple[str, str, str], dict[str, str]]  # (harness, transport, version) → levels


class Way(NamedTuple):
    """`known`: by whom its levels were found: `known` to this server, `shipped` with this program, or `none`."""

    transport: str
    known: str
    levels: Mapping[str, str]


class Found(NamedTuple):
    """`version` None: it did not say."""

    harness: str
    program: str | None
    cached: bool
    version: str | None
    ways: list[Way]

    @property
    def detail(self) -> str:
        if self.program is None:
            return "is not here"
        place = f"{self.version or 'of an unknown version'} in {self.program}{' (cache)' if self.cached else ''}"
        words = [
            f"{way.transport} {'can wake' if _wakes(way) else 'cannot wake'} ({way.known})" for way in self._graded
        ]
        return f"{place}; {', '.join(words) or self._unproven}"

    @property
    def _graded(self) -> list[Way]:
        return [way for way in self.ways if way.known != "none"]

    @property
    def _unproven(self) -> str:
        return f"nothing is proven of this version: 'wakeline doctor {self.harness}'"

    @property
    def ok(self) -> bool | None:
        return True if any(_wakes(way) for way in self.ways) else None

    @property
    def answer(self) -> dict[str, Any]:
        known = {way.known for way in self.ways}
        best = next((one for one in ("known", "shipped") if one in known), "none")
        return {**self._asdict(), "levels": best, "ways": [way._asdict() for way in self.ways]}


def look_around(context: Context) -> list[Found]:
    """Every harness that we know, here or not."""
    stored = _stored(context)
    with ThreadPoolExecutor(len(PINNED)) as pool:
        return list(pool.map(lambda harness: _look(harness, context.environ, stored), PINNED))


def _look(harness: str, environ: Mapping[str, str], stored: Stored) -> Found:
    installed = find(harness, environ)
    if installed is None:
        return Found(harness, None, cached=False, version=None, ways=[])
    version = _version(installed)
    found = [_way(harness, transport, version, stored) for transport in ways(harness)]
    return Found(harness, installed.command[-1], is_cached(installed, environ), version, found)


def _version(installed: Installed) -> str | None:
    try:
        said = installed.version(VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if said == "unknown" else said


def _way(harness: str, transport: str, version: str | None, stored: Stored) -> Way:
    kept = stored.get((harness, transport, version or ""))
    if kept is not None:
        return Way(transport, "known", kept)
    shipped = proven(harness, transport, version)
    return Way(transport, "shipped" if shipped else "none", dict(shipped))


def _wakes(way: Way) -> bool:
    return way.levels.get(IDLE_WAKE) == "pass"


def _stored(context: Context) -> Stored:
    """What the server knows beside what we ship.  Without one, or without a right to ask, that is nothing."""
    try:
        proofs = context.call(list_proofs())["proofs"]
    except (WakelineError, OSError):
        return {}
    return {(one["harness"], one["transport"], one["version"]): one["levels"] for one in proofs if not one["shipped"]}
