"""What a server and its writer send each other comes out as it went in, in whatever pieces it arrives."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell, a_bell
from tests.store.builders import agent, log_of, new_id, open_workspace, post, send
from tests.store.places import SqlitePlace
from wakeline.core.appended import Appended
from wakeline.core.guardrail import Guardrails
from wakeline.core.packed import Packed
from wakeline.errors import Internal, NotFound
from wakeline.flow.guard import Fired
from wakeline.flow.plan import Planned
from wakeline.flow.post import Accepted, Post
from wakeline.runtime import clock
from wakeline.store.sqlite.frames import LENGTH_BYTES, Content, Frames, pack
from wakeline.store.sqlite.store import SqliteStore

ACCEPTED = Accepted(new_id(), new_id(), 7, 2**53, 1, "epoch", Fired("LOOP_TURNS", new_id()))


@pytest.fixture
async def bell(sqlite: SqlitePlace) -> Bell:
    return await a_bell(sqlite)


class Line:
    """Both ends of a line."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.theirs = theirs
        self.frames = Frames(theirs)

    def say(self, content: bytes) -> list[Content]:
        self.ours.sendall(content)
        return self.frames.receive() or []


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.ours.close()
    made.theirs.close()


def a_post(bell: Bell) -> Post:
    plain = post(agent(bell.workspace, "@ann"), "@bob", "äöü \U0001f514 " * 30)
    rails = Guardrails(rate_per_second=7, restricted_tags=("one", "two"))
    return msgspec.structs.replace(plain, tags=["x"], reached=("@carl",), wait=5, rails=rails, wake_policy="silent")


async def all_kinds(bell: Bell) -> list[Any]:
    """One of each that is packed, between others that are not."""
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    entries = await log_of(bell.store, bell.workspace)
    grown = Appended(1, 1, 9, [entries[0].log], entries, {3: ["@ann", "@bob"]})
    return [None, a_post(bell), [planned], ACCEPTED, ("name", {"a": 1}), planned, grown, ACCEPTED]


async def test_what_goes_in_comes_out(bell: Bell, line: Line) -> None:
    objects = await all_kinds(bell)
    assert line.say(pack([1, 0, 2**62], objects)) == [([1, 0, 2**62], objects)]
    assert line.say(pack([], [])) == [([], [])]


async def test_every_type_that_is_packed_is_tried_here(bell: Bell) -> None:
    assert set(Packed.__subclasses__()) == {Accepted, Appended, Planned, Post}
    assert set(Packed.__subclasses__()) <= {type(one) for one in await all_kinds(bell)}


async def test_a_frame_needs_no_other_frame(bell: Bell, line: Line) -> None:
    objects = await all_kinds(bell)
    pack([], objects)  # and never sent, as when a commit fails
    assert line.say(pack([1], objects[1:2])) == [([1], objects[1:2])]
    assert line.say(pack([2], objects[::-1])) == [([2], objects[::-1])]


def test_an_error_comes_out_as_itself(line: Line) -> None:
    [(_, [error])] = line.say(pack([], [NotFound("THREAD_NOT_FOUND", "There is none.", "Look.", thread="x")]))
    assert isinstance(error, NotFound)
    assert (error.code, error.message, error.hint) == ("THREAD_NOT_FOUND", "There is none.", "Look.")
    assert error.details == {"thread": "x"}


@pytest.mark.parametrize("size", [1, LENGTH_BYTES - 1, LENGTH_BYTES, LENGTH_BYTES + 1, 1000])
async def test_frames_may_come_in_pieces_and_together(bell: Bell, line: Line, size: int) -> None:
    sent = [([n], [a_post(bell), ACCEPTED, None, "x" * n]) for n in range(4)]
    stream = b"".join(pack(*one) for one in sent)
    heard = [one for at in range(0, len(stream), size) for one in line.say(stream[at : at + size])]
    assert heard == sent


def test_the_end_of_the_line_is_told(line: Line) -> None:
    line.ours.sendall(pack([1], [ACCEPTED])[:-1])
    line.ours.shutdown(socket.SHUT_WR)
    assert line.frames.receive() == []
    assert line.frames.receive() is None


async def test_what_cannot_be_packed_is_refused_and_touches_no_other(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now, apart=True)
    ann = agent(await open_workspace(store, "@ann", "@bob"), "@ann")
    posts = [post(ann, "@bob") for _ in range(4)]
    half = msgspec.structs.replace(posts[1].message, body="\ud800")  # of a character, which no face lets in
    posts[1] = msgspec.structs.replace(posts[1], message=half)
    answers = await asyncio.gather(*map(store.submit, posts), return_exceptions=True)
    assert isinstance(answers[1], Internal)
    assert [one.seq for one in answers if isinstance(one, Accepted)] == [1, 2, 3]
    assert (await send(store, ann, "@bob")).seq == 4
    await store.close()
