"""Turn the bytes of a request into our types, once, or into an error that says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from wakeline.errors import InvalidArgument, TooLarge

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_nul = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # JSON's only spelling of it; escaped backslashes may stand before
_encode = msgspec.json.Encoder().encode
_unasked: dict[type, Any] = {}  # what requests without a query ask: the same each time, and nobody changes it
MAX_WHOLE = 2**53  # from there on a float has no units


class ClientGone(Exception):
    """The caller hung up before its request was complete."""


async def read_body(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        if chunk:
            size += len(chunk)
            if size > limit:
                raise TooLarge("BODY_TOO_LARGE", f"The request is larger than {limit} bytes.", limit=limit)
            chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    if b"\\u0000" in body and _nul.search(body):
        raise InvalidArgument("MALFORMED_JSON", "The request contains a NUL character.")
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        again = _whole_numbers(body)
        if again is not None:
            return decode(decoder, again)
        raise InvalidArgument("INVALID_ARGUMENT", f"The request is not as described: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument("MALFORMED_JSON", f"The request is not valid JSON: {error}.") from error


def take(kind: type[T], decoder: msgspec.json.Decoder[T], given: dict[str, Any]) -> T:
    """The same of a request that is data already.  All but words and lists of words goes the way of other requests."""
    for value in given.values():
        if isinstance(value, str):
            plain = value.isascii() and "\0" not in value
        else:
            plain = isinstance(value, list) and all(map(_is_plain, value))
        if not plain:
            return decode(decoder, _encode(given))
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        return decode(decoder, _encode(given))


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and "\0" not in value


def _whole_numbers(body: bytes) -> bytes | None:
    """The same request with 5.0 written as 5: JSON Schema calls it an integer.  None if there is nothing to rewrite."""
    try:
        document = msgspec.json.decode(body)
        whole = _encode(_whole(document))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if whole == _encode(document) else whole


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        # What a message carries as metadata is its sender's own.
        return {name: child if name == "metadata" else _whole(child) for name, child in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE else value


def parse_query(kind: type[T], query_string: bytes) -> T:
    if not query_string and kind in _unasked:
        known: T = _unasked[kind]
        return known
    pairs = _pairs(query_string) if query_string else []
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidArgument("INVALID_ARGUMENT", "A query parameter is given twice.", "Give each one once.")
    parsed = _query(kind, fields)
    if any("\0" in value for value in fields.values()):
        raise InvalidArgument("INVALID_ARGUMENT", "A query parameter contains a NUL character.", "Leave it out.")
    if any(getattr(parsed, name) is None for name in fields):  # the word "null", read as one
        raise InvalidArgument("INVALID_ARGUMENT", "A query parameter cannot be null.", "Leave it out.")
    if not query_string:
        _unasked[kind] = parsed
    return parsed


def _query(kind: type[T], fields: dict[str, str]) -> T:
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument("INVALID_ARGUMENT", f"The query is not as described: {error}.") from error


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
            max_num_fields=50,
        )
    except ValueError as error:
        raise InvalidArgument("INVALID_ARGUMENT", "The query string is not valid.") from error
