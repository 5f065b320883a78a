"""Dead letters: what could not be brought anywhere, and sending it again."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from wakeline import wire
from wakeline.core import policy
from wakeline.core.principal import Caller
from wakeline.core.queries import DeadLetterFor, DeadLetterList, PrincipalFor
from wakeline.core.records import DeadLetter
from wakeline.errors import Conflict, Forbidden, InvalidArgument, NotFound, WakelineError
from wakeline.flow.bury import Redriven
from wakeline.service import views
from wakeline.service.context import Context
from wakeline.service.messages import Messages

_decode = msgspec.json.Decoder(wire.PostMessage).decode


class DeadLetters:
    def __init__(self, context: Context, messages: Messages) -> None:
        self._context = context
        self._messages = messages

    async def list(self, caller: Caller, query: wire.DeadLettersQuery) -> wire.DeadLetters:
        sender = query.sender or ("" if caller.reads_everything else caller.handle)
        if sender != caller.handle and not caller.reads_everything:
            raise Forbidden("ROLE_FORBIDDEN", "An agent sees its own dead letters only.", rule="dead_letters")
        rows = await self._context.store.read(DeadLetterList(caller.workspace_id, sender, int(query.open), query.limit))
        return wire.DeadLetters(dead_letters=[views.dead_letter(row) for row in rows])

    async def redrive(self, caller: Caller, dead_letter_id: str) -> wire.Posted:
        """Send it again as its sender.  Twice at once is once: the dead letter's id is the idempotency key."""
        policy.require_human(caller, "re-drive dead letters")
        store = self._context.store
        found = await store.read(DeadLetterFor(caller.workspace_id, dead_letter_id))
        if not found:
            raise NotFound("DEAD_LETTER_NOT_FOUND", f"There is no dead letter {dead_letter_id}.")
        letter = found[0]
        if letter.redriven_at is not None:
            raise Conflict("ALREADY_REDRIVEN", "It was re-driven already.", message_id=letter.message_id)
        sender = await self._sender(caller, letter)
        try:
            posted = await self._messages.send(sender, self._request(letter))
        except WakelineError:
            await store.submit(Redriven(caller, dead_letter_id, None))
            raise
        await store.submit(Redriven(caller, dead_letter_id, posted.message_id))
        return posted

    def _request(self, letter: DeadLetter) -> wire.PostMessage:
        try:
            request = _decode(letter.payload)
        except msgspec.MsgspecError as error:
            raise InvalidArgument("INVALID_ARGUMENT", f"This input never was a message: {error}.") from error
        key = request.idempotency_key or f"redrive:{letter.dead_letter_id}"
        return msgspec.structs.replace(request, idempotency_key=key, session_id=UNSET)

    async def _sender(self, caller: Caller, letter: DeadLetter) -> Caller:
        found = await self._context.store.read(PrincipalFor(caller.workspace_id, letter.sender))
        if not found or found[0].retired_at is not None:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {letter.sender} any more.")
        row = found[0]
        return Caller(caller.workspace_id, caller.workspace, row.handle, row.kind, views.leading_role(row))
