"""The heartbeat: a watchdog for receivers that nothing else would reach.  A pulse is a log row and nothing else.

Who has a healthy push route is passed over, unless the diagnostic setting asks for everybody.  A route with filters is
none: nobody else would tell of the mail that they leave out.  A session is one only while its host has a bridge that
would ring in it.  MCP push does not count: it is a hint for who listens.
"""

from __future__ import annotations

import msgspec

from wakeline.core.bridge import is_attended
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.row_data import HEARTBEAT_PULSE, Pulsed
from wakeline.core.seat import is_proven
from wakeline.core.session import Session
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target, Trigger, is_filtered

_replace = msgspec.structs.replace


class Pulse(msgspec.Struct, frozen=True):
    workspace_id: int
    unread: dict[str, int]  # handle → how much lies unread
    before: int  # whoever was looked after since then is left alone
    bypass: bool  # pass over who has a healthy push route

    def needs(self, needs: Needs) -> None:
        needs.handles.update(self.unread)
        needs.subscriptions_of.update(self.unread)
        needs.sessions_of.update(self.unread)
        needs.bridges_of.update(self.unread)

    def decide(self, picture: Picture) -> list[str]:
        """Answers who got a pulse."""
        pulsed = []
        for handle, unread in self.unread.items():
            principal = picture.principals.get(handle)
            if principal is None or (principal.pulsed_at is not None and principal.pulsed_at > self.before):
                continue
            picture.put_principal(_replace(principal, pulsed_at=picture.now))
            if self._needs_one(picture, handle, unread):
                data = Pulsed(unread=unread).data()
                picture.append(HEARTBEAT_PULSE, PRINCIPAL_STREAM + handle, 0, SYSTEM, handle, data)
                pulsed.append(handle)
        return pulsed

    def _needs_one(self, picture: Picture, handle: str, unread: int) -> bool:
        mine = [row for row in picture.subscriptions.values() if row.handle == handle]
        if self.bypass and any(has_healthy_push(picture, row) for row in mine):
            return False
        return unread > 0 or any(row.trigger == Trigger.HEARTBEAT_PULSE for row in mine)


def has_healthy_push(picture: Picture, subscription: Subscription) -> bool:
    if subscription.trigger != Trigger.SENT_TO_ME or subscription.status != SubscriptionStatus.ACTIVE:
        return False
    if is_filtered(subscription):
        return False
    if subscription.target == Target.BRIDGE:
        return any(_is_reached(picture, row) for row in picture.sessions.values() if row.handle == subscription.handle)
    return subscription.target == Target.WEBHOOK


def _is_reached(picture: Picture, session: Session) -> bool:
    """Can it be woken, and is there somebody who would?"""
    attended = is_attended(picture.bridges.get(session.host or ""), picture.now)
    return session.ended_at is None and is_proven(session) and attended
