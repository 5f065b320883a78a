"""The plugin as files: what is shipped in the folder beside this module, with the command of this installation.

As it is shipped, the plugin runs `wakeline` from the PATH, and the companion finds its token and its server in the
environment of Claude Code.  `files` writes both into it, so that it works wherever it is started.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "plugin"
NAME = "wakeline"
SERVER = f"plugin:{NAME}:wakeline"
TOOLS = f"mcp__plugin_{NAME}_wakeline"  # as permission rules name them; with `__read_messages`, one of them

_SHIPPED = (".claude-plugin/plugin.json", ".mcp.json", "hooks/hooks.json", "hooks/rewake")


def files(command: Sequence[str] = ("wakeline",), environ: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Every file of the plugin by its path in it."""
    shipped = {name: (FOLDER / name).read_bytes() for name in _SHIPPED}
    words = shlex.join(command).encode()
    shipped["hooks/rewake"] = shipped["hooks/rewake"].replace(b"\nwakeline seat", b"\n" + words + b" seat")
    shipped[".mcp.json"] = _serve(shipped[".mcp.json"], command, environ or {})
    return shipped


def _serve(shipped: bytes, command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    document = msgspec.json.decode(shipped)
    server = document["mcpServers"]["wakeline"]
    server["command"], server["args"] = command[0], [*command[1:], *server["args"]]
    if environ:
        server["env"] = dict(environ)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def write(folder: Path, command: Sequence[str] = ("wakeline",), environ: Mapping[str, str] | None = None) -> None:
    for name, content in files(command, environ).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
