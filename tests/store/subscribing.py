"""Subscriptions and sessions in a word, for tests of what is decided and of what is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.store.builders import new_id
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import Session
from wakeline.core.subscription import Filters, Trigger
from wakeline.flow.subscribe import Route, Subscribe

URL = "https://hooks.example.org/a"
WEBHOOK = Route(target="a2a-webhook", url=URL, sealed_key="sealed")


class PutSession(msgspec.Struct, frozen=True):
    """A session as a harness would have reported it."""

    session: Session

    @property
    def workspace_id(self) -> int:
        return self.session.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.session.handle)

    def decide(self, picture: Picture) -> None:
        picture.put_session(self.session)


def session(caller: Caller, **fields: Any) -> Session:
    row = Session(
        session_id=new_id(), workspace_id=caller.workspace_id, handle=caller.handle, harness="claude-code",
        native_id=None, host=None, cwd=None, pid=None, pid_started_at=None, wake_mode="socket", replyable=1,
        capabilities="[]", levels="{}", presence="idle", active_turn_id=None, presence_source="test", presence_at=0,
        context_tokens=None, context_limit=None, resumable=0, task_id=None, branch=None, started_at=0, heartbeat_at=0,
    )  # fmt: skip
    return msgspec.structs.replace(row, **fields)


def subscribe(caller: Caller, route: Route = WEBHOOK, *, limit: int = 1000, **filters: Any) -> Subscribe:
    trigger = filters.pop("trigger", Trigger.SENT_TO_ME)
    return Subscribe(caller, new_id(), trigger, Filters(**filters), route, limit)
