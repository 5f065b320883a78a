"""Read within a token budget: an estimate that needs no tokenizer and never returns nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wakeline import wire

CHARACTERS_PER_TOKEN = 4  # a common rule of thumb for English and code; JSON around a body is counted as 60 tokens
OVERHEAD = 60

_encode = msgspec.json.Encoder().encode


def estimate(view: wire.MessageView) -> int:
    metadata = 0 if view.metadata is None else len(_encode(view.metadata))
    return OVERHEAD + (len(view.body) + len(view.subject or "") + metadata) // CHARACTERS_PER_TOKEN


def fit(views: Sequence[wire.MessageView], max_tokens: int | None) -> list[wire.MessageView]:
    """The leading views that fit.  The first always comes, cut if it must be, so that reading always gets on."""
    if max_tokens is None or not views:
        return list(views)
    kept: list[wire.MessageView] = []
    left = max_tokens
    for view in views:
        cost = estimate(view)
        if cost > left:
            break
        kept.append(view)
        left -= cost
    return kept or [_cut(views[0], max_tokens)]


def _cut(view: wire.MessageView, max_tokens: int) -> wire.MessageView:
    room = max(0, (max_tokens - OVERHEAD) * CHARACTERS_PER_TOKEN - len(view.subject or ""))
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return wire.MessageView(**{**fields, "body": view.body[:room], "metadata": None, "body_truncated": True})
