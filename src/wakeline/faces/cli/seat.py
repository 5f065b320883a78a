"""`seat`: what runs inside a harness's session and speaks for it to the bridge; harnesses start it, people do not."""

from __future__ import annotations

from wakeline.faces.cli.commands import OK, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context


def claude_code(context: Context) -> int:
    """The MCP tools, as `wakeline mcp` has them, and the companion beside them."""
    import asyncio

    from wakeline.client import Client
    from wakeline.faces.cli.claude_code import beside
    from wakeline.faces.mcp.acting import Acting
    from wakeline.faces.mcp.remote import Remote
    from wakeline.faces.mcp.stdio import serve

    endpoint = context.endpoint()

    async def run() -> None:
        client = Client(url=endpoint.url, socket=endpoint.socket, token=endpoint.token, workspace=endpoint.workspace)
        async with client, beside(endpoint, context.environ) as (unlisted, here):
            await serve(Remote(client), Acting(here), unlisted)

    asyncio.run(run())
    return OK


def hook(context: Context) -> int:
    """Of a Claude Code without an inbox socket.  Never ends with 2: that would wake the model."""
    import sys

    from wakeline.harnesses.claude_code import hook as hooks
    from wakeline.harnesses.claude_code import registry
    from wakeline.harnesses.claude_code.meeting import meeting_folder

    session = hooks.given(sys.stdin.buffer.read()).session_id
    folder = meeting_folder(context.environ)
    if context.arguments.part == "arm":
        print(hooks.arm(folder, session).decode())
        return OK
    if context.arguments.part == "changed":
        return hooks.ring_out(hooks.changed(folder, session))
    host = hooks.Host(registry.folder(context.environ), session)
    return hooks.ring_out(hooks.wait(folder, session, host))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("part", choices=("wait", "arm", "changed"), help="which of the hooks")


COMMANDS = {
    "seat claude-code": Command(
        claude_code,
        examples=(
            "wakeline seat claude-code",
            "WAKELINE_TOKEN_FILE=~/.config/wakeline/bob.token wakeline seat claude-code",
        ),
    ),
    "seat hook": Command(hook, arguments=_arguments, usage="PART", remote=False, examples=("wakeline seat hook wait",)),
}
