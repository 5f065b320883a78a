"""pi: an extension in a folder of its own, with what it must know in a file beside it.

pi has no MCP; the extension brings our tools along.
"""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.connect.change import Edit, Whole
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire, beside, shipped

PROGRAM = "pi"
_PACKAGE = {"name": NAME, "private": True, "type": "module", "pi": {"extensions": ["./pi/wakeline.ts"]}}


class Pi:
    program = PROGRAM

    def root(self, place: Place) -> Path:
        return place.project / ".pi" if place.project else place.directory("PI_CODING_AGENT_DIR", ".pi/agent")

    def edits(self, place: Place, wire: Wire) -> list[Edit]:
        return extension(self.root(place) / "extensions" / NAME, wire)

    def notes(self, place: Place) -> tuple[str, ...]:
        trust = ("pi loads a project's extensions once the project is trusted.",) if place.project else ()
        return ("Sessions that are open load it with /reload; new ones by themselves.", *trust)

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        """An extension that is there already goes by the environment too; a second one would take the same seat."""
        if _entry(self.root(place) / "extensions" / NAME).exists():
            return Launch(PROGRAM, (), wire.environ)
        return Launch(PROGRAM, ("-e", str(_entry(own / NAME))), wire.environ, extension(own / NAME, wire))


def _entry(folder: Path) -> Path:
    return folder / "pi" / "wakeline.ts"


def extension(folder: Path, wire: Wire) -> list[Edit]:
    """The folders stand beside each other as they do where we ship them, because the files refer to each other so."""
    contents = {f"{part}/{name}": text for part in ("companion", "pi") for name, text in shipped(part).items()}
    contents["pi/wakeline.json"] = beside(wire)
    contents["package.json"] = f"{json.dumps(_PACKAGE, indent=2)}\n"
    return [Whole(str(folder / name), text) for name, text in contents.items()]
