"""Launch: a bridge claims what is to be started on its host, says that it runs, and settles what came of it.

The fence is the right to speak for an attempt.  A lease that runs out means that nobody knows: the attempt has failed,
and a bridge that comes back to a process of a settled attempt ends it.  Processes that bring nothing are counted; after
a few in a row no more are started, and the human hears of it.
"""

from __future__ import annotations

import msgspec

from wakeline.core.activation import (
    CLAIM_SECONDS,
    GRACE_SECONDS,
    Activation,
    ActivationRules,
    Allowed,
    Dormancy,
    Idle,
    Mandate,
    Result,
    Way,
    pause,
    undisturbed,
)
from wakeline.core.instant import SECOND
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import Session
from wakeline.errors import NotFound
from wakeline.flow import escalate
from wakeline.flow.activate import is_awake, is_unread, tell
from wakeline.flow.introduce import Introduction, introduce, part
from wakeline.flow.tend import admit_bridge

_replace = msgspec.structs.replace

UNREAD = "mail_unread"
STOPPED = Idle.STOPPED


class Found(msgspec.Struct, frozen=True):
    """As much of an attempt as its commands must name."""

    activation_id: str
    handle: str
    message_id: str | None
    session_id: str | None = None

    def needs(self, needs: Needs) -> None:
        needs.activations.add(self.activation_id)
        needs.mandates.add(self.handle)
        needs.sessions_of.add(self.handle)
        if self.session_id is not None:
            needs.sessions.add(self.session_id)
        if self.message_id is not None:
            needs.receipts.add((self.message_id, self.handle))


class Order(msgspec.Struct, frozen=True):
    activation: Activation
    mandate: Mandate
    session: Session | None


class ClaimActivations(msgspec.Struct, frozen=True):
    """Take these up, as far as they are still wanted."""

    caller: Caller
    bridge_id: str
    found: tuple[Found, ...]
    rules: ActivationRules

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.bridges.add(self.caller.host or "")
        for one in self.found:
            one.needs(needs)

    def decide(self, picture: Picture) -> list[Order]:
        host = admit_bridge(picture, self.caller, self.bridge_id)
        taken = []
        for one in self.found:
            row = picture.activations.get(one.activation_id)
            if row is None or row.result is not None or row.lease_owner is not None or row.host != host:
                continue
            order = self._take(picture, row)
            taken += [order] if order is not None else []
        return taken

    def _take(self, picture: Picture, row: Activation) -> Order | None:
        """Everything is looked at once more, just before a process is started."""
        mandate, dormancy = picture.mandates.get(row.handle), picture.dormancies.get(row.handle)
        if not is_unread(picture, row.handle, row.message_id):
            settle(picture, row, Result.ALREADY_ACTIVE, Idle.READ, self.rules)
        elif is_awake(picture, row.handle, self.rules):
            settle(picture, row, Result.ALREADY_ACTIVE, None, self.rules)
        elif mandate is None or not allows(mandate, row.way):
            settle(picture, row, Result.FAILED, Idle.NOT_ALLOWED, self.rules)
        elif dormancy is not None and dormancy.stopped_at is not None:
            settle(picture, row, Result.FAILED, STOPPED, self.rules)
        else:
            until = picture.now + CLAIM_SECONDS * SECOND
            row = _replace(row, lease_owner=self.bridge_id, lease_until=until, fence=row.fence + 1)
            picture.put_activation(row)
            return Order(row, mandate, picture.sessions.get(row.session_id or ""))
        return None


def allows(mandate: Mandate, way: str) -> bool:
    return mandate.allow == Allowed.SPAWN or (mandate.allow == Allowed.RESUME and way == Way.RESUME)


class Settled(msgspec.Struct, frozen=True):
    """`stale`: it is not the caller's any more; nothing was changed."""

    stale: bool
    activation: Activation | None


class StartActivation(msgspec.Struct, frozen=True):
    """Its process runs, as the leader of a group of its own; perhaps it has said in which session."""

    caller: Caller
    activation_id: str
    fence: int
    pid: int
    pid_started_at: int | None
    rules: ActivationRules
    session: Introduction | None = None

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.activations.add(self.activation_id)
        if self.session is not None:
            self.session.needs(needs)

    def decide(self, picture: Picture) -> Settled:
        row = held(picture, self.activation_id, self.fence, self.caller)
        if row is None:
            return Settled(stale=True, activation=None)
        time = (self.rules.activation_seconds + GRACE_SECONDS) * SECOND
        row = _replace(
            row,
            pid=self.pid,
            pid_started_at=self.pid_started_at,
            started_at=row.started_at or picture.now,
            lease_until=(row.started_at or picture.now) + time,
        )
        if self.session is not None:
            row = _replace(row, session_id=introduce(picture, row, self.session).session_id)
        picture.put_activation(row)
        return Settled(stale=False, activation=row)


class SettleActivation(msgspec.Struct, frozen=True):
    """What came of it: it `ended`, was not started because the session is `already_active`, or `failed` to start."""

    caller: Caller
    found: Found
    fence: int
    end: str
    reason: str | None
    exit_status: int | None
    output: str | None
    rules: ActivationRules
    human: str
    session: Introduction | None = None

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        self.found.needs(needs)
        escalate.needs(needs)
        if self.session is not None:
            self.session.needs(needs)

    def decide(self, picture: Picture) -> Settled:
        row = held(picture, self.found.activation_id, self.fence, self.caller)
        if row is None:
            return Settled(stale=True, activation=None)
        row = _replace(row, exit_status=self.exit_status, output=self.output)
        if self.session is not None and self.end != Result.ALREADY_ACTIVE:  # else it is somebody else's
            row = _replace(row, session_id=part(picture, row, self.session).session_id)
        result, reason = self._judge(picture, row)
        settle(picture, row, result, reason, self.rules, self.human)
        return Settled(stale=False, activation=picture.activations[row.activation_id])

    def _judge(self, picture: Picture, row: Activation) -> tuple[Result, str | None]:
        if row.stop_asked_by is not None:  # however it ended: a human wants no more of it
            return Result.FAILED, STOPPED
        if self.end == "already_active":
            return Result.ALREADY_ACTIVE, self.reason
        if self.end == "failed":
            return Result.FAILED, self.reason or "failed"
        if self.exit_status != 0:
            return Result.FAILED, self.reason or "exit_status"
        unread = is_unread(picture, row.handle, row.message_id)
        return Result.RESUMED if row.way == Way.RESUME else Result.SPAWNED, UNREAD if unread else None


class LapseActivations(msgspec.Struct, frozen=True):
    """The time of these is over: no bridge took them up, or none said what came of them."""

    workspace_id: int
    found: tuple[Found, ...]
    waiting_seconds: int
    rules: ActivationRules
    human: str

    def needs(self, needs: Needs) -> None:
        escalate.needs(needs)
        for one in self.found:
            one.needs(needs)

    def decide(self, picture: Picture) -> int:
        ended = 0
        for one in self.found:
            row = picture.activations.get(one.activation_id)
            if row is None or row.result is not None or not self._is_over(row, picture.now):
                continue
            reason = STOPPED if row.stop_asked_by is not None else _lapsed(row)
            fenced = _replace(row, fence=row.fence + 1)
            settle(picture, fenced, Result.FAILED, reason, self.rules, self.human)
            ended += 1
        return ended

    def _is_over(self, row: Activation, now: int) -> bool:
        end = row.lease_until or row.created_at + self.waiting_seconds * SECOND
        return end <= now


def _lapsed(row: Activation) -> str:
    return Idle.NO_BRIDGE if row.lease_until is None else "lease_expired"


class StopActivation(msgspec.Struct, frozen=True):
    """A human ends it.  What nobody has claimed ends at once; else its bridge is told."""

    caller: Caller
    found: Found
    rules: ActivationRules

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        self.found.needs(needs)

    def decide(self, picture: Picture) -> Activation:
        row = picture.activations.get(self.found.activation_id)
        if row is None:
            raise not_found(self.found.activation_id)
        if row.result is not None or row.stop_asked_by is not None:
            return row
        row = _replace(row, stop_asked_by=self.caller.handle)
        picture.put_activation(row)
        if row.lease_owner is None:
            settle(picture, row, Result.FAILED, STOPPED, self.rules)
        return picture.activations[row.activation_id]


def not_found(activation_id: str) -> NotFound:
    return NotFound("ACTIVATION_NOT_FOUND", f"There is no activation {activation_id}.")


def held(picture: Picture, activation_id: str, fence: int, caller: Caller) -> Activation | None:
    """The attempt, if the caller still holds it."""
    row = picture.activations.get(activation_id)
    if row is None or row.result is not None or row.fence != fence or row.lease_owner is None:
        return None
    return row if row.host == caller.host else None


# Ends that say nothing about whether another process would fare better.
_INNOCENT = frozenset({STOPPED, Idle.NO_BRIDGE, Idle.NOT_ALLOWED, "bridge_restarted"})


def settle(
    picture: Picture,
    row: Activation,
    result: Result,
    reason: str | None,
    rules: ActivationRules,
    human: str | None = None,
) -> None:
    row = _replace(row, result=result, reason=reason, lease_owner=None, lease_until=None, settled_at=picture.now)
    picture.put_activation(row)
    tell(picture, row)
    dormancy = picture.dormancies.get(row.handle) or undisturbed(row.workspace_id, row.handle)
    if reason == UNREAD or (result is Result.FAILED and reason not in _INNOCENT):
        _fail(picture, row, dormancy, rules, human)
    elif reason == STOPPED:
        picture.put_dormancy(_replace(dormancy, stopped_at=picture.now, reason=STOPPED, updated_at=picture.now))
    elif result in (Result.RESUMED, Result.SPAWNED):
        picture.put_dormancy(_replace(dormancy, failures=0, last_way=None, reason=None, updated_at=picture.now))
    else:
        next_at = picture.now + pause(row.attempt, rules)
        picture.put_dormancy(_replace(dormancy, reason=reason or result, next_at=next_at, updated_at=picture.now))


def _fail(picture: Picture, row: Activation, before: Dormancy, rules: ActivationRules, human: str | None) -> None:
    failures = before.failures + 1
    next_at = picture.now + pause(failures, rules)
    after = _replace(
        before, failures=failures, last_way=row.way, next_at=next_at, reason=row.reason, updated_at=picture.now
    )
    if failures >= rules.activation_failure_limit and before.stopped_at is None:
        after = _replace(after, stopped_at=picture.now, reason=Idle.CRASH_LOOP)
        _alarm(picture, row, failures, human or "")
    picture.put_dormancy(after)


def _alarm(picture: Picture, row: Activation, failures: int, human: str) -> None:
    humans = escalate.humans(picture, human)
    if not humans:
        return
    body = (
        f"{failures} processes in a row were started for {row.handle} and brought nothing; the last one ended with "
        f"'{row.reason}'. No more are started. 'wakeline activations show {row.activation_id}' shows what it printed; "
        f"'wakeline agent activation {row.handle} --allow {row.way}' allows it again."
    )
    metadata = {"event": "activation_stopped", "handle": row.handle, "activation_id": row.activation_id}
    escalate.incident(picture, row.activation_id, f"{row.handle} cannot be brought back", body, humans, metadata)
