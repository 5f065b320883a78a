"""What every service needs: the store, the rules, and where ids come from.  Made once, by bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import from_datetime
from wakeline.core.principal import Caller
from wakeline.core.store import Store
from wakeline.errors import Forbidden, InvalidArgument
from wakeline.flow.once import payload_hash
from wakeline.wire import Request


@dataclass(frozen=True, slots=True)
class Context:
    store: Store
    rails: Guardrails
    new_id: Callable[[], str]


def check_claims(caller: Caller, request: Request) -> None:
    """A payload may repeat what the token says; it may not say anything else."""
    if request.agent_id is not UNSET:
        _same("agent_id", request.agent_id, caller.handle)
    if request.workspace_id is not UNSET and request.workspace_id != caller.workspace:
        raise Forbidden(
            "WORKSPACE_MISMATCH",
            f"This token belongs to the workspace {caller.workspace}.",
            rule="workspace",
            workspace=caller.workspace,
        )


def digest(request: Request, **aside: Any) -> str:
    """What makes two requests the same: what they ask for; not claims that they repeat, nor what is put `aside`."""
    return payload_hash(msgspec.structs.replace(request, agent_id=UNSET, workspace_id=UNSET, **aside))


def check_sender(caller: Caller, sender: str | UnsetType, from_: str | UnsetType, session_id: str | UnsetType) -> None:
    if sender is not UNSET:
        _same("sender", sender, caller.handle)
    if from_ is not UNSET:
        _same("from", from_, caller.handle)
    if session_id is not UNSET:
        check_session(caller, session_id)


def check_session(caller: Caller, session_id: str | UnsetType) -> None:
    """A token of one session speaks for no other; whose session another token may name, the registry knows."""
    if caller.session_id is not None and session_id is not UNSET:
        _same("session_id", session_id, caller.session_id)


def to_instant(field: str, moment: datetime | None) -> int | None:
    if moment is None:
        return None
    try:
        return from_datetime(moment.astimezone(UTC))
    except OverflowError as error:
        raise InvalidArgument(
            "INVALID_ARGUMENT", f"'{field}' lies in a year that UTC does not have.", "Choose another."
        ) from error


def _same(field: str, said: str, known: str | None) -> None:
    if said != known:
        raise Forbidden(
            "CLAIM_MISMATCH", f"'{field}' contradicts the credentials of this call.", rule="claims", field=field
        )
