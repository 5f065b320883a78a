from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.cable import Cable
from wakeline import Client, client, wire
from wakeline.errors import Gone
from wakeline.testing.server import ServerProcess


@pytest.fixture
async def operator(server: ServerProcess) -> AsyncIterator[Client]:
    async with Client(socket=server.socket) as connected:
        yield connected


@pytest.fixture
async def cable(server: ServerProcess, tmp_path: Path) -> AsyncIterator[Cable]:
    async with Cable(server.socket, tmp_path / "cable.sock") as laid:
        yield laid


@pytest.fixture
async def remote(cable: Cable) -> AsyncIterator[Client]:
    """The operator at the far end of the cable."""
    async with Client(socket=cable.path) as connected:
        yield connected


def name() -> str:
    return f"@a{uuid.uuid4().hex[:10]}"


@pytest.mark.guarantee("G-RESUME")
async def test_events_come_once_and_in_order_however_often_the_line_breaks(
    operator: Client, remote: Client, cable: Cable
) -> None:
    receiver = await operator.add_agent(name())
    stream = remote.events(after=(await operator.get_status()).position)
    arriving = aiter(stream)
    posted, seen = [], list[wire.EventView]()
    for breaking in range(12):
        for number in range(6):
            if number == 3 and breaking % 2:
                cable.cut()
            elif number == 3:
                cable.cut_after = 150 * breaking  # in the middle of a frame
            posted.append((await operator.post_message(f"m{number}", to=[receiver.handle])).log_id)
        while not seen or seen[-1].log_id < posted[-1]:
            seen.append(await anext(arriving))
    log_ids = [event.log_id for event in seen]
    assert log_ids == list(range(log_ids[0], log_ids[-1] + 1))
    assert set(posted) <= set(log_ids)
    assert cable.requests > 6
    assert stream.position == f"{seen[-1].epoch}-{seen[-1].log_id}"


@pytest.mark.guarantee("G-RESUME")
async def test_events_go_on_from_a_position(operator: Client) -> None:
    receiver = await operator.add_agent(name())
    first = await operator.post_message("one", to=[receiver.handle])
    second = await operator.post_message("two", to=[receiver.handle])
    async for event in operator.events(after=f"{first.epoch}-{first.log_id}"):
        assert event.log_id == first.log_id + 1
        assert event.message
        assert event.message.message_id == second.message_id
        break


@pytest.mark.guarantee("G-NO-SILENT-GAP")
async def test_a_position_that_is_no_longer_kept_raises_gone(operator: Client) -> None:
    receiver = await operator.add_agent(name())
    posted = await operator.post_message("one", to=[receiver.handle])
    await operator.prune(keep=1)
    with pytest.raises(Gone) as gone:
        await anext(aiter(operator.events(after=f"{posted.epoch}-1")))
    assert gone.value.code == "POSITION_EXPIRED"
    later = await operator.post_message("two", to=[receiver.handle])
    async for event in operator.events(after=gone.value.details["position"]):
        assert event.log_id == later.log_id
        break


@pytest.mark.guarantee("G-EPOCH")
async def test_a_position_of_another_history_raises_gone(operator: Client) -> None:
    with pytest.raises(Gone) as gone:
        await anext(aiter(operator.events(after="abc-1")))
    assert gone.value.code == "EPOCH_CHANGED"


@given(st.data())
def test_frames_do_not_depend_on_where_the_bytes_are_cut(data: st.DataObject) -> None:
    stream = (
        b": hello\n\nid: e-1\nevent: a\ndata: {\ndata: }\n\n:\n\nid: e-2\r\ndata: x\r\n\r\nid: e-3\n\nid: e-4\ndata:"
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def collect() -> list[tuple[str, bytes]]:
        return [(frame.id, frame.data) async for frame in client.frames(chunks())]

    assert asyncio.run(collect()) == [("e-1", b"{\n}"), ("e-2", b"x"), ("e-3", b"")]
