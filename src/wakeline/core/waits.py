"""Who waits for whom: would one more wait close a circle in which nobody is left to answer?

An asker waits for the first answer, so it is stuck only when everybody that it asked is stuck.  Who waits for the new
asker is therefore found from the end: the asker itself, then whoever asked only those, and so on.  Circles that do not
lead to the asker are somebody else's and stay out of it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from wakeline.core.records import Wait

MOST_ASKED = 64  # an ask to more is not noted: that all of them wait for one is not to be expected

decode = msgspec.json.Decoder(list[str]).decode
Edge = tuple[str, list[str]]  # who waits, and for whom: any of these may answer


def live(waits: Iterable[Wait], settled: Container[str | None], now: int) -> list[Edge]:
    """The waits that still hold at this moment."""
    return [(wait.asker, decode(wait.asked)) for wait in waits if wait.until > now and wait.message_id not in settled]


def cycle(asker: str, asked: Sequence[str], edges: Sequence[Edge]) -> list[str] | None:
    """The circle that this wait would close, from the asker to the asker; None: somebody who is asked can answer."""
    stuck = {asker: asker}  # each who waits for the asker in the end → the next on the way
    grew = True
    while grew:
        grew = False
        for waiting, on in edges:
            if waiting not in stuck and on and all(handle in stuck for handle in on):
                stuck[waiting] = on[0]
                grew = True
    if not asked or not all(handle in stuck for handle in asked):
        return None
    path = [asker, asked[0]]
    while path[-1] != asker:
        path.append(stuck[path[-1]])
    return path
