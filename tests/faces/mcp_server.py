"""The real server with a door for tests: POST /test/push offers a wake event to somebody's connections.

The events themselves come from the wake engine; here only their way to the connections is of interest.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from wakeline.faces.http.answers import Send, send_bytes
from wakeline.faces.http.app import Mounted, Scope
from wakeline.faces.http.parsing import Receive, read_body
from wakeline.runtime import bootstrap, settings
from wakeline.service import Caller, Services

COMMAND = (sys.executable, "-m", "tests.faces.mcp_server")


class PushDoor:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def serve(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> int:
        asked = json.loads(await read_body(receive, 10_000_000))
        push = self._services.pushes.push
        taken = [push(caller.workspace_id, asked["handle"], json.dumps(event).encode()) for event in asked["events"]]
        await send_bytes(send, 200, json.dumps(taken).encode(), [(b"content-type", b"application/json")])
        return 200


def mounts(services: Services) -> Mapping[str, Mounted]:
    return {"/test/push": PushDoor(services)}


if __name__ == "__main__":
    sys.exit(bootstrap.serve(settings.load({}, os.environ)[0], bootstrap.Additions(mounts=mounts)))
