"""Whose the sessions of a directory are: the agent whose token stands in the MCP entry that `wakeline connect` made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = "wakeline"
BEARER = "bearer "
_PLUGIN = "/opencode/wakeline.js"


def token_of(config: Mapping[str, Any]) -> str | None:
    entry = config.get("mcp", {}).get(NAME)
    if not isinstance(entry, Mapping):
        return None
    environ = entry.get("environment") or {}
    if environ.get("WAKELINE_TOKEN"):
        return str(environ["WAKELINE_TOKEN"])
    if environ.get("WAKELINE_TOKEN_FILE"):
        return _read(str(environ["WAKELINE_TOKEN_FILE"]))
    return _bearer(entry.get("headers") or {})


def has_companion(config: Mapping[str, Any]) -> bool:
    """The plugin looks after the sessions there, and can do more."""
    plugins = (one[0] if isinstance(one, list) and one else one for one in config.get("plugin") or ())
    return any(str(plugin).endswith(_PLUGIN) for plugin in plugins)


def _read(path: str) -> str | None:
    try:
        return Path(path).expanduser().read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _bearer(headers: Mapping[str, Any]) -> str | None:
    for name, value in headers.items():
        if name.lower() == "authorization" and str(value).lower().startswith(BEARER):
            return str(value)[len(BEARER) :].strip() or None
    return None
