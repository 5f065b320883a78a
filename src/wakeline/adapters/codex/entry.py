"""Whose a thread is: the agent whose token stands in the MCP entry that `wakeline connect codex` wrote."""

from __future__ import annotations

from pathlib import Path

from wakeline.adapters.codex.messages import McpServer

NAME = "wakeline"
BEARER = "bearer "


def token_of(entry: McpServer | None) -> str | None:
    if entry is None:
        return None
    environ = entry.env or {}
    if environ.get("WAKELINE_TOKEN"):
        return environ["WAKELINE_TOKEN"]
    if environ.get("WAKELINE_TOKEN_FILE"):
        return _read(environ["WAKELINE_TOKEN_FILE"])
    return _bearer(entry.http_headers or {})


def _read(path: str) -> str | None:
    try:
        return Path(path).expanduser().read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _bearer(headers: dict[str, str]) -> str | None:
    for name, value in headers.items():
        if name.lower() == "authorization" and value.lower().startswith(BEARER):
            return value[len(BEARER) :].strip() or None
    return None
