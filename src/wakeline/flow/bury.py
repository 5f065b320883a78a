"""Dead letters: keep what could not be brought anywhere, with its reason, and count refusals for the audit."""

from __future__ import annotations

import msgspec

from wakeline.core import guardrail
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.records import DeadLetter
from wakeline.errors import Conflict, NotFound

_replace = msgspec.structs.replace


class Bury(msgspec.Struct, frozen=True):
    """Keep a dead letter.  The store keeps the newest `limit` of each sender."""

    caller: Caller
    letter: DeadLetter
    rails: Guardrails

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.senders.add(self.caller.handle)

    def decide(self, picture: Picture) -> None:
        sender = self.caller.handle
        bucket = guardrail.take(picture.buckets.get(sender), self.workspace_id, sender, self.rails, picture.now)
        picture.put_bucket(bucket)  # what cannot be brought anywhere counts as sent, or it could fill the log
        letter = _replace(self.letter, created_at=picture.now)
        picture.put_dead_letter(letter)
        data = {"code": letter.code, "reason": letter.reason}
        stream = PRINCIPAL_STREAM + letter.sender
        picture.append("dead_letter.kept", stream, 0, letter.sender, letter.dead_letter_id, data)


class Redriven(msgspec.Struct, frozen=True):
    """Record what became of a dead letter that was sent again."""

    caller: Caller
    dead_letter_id: str
    message_id: str | None  # None: refused again

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.dead_letters.add(self.dead_letter_id)

    def decide(self, picture: Picture) -> None:
        letter = picture.dead_letters.get(self.dead_letter_id)
        if letter is None:
            raise NotFound("DEAD_LETTER_NOT_FOUND", f"There is no dead letter {self.dead_letter_id}.")
        if letter.redriven_at is not None:
            raise Conflict("ALREADY_REDRIVEN", "It was re-driven already.", message_id=letter.message_id)
        changed = _replace(letter, attempts=letter.attempts + 1)
        if self.message_id is not None:
            changed = _replace(changed, redriven_at=picture.now, message_id=self.message_id)
        picture.put_dead_letter(changed)
        data = {"accepted": self.message_id is not None, "message_id": self.message_id}
        stream = PRINCIPAL_STREAM + letter.sender
        picture.append("dead_letter.redriven", stream, 0, self.caller.handle, self.dead_letter_id, data)


class CountRefusal(msgspec.Struct, frozen=True):
    caller: Caller
    rule: str
    message: str

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        pass

    def decide(self, picture: Picture) -> None:
        picture.count_refusal(self.caller.handle, self.rule, self.message)
