"""Which of the offered tools a reply means, and how that tool takes a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wakeline.testing.model.replies import Shell, Use
from wakeline.testing.model.request import Request, Tool

SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell")
COMMANDS = ("command", "cmd")


class NoSuchTool(Exception):
    """The reply wants a tool that the request does not offer: the answer is words that say so."""


def offers(request: Request, tool: str) -> bool:
    """Could the model call this tool?"""
    try:
        choose(Use(tool), request)
    except NoSuchTool:
        return False
    return True


def choose(reply: Use | Shell, request: Request) -> tuple[Tool, Mapping[str, Any]]:
    offered = request.tools
    if isinstance(reply, Shell):
        return _shell(reply, {tool.name: tool for tool in offered})
    # Claude Code offers few tools whole, and tells of the others in the conversation, by name.
    told = [Tool(name, {}) for name in re.findall(rf"\bmcp__\w+__{reply.tool}\b", request.text)]
    named = [tool for tool in (*offered, *told) if tool.name == reply.tool or tool.name.endswith(f"_{reply.tool}")]
    for tool in named:
        if reply.server in f"{tool.group or ''}_{tool.name}":
            return tool, reply.arguments
    raise NoSuchTool(reply.tool)


def _shell(reply: Shell, offered: Mapping[str, Tool]) -> tuple[Tool, Mapping[str, Any]]:
    for name in SHELLS:
        if name in offered:
            return offered[name], _arguments(reply, offered[name].schema.get("properties", {}))
    raise NoSuchTool("shell")


def _arguments(reply: Shell, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    key = next((key for key in COMMANDS if key in properties), COMMANDS[0])
    taken = properties.get(key, {}).get("type")
    arguments: dict[str, Any] = {key: ["bash", "-c", reply.command] if taken == "array" else reply.command}
    if "description" in properties:
        arguments["description"] = "what the test asks for"
    if reply.asks and "sandbox_permissions" in properties:
        arguments |= {"sandbox_permissions": "require_escalated", "justification": "May the test do this?"}
    return arguments
