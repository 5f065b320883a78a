"""Activate: look at one dormant agent with unread mail, and do the next thing that may be done for it.

Ordinary wakes first; then, where a human allows it, a process that a bridge starts.  What is decided here is a row and
no more: the bridge of the host claims it, starts it and settles it (`launch.py`).  Deciding twice, on two nodes or
after a crash, finds the row of the first time.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from wakeline.core.activation import (
    Activation,
    ActivationRules,
    Dormancy,
    Idle,
    Launch,
    Place,
    Result,
    Situation,
    Stand,
    Trigger,
    Way,
    decide_activation,
    pause,
    undisturbed,
)
from wakeline.core.allowance import activation_bucket, take
from wakeline.core.bridge import is_attended
from wakeline.core.ids import derived
from wakeline.core.instant import SECOND
from wakeline.core.log import HOST_STREAM, PRINCIPAL_STREAM
from wakeline.core.message import Box, Receipt
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.quiet import quiet_until
from wakeline.core.records import Bucket
from wakeline.core.session import Session, is_beating, latest_resumable
from wakeline.core.wake import WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow import evidence
from wakeline.flow.plan import Stamp, is_ringing, open_wakes, plan

_replace = msgspec.structs.replace

OPEN = "activation.planned"
SETTLED = "activation.settled"


class Mail(msgspec.Struct, frozen=True):
    """A message that wants to wake."""

    message_id: str
    thread_id: str
    log_id: int
    created_at: int


class Activate(msgspec.Struct, frozen=True):
    """Answers the attempt that was made or planned, if there was one."""

    workspace_id: int
    handle: str
    mail: tuple[Mail, ...]  # what a reader found unread
    counted_from: str | None  # the message that an earlier look counted from
    sessions: tuple[str, ...]  # the agent's latest, ended or not
    addressed: str | None  # the one session that the mail is for
    hosts: tuple[str, ...]
    subscriptions: tuple[str, ...]  # of the agent
    rung: tuple[tuple[str, int], ...]  # wakes that were rung for mail that stays unread
    rules: ActivationRules
    wake_rules: WakeRules
    stamp: Stamp

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.handle)
        needs.mandates.add(self.handle)
        needs.senders.add(activation_bucket(self.handle))
        needs.bridges.update(self.hosts)
        needs.sessions.update(self.sessions)
        needs.sessions_of.add(self.handle)
        ids = {one.message_id for one in self.mail} | ({self.counted_from} if self.counted_from else set())
        needs.receipts.update((message_id, self.handle) for message_id in ids)
        needs.wakes.update(self.rung)
        evidence.need_plans(needs, {*self.subscriptions, *(subscription_id for subscription_id, _ in self.rung)})

    def decide(self, picture: Picture) -> Activation | None:
        principal = picture.principals.get(self.handle)
        if principal is None or principal.retired_at is not None:
            return None
        dormancy = self._counted(picture)
        facts = self._situation(picture, dormancy)
        verdict = decide_activation(facts, self.rules, picture.now)
        match verdict:
            case Stand():
                self._note(picture, dormancy, verdict)
                return None
            case Trigger():
                return self._trigger(picture, dormancy)
            case Launch():
                return self._launch(picture, dormancy, verdict)
            case _:
                assert_never(verdict)

    # -- facts --------------------------------------------------------------------------------------------------------

    def _counted(self, picture: Picture) -> Dormancy:
        """How far we are.  Mail that was read since begins the count again, but does not lift a stop."""
        found = picture.dormancies.get(self.handle) or undisturbed(self.workspace_id, self.handle)
        if found.message_id is None or is_unread(picture, self.handle, found.message_id):
            return found
        fresh = undisturbed(self.workspace_id, self.handle)
        return (
            fresh if found.stopped_at is None else _replace(fresh, stopped_at=found.stopped_at, failures=found.failures)
        )

    def _situation(self, picture: Picture, dormancy: Dormancy) -> Situation:
        processes = [one for one in picture.activations.values() if one.result is None]
        mine = [one for one in processes if one.handle == self.handle]
        covered_to = max((one.log_id for one in mine), default=-1)
        unread = [one for one in self.mail if is_unread(picture, self.handle, one.message_id)]
        news = [one for one in unread if one.log_id > covered_to]
        principal = picture.principals[self.handle]
        allowed = self._take(picture)
        return Situation(
            unread_since=min((one.created_at for one in unread), default=None),
            awake=is_awake(picture, self.handle, self.rules),
            quiet_until=quiet_until(principal.quiet, principal.dnd_until, picture.now),
            ringing=any(is_ringing(picture, one) for one in self.subscriptions),
            dormancy=dormancy,
            mandate=picture.mandates.get(self.handle),
            covered=bool(mine) and not news,
            of_agent=len(mine),
            of_workspace=len(processes),
            rate_until=allowed if isinstance(allowed, int) else None,
            resume=self._resumed(picture),
            spawn=self._spawned(picture),
        )

    def _take(self, picture: Picture) -> Bucket | int:
        mandate, name = picture.mandates.get(self.handle), activation_bucket(self.handle)
        per_hour = self.rules.activation_per_hour if mandate is None else mandate.max_per_hour
        per_hour = min(per_hour, self.rules.activation_per_hour)
        return take(picture.buckets.get(name), self.workspace_id, name, per_hour, picture.now)

    def _sessions(self, picture: Picture) -> list[Session]:
        found = [one for one in picture.sessions.values() if one.handle == self.handle]
        return [one for one in found if self.addressed in (None, one.session_id)]

    def _resumed(self, picture: Picture) -> Place | None:
        able = (one for one in self._sessions(picture) if one.host is not None and one.native_id is not None)
        session = latest_resumable(able)
        if session is None or session.host is None:
            return None
        return Place(session.host, is_attended(picture.bridges.get(session.host), picture.now), session.session_id)

    def _spawned(self, picture: Picture) -> Place | None:
        """Where the mandate says, else where the agent last was.  A session that was addressed is never replaced."""
        mandate = picture.mandates.get(self.handle)
        if mandate is None or self.addressed is not None:
            return None
        latest = max(self._sessions(picture), key=lambda one: (one.heartbeat_at, one.session_id), default=None)
        host = mandate.host or (latest.host if latest is not None else None)
        known = mandate.command or mandate.harness or (latest.harness if latest is not None else None)
        if host is None or known is None:
            return None
        return Place(host, is_attended(picture.bridges.get(host), picture.now))

    # -- what is done -------------------------------------------------------------------------------------------------

    def _note(self, picture: Picture, before: Dormancy, verdict: Stand) -> None:
        """Why nothing is done.  A look without news writes nothing, and one with an end waits for it."""
        if verdict.why in (Idle.READ, Idle.AWAKE):
            return
        known = picture.dormancies.get(self.handle)
        first = before.message_id or (self.mail[0].message_id if self.mail else None)
        after = _replace(
            before,
            message_id=first,
            reason=verdict.why,
            next_at=verdict.until or before.next_at,
            updated_at=picture.now,
        )
        if known is None or _replace(known, updated_at=0) != _replace(after, updated_at=0):
            picture.put_dormancy(after)

    def _trigger(self, picture: Picture, dormancy: Dormancy) -> Activation:
        theirs = {*self.subscriptions, *(subscription_id for subscription_id, _ in self.rung)}
        for key in self.rung:
            wake = picture.wakes.get(key)
            if wake is not None and wake.state == WakeState.RUNG and is_unread(picture, self.handle, wake.message_id):
                picture.put_wake(_replace(wake, state=WakeState.WAITING, poke_at=None, updated_at=picture.now))
        for subscription_id in sorted(theirs):
            plan(picture, subscription_id, self.wake_rules, self.stamp)
        went_out = any(is_ringing(picture, one) for one in theirs)
        held = [wake.reason for one in theirs for wake in open_wakes(picture, one) if wake.reason is not None]
        tries = dormancy.tries + 1
        row = self._row(picture, Way.TRIGGER, None, tries)
        reason = None if went_out else next(iter(held), str(Why.NO_ROUTE))
        row = _replace(row, result=Result.TRIGGERED if went_out else Result.FAILED, reason=reason)
        row = _replace(row, settled_at=picture.now)
        picture.put_activation(row)
        tell(picture, row)
        # Where there was no way in there is nothing to wait for: the next look goes on at once.
        next_at = picture.now + pause(tries, self.rules) if went_out else picture.now
        self._count(picture, dormancy, tries=tries, unreachable=int(not went_out), next_at=next_at, reason=reason)
        return row

    def _launch(self, picture: Picture, dormancy: Dormancy, verdict: Launch) -> Activation:
        bucket = self._take(picture)
        if isinstance(bucket, Bucket):
            picture.put_bucket(bucket)
        row = self._row(picture, verdict.way, verdict.place, dormancy.failures + 1)
        picture.put_activation(row)
        data = {"handle": self.handle, "way": row.way}
        picture.append(OPEN, HOST_STREAM + verdict.place.host, 0, SYSTEM, row.activation_id, data)
        self._count(picture, dormancy, reason="under_way", next_at=picture.now + pause(1, self.rules))
        return row

    def _count(self, picture: Picture, before: Dormancy, **changes: object) -> None:
        first = before.message_id or self.mail[0].message_id
        picture.put_dormancy(_replace(before, message_id=first, updated_at=picture.now, **changes))

    def _row(self, picture: Picture, way: Way, place: Place | None, attempt: int) -> Activation:
        mine = [one.log_id for one in picture.activations.values() if one.handle == self.handle and one.result is None]
        covered_to = max(mine, default=-1)
        unread = [one for one in self.mail if is_unread(picture, self.handle, one.message_id)]
        first = next((one for one in unread if one.log_id > covered_to), unread[0])
        return Activation(
            activation_id=derived(self.stamp.seed, f"activation {self.handle}"),
            workspace_id=self.workspace_id,
            handle=self.handle,
            way=way,
            session_id=None if place is None else place.session_id,
            host=None if place is None else place.host,
            thread_id=first.thread_id,
            message_id=first.message_id,
            log_id=picture.last_log_id,
            attempt=attempt,
            result=None,
            reason=None,
            lease_owner=None,
            lease_until=None,
            fence=0,
            pid=None,
            pid_started_at=None,
            exit_status=None,
            output=None,
            stop_asked_by=None,
            created_at=picture.now,
        )


def is_unread(picture: Picture, handle: str, message_id: str | None) -> bool:
    """A command that asks must need the receipt."""
    message = picture.messages.get(message_id or "")
    receipt = None if message is None else picture.receipts.get((message.thread_id, message.seq, handle))
    return _is_open(receipt, picture.now)


def _is_open(receipt: Receipt | None, now: int) -> bool:
    if receipt is None or receipt.box != Box.UNREAD:
        return False
    return receipt.expires_at is None or receipt.expires_at > now


def is_awake(picture: Picture, handle: str, rules: ActivationRules) -> bool:
    silent = rules.dormant_seconds * SECOND
    return any(one.handle == handle and is_beating(one, picture.now, silent) for one in picture.sessions.values())


def tell(picture: Picture, row: Activation) -> None:
    """One row of the log for each attempt that has come to an end, with the session that it continued or began."""
    data = {"way": row.way, "result": row.result, "reason": row.reason, "session_id": row.session_id}
    picture.append(SETTLED, PRINCIPAL_STREAM + row.handle, 0, SYSTEM, row.activation_id, data)
