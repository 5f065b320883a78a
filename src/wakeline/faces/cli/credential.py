"""The token of a connection: whose it is, where it comes from, and that none is left over.

As the human, `connect` makes the agent and its token.  Who gives a token instead connects with that one, which is how a
harness is wired to a server on another machine.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeline import calls
from wakeline.connect import files
from wakeline.connect.record import Connection
from wakeline.errors import InvalidArgument, WakelineError
from wakeline.faces.cli.exchange import exchange

if TYPE_CHECKING:
    from wakeline.endpoint import Endpoint
    from wakeline.faces.cli.context import Context

NOTE = "connect"


def find_credential(context: Context, key: str, default: str, previous: Connection | None) -> Credential:
    """Whose sessions these will be: who was named, who it was, or the default."""
    endpoint, named = context.endpoint(), context.arguments.agent
    if endpoint.token is not None:
        own = exchange(endpoint, calls.whoami())["handle"]
        if named not in (None, own):
            hint = "Leave --agent out, or connect without a token, as the human."
            raise InvalidArgument("USAGE", f"The token is {own}'s, not {named}'s.", hint)
        return Given(own, endpoint.token)
    if named is None:
        named = previous.handle if previous else default
    return Made(named, endpoint, f"{NOTE} {key}", None if previous is None else previous.jti)


def default_handle(harness: str, project: Path | None) -> str:
    words = harness if project is None else f"{harness}.{project.name.lower()}"
    return f"@{re.sub(r'[^a-z0-9._-]+', '-', words)[:62].rstrip('-.')}"


@dataclass(frozen=True, slots=True)
class Given:
    """A token that somebody gave us."""

    handle: str
    token: str

    def obtain(self, place: Path) -> tuple[str, str | None]:
        return self.token, None

    def tidy(self, jti: str | None) -> None:
        """It is not ours to revoke."""


@dataclass(frozen=True, slots=True)
class Made:
    """A token that we make, once; a later run uses it as long as it opens something."""

    handle: str
    endpoint: Endpoint
    note: str
    replaced: str | None  # the id of the token that was used before, perhaps another agent's

    def obtain(self, place: Path) -> tuple[str, str | None]:
        kept = (files.read(place) or b"").decode("ascii", "replace").strip()
        if kept and self._opens(kept):
            return kept, id_of(kept)
        if self.handle not in self._handles():
            exchange(self.endpoint, calls.add_agent(self.handle, token=False))
        made: dict[str, Any] = exchange(self.endpoint, calls.create_token(self.handle, note=self.note))
        return made["token"], made["jti"]

    def _opens(self, token: str) -> bool:
        try:
            answer = exchange(self.endpoint.with_token(token), calls.whoami())
        except WakelineError:
            return False
        return bool(answer["handle"] == self.handle)

    def _handles(self) -> set[str]:
        return {agent["handle"] for agent in exchange(self.endpoint, calls.list_agents())["agents"]}

    def tidy(self, jti: str | None) -> None:
        """Revoke what this one replaces, and what an interrupted run has made and not used."""
        for token in exchange(self.endpoint, calls.list_tokens())["tokens"]:
            ours = token["note"] == self.note or token["jti"] == self.replaced
            if ours and token["jti"] != jti and not token["revoked_at"]:
                exchange(self.endpoint, calls.revoke_token(token["jti"]))


def id_of(token: str) -> str:
    """The token's own id.  The server has just verified the token, so its claims need only be read."""
    claims = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"])


Credential = Given | Made


def revoke(context: Context, connection: Connection) -> None:
    if connection.jti is not None:
        exchange(context.endpoint(), calls.revoke_token(connection.jti))
