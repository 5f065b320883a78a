"""What a server and its writer send each other: a length, a few numbers, and objects.

Both ends are the same program, and nobody else has the socket.  What travels with every post (`Packed`) is packed whole
by its own types, the rest is pickled: that takes twice as long, and longer still when it was not done just before.
A frame says of which types its objects are, so that none needs a number of its own and none depends on another frame.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from wakeline.core.packed import Packed

LENGTH_BYTES = 8
CHUNK_BYTES = 1 << 20
PICKLED = 0
KNOWN = 512  # combinations of types

Content = tuple[list[int], list[Any]]  # numbers, objects


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    numbers: list[int]
    types: bytes
    kinds: list[int]  # of each object: PICKLED (or nothing), or which of the types
    objects: list[msgspec.Raw]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Frame).decode
_decode_pickled = msgspec.msgpack.Decoder(bytes | None).decode


def pack(numbers: Sequence[int], objects: Sequence[Any]) -> bytes:
    kinds = [type(one) for one in objects]
    types, kind_of, strange = _told(tuple(dict.fromkeys(kinds)))
    if strange:
        objects = [pickle.dumps(one, pickle.HIGHEST_PROTOCOL) if type(one) in strange else one for one in objects]
    body = _encode((numbers, types, [kind_of[kind] for kind in kinds], objects))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


@lru_cache(KNOWN)
def _told(kinds: tuple[type, ...]) -> tuple[bytes, dict[type, int], frozenset[type]]:
    """The types as a frame says them, which number each kind of object gets, and which kinds must be pickled."""
    packed = [kind for kind in kinds if issubclass(kind, Packed)]
    kind_of = {**dict.fromkeys(kinds, PICKLED), **{kind: number for number, kind in enumerate(packed, PICKLED + 1)}}
    strange = frozenset(kinds).difference(packed, [type(None)])
    return pickle.dumps(packed, pickle.HIGHEST_PROTOCOL), kind_of, strange


@lru_cache(KNOWN)
def _decoders(types: bytes) -> list[Callable[[Any], Any]]:
    return [_unpickled, *(_decoder(kind) for kind in pickle.loads(types))]  # noqa: S301 - from our own other half


@lru_cache
def _decoder(kind: type) -> Callable[[Any], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def _unpickled(raw: msgspec.Raw) -> Any:
    pickled = _decode_pickled(raw)
    return None if pickled is None else pickle.loads(pickled)  # noqa: S301 - as above


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._bytes = bytearray()
        self._chunk = bytearray(CHUNK_BYTES)  # made once: so large a piece would be asked of the system each time

    def receive(self) -> list[Content] | None:
        """The frames that are whole by now; None at the end of the line."""
        received = self._line.recv_into(self._chunk)
        if not self._bytes and received == LENGTH_BYTES + int.from_bytes(self._chunk[:LENGTH_BYTES], "big"):
            return [_unpack(memoryview(self._chunk)[LENGTH_BYTES:received])]
        return list(self._feed(memoryview(self._chunk)[:received])) if received else None

    def _feed(self, received: memoryview) -> Iterator[Content]:
        self._bytes += received
        at = 0
        while len(self._bytes) >= at + LENGTH_BYTES:
            end = at + LENGTH_BYTES + int.from_bytes(self._bytes[at : at + LENGTH_BYTES], "big")
            if len(self._bytes) < end:
                break
            yield _unpack(self._bytes[at + LENGTH_BYTES : end])
            at = end
        del self._bytes[:at]


def _unpack(body: memoryview | bytearray) -> Content:
    frame = _decode(body)
    decoders = _decoders(frame.types)
    return frame.numbers, [decoders[kind](one) for kind, one in zip(frame.kinds, frame.objects, strict=True)]
