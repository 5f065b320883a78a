from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.adapters.codex_bench import a_parcel, a_session
from tests.adapters.codex_stand_in import THREAD, StandIn
from wakeline.adapters.codex.adapter import Codex
from wakeline.core.parcel import Absent, Accepted, Failed, Result, Uncertain, mark_of
from wakeline.wire.seat import Hello, Welcome


async def nobody(_: Hello) -> Welcome:
    raise AssertionError("nothing is watched here")


@pytest.fixture
async def codex(tmp_path: Path) -> AsyncIterator[StandIn]:
    async with StandIn(tmp_path) as stand_in:
        yield stand_in


async def ring(home: Path, name: str, *, attempt: int = 1, seconds: int = 20) -> Result:
    parcel = msgspec.structs.replace(a_parcel(THREAD, name, attempt=attempt), timeout=timedelta(seconds=seconds))
    return await Codex([home], nobody).deliver(parcel)


async def test_an_answer_that_was_lost_is_unknown_and_the_next_attempt_finds_what_came_of_it(
    codex: StandIn, tmp_path: Path
) -> None:
    codex.cut_after = "thread/queue/add"
    assert isinstance(await ring(tmp_path, "A"), Uncertain)
    codex.cut_after = ""
    assert await ring(tmp_path, "A", attempt=2) == Accepted(None, "already in the thread's queue")
    assert [one["clientUserMessageId"] for one in codex.queue] == [mark_of("A")]


async def test_what_has_become_a_turn_meanwhile_is_found_there(codex: StandIn, tmp_path: Path) -> None:
    item = {"type": "userMessage", "clientId": mark_of("A")}
    codex.turns = [{"id": "t", "status": "completed", "items": [item]}]
    assert await ring(tmp_path, "A", attempt=2) == Accepted(None, "already in turn t")
    assert codex.queue == []


async def test_an_app_server_that_does_not_answer_is_not_waited_for_without_end(codex: StandIn, tmp_path: Path) -> None:
    codex.silent_on = "thread/queue/add"
    assert isinstance(await ring(tmp_path, "A", seconds=1), Uncertain)
    codex.silent_on = "thread/queue/list"
    assert isinstance(await ring(tmp_path, "B", seconds=1), Failed)  # nothing was sent yet


async def test_a_refusal_is_a_failure_and_nothing_was_sent(codex: StandIn, tmp_path: Path) -> None:
    codex.refuse = "thread/queue/add"
    assert await ring(tmp_path, "A") == Failed("rejected", "not now")
    assert codex.queue == []


@pytest.mark.parametrize(
    "status",
    [
        {"type": "notLoaded"},  # nobody would run it
        {"type": "active", "activeFlags": ["waitingOnApproval"]},  # it could take the question away
        {"type": "active", "activeFlags": ["waitingOnUserInput"]},
    ],
)
async def test_what_may_not_be_rung_is_not_touched(codex: StandIn, tmp_path: Path, status: dict[str, object]) -> None:
    codex.status = status
    assert await ring(tmp_path, "A") == Absent()
    assert "thread/queue/add" not in codex.asked


async def test_one_doorbell_speaks_for_all_that_is_unread(codex: StandIn, tmp_path: Path) -> None:
    codex.queue = [
        {"id": "h", "clientUserMessageId": "a human's own"},
        {"id": "o", "clientUserMessageId": mark_of("A")},
    ]
    assert isinstance(await ring(tmp_path, "B"), Accepted)
    assert [one["clientUserMessageId"] for one in codex.queue] == ["a human's own", mark_of("B")]


@pytest.mark.guarantee("G-CODEX-WITHDRAWN")
async def test_only_the_doorbell_that_nobody_needs_is_withdrawn(codex: StandIn, tmp_path: Path) -> None:
    codex.queue = [
        {"id": "h", "clientUserMessageId": "a human's own"},
        {"id": "a", "clientUserMessageId": mark_of("A")},
        {"id": "b", "clientUserMessageId": mark_of("B")},
    ]
    assert await withdraw(tmp_path, "A")
    assert [one["id"] for one in codex.queue] == ["h", "b"]
    assert not await withdraw(tmp_path, "A")


@pytest.mark.parametrize("method", ["thread/queue/list", "thread/queue/delete"])
async def test_what_cannot_be_withdrawn_stays(codex: StandIn, tmp_path: Path, method: str) -> None:
    codex.queue = [{"id": "a", "clientUserMessageId": mark_of("A")}]
    codex.refuse = method
    assert not await withdraw(tmp_path, "A")
    assert not await withdraw(tmp_path / "nowhere", "A")
    assert codex.queue != []


async def withdraw(home: Path, name: str) -> bool:
    return await Codex([home], nobody).withdraw(a_session(THREAD), mark_of(name))


async def test_no_app_server_and_one_of_another_user_are_not_there(
    codex: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ring(tmp_path / "nowhere", "A") == Absent()
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert await ring(tmp_path, "A") == Absent()
    assert codex.asked == []


async def test_nothing_but_reading_and_queueing_is_ever_asked(codex: StandIn, tmp_path: Path) -> None:
    await ring(tmp_path, "A")
    await ring(tmp_path, "B", attempt=2)
    allowed = {"initialize", "thread/read", "thread/turns/list", "thread/queue/list", "thread/queue/add"}
    assert set(codex.asked) <= {*allowed, "thread/queue/delete"}
