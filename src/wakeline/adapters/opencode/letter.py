"""The message that a doorbell becomes in opencode.

Its ids are made from the mark alone, so that prompting twice cannot make two messages.  They are built as opencode
builds its own, time first, because its screen sorts by them.  The plugin makes the same ids: `harnesses/opencode`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeline.core.parcel import MARK_PREFIX

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_LENGTH = 10  # of a ULID: 48 bits of milliseconds, five to a letter
_CHANCE_LENGTH = 14
_SIGN = "WL"  # ends our ids; opencode's own are shorter by it
_ID_LENGTH = len("msg_") + 12 + _CHANCE_LENGTH + len(_SIGN)


@dataclass(slots=True)
class Letter:
    mark: str
    text: str
    message_id: str
    part_id: str
    shown: bool = False  # a call of the model has held it
    unwanted: bool = False  # its mail was read
    pokes: int = 0


def letter_of(mark: str, text: str) -> Letter:
    rest = _id_of(mark.removeprefix(MARK_PREFIX))
    return Letter(mark, text, f"msg_{rest}", f"prt_{rest}")


def is_ours(message_id: str) -> bool:
    return message_id.endswith(_SIGN) and len(message_id) == _ID_LENGTH


def _id_of(ulid: str) -> str:
    milliseconds = 0
    for sign in ulid[:_TIME_LENGTH]:
        milliseconds = milliseconds * 32 + max(0, _DIGITS.find(sign))
    time = (milliseconds * 4096) & ((1 << 48) - 1)  # what opencode keeps of its own
    return f"{time:012x}{ulid[-_CHANCE_LENGTH:]:0>{_CHANCE_LENGTH}}{_SIGN}"
