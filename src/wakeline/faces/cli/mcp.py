"""`mcp`: speak MCP on stdin and stdout, for a harness that starts its servers as commands."""

from __future__ import annotations

from wakeline.faces.cli.commands import OK, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

AS_SECONDS = 86_400  # `--as`: a token for a day, not for a minute


def mcp(context: Context) -> int:
    """A server that is away does not end it: its tools say so, and work when it is back."""
    import asyncio
    import os

    from wakeline.client import Client
    from wakeline.faces.mcp.acting import Acting
    from wakeline.faces.mcp.remote import Remote
    from wakeline.faces.mcp.stdio import serve
    from wakeline.runtime.processes import host_name

    endpoint = context.endpoint(as_seconds=AS_SECONDS)

    async def run() -> None:
        client = Client(url=endpoint.url, socket=endpoint.socket, token=endpoint.token, workspace=endpoint.workspace)
        async with client:
            await serve(Remote(client), Acting(started_by=(host_name(), os.getppid())))

    asyncio.run(run())
    return OK


COMMANDS = {
    "mcp": Command(
        mcp,
        examples=(
            "wakeline mcp --token-file ~/.config/wakeline/alice.token",
            "WAKELINE_URL=https://bus.example WAKELINE_TOKEN=… wakeline mcp",
        ),
    ),
}
