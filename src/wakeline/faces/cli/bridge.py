"""`bridge`: ring inside the sessions of this host for a server that runs elsewhere, until told to stop."""

from __future__ import annotations

from wakeline.faces.cli.commands import OK, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="the server, as http://host:port")
    parser.add_argument("--host", metavar="NAME", help="this host's name; it must be the one that the token is for")


def bridge(context: Context) -> int:
    import asyncio
    import logging
    import os
    import sys

    from wakeline.endpoint import find_endpoint
    from wakeline.errors import Unauthorized
    from wakeline.runtime.bridge_parts import run_alone
    from wakeline.runtime.settings import load

    given = context.arguments
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    os.umask(0o077)
    flags = {**vars(given), "url": given.server}
    endpoint = find_endpoint(flags, context.environ, operator=False)
    if endpoint.token is None:
        raise Unauthorized(
            "TOKEN_MISSING",
            "A bridge needs a token for its host.",
            "Make one with 'wakeline token create --bridge HOST', and give it by --token-file or WAKELINE_TOKEN.",
        )
    place = {"url": endpoint.url, "socket": endpoint.socket}
    settings, _ = load({"data": endpoint.data}, context.environ)
    asyncio.run(run_alone(settings, endpoint.token, host=given.host, **place))
    return OK


COMMANDS = {
    "bridge": Command(
        bridge,
        arguments=_arguments,
        examples=(
            "wakeline bridge --server https://bus.example --token-file ~/.config/wakeline/bridge.token",
            "wakeline bridge --server http://10.0.0.5:7799 --host buildhost",
        ),
    ),
}
