"""The adapter for served sessions against a real `opencode serve`, without a server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests import harness_tools
from wakeline.adapters.harness import HarnessAdapter, Observes, Withdraws
from wakeline.adapters.opencode.adapter import OpencodeServed
from wakeline.adapters.opencode.api import OpencodeServer
from wakeline.adapters.opencode.letter import letter_of
from wakeline.core.observation import Injected, Noticed, Observation, Processed
from wakeline.core.parcel import Accepted, Failed, Parcel, Refused, mark_of
from wakeline.core.session import Presence, Session
from wakeline.testing.model import ModelServer, Say, Shell
from wakeline.testing.opencode_server import PASSWORD, OpencodeServe
from wakeline.testing.worlds import make_world
from wakeline.wire.seat import Hello, Welcome

WAIT_SECONDS = 60.0
Announcement = tuple[str | None, list[str]]
EVENTS = [f"01JCZ0VXW3TQ8M5N6P7R8S9T{number:02d}" for number in range(100)]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def harness(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpencodeServe]:
    installed = harness_tools.installed("opencode")
    folder = tmp_path_factory.mktemp("opencode")
    with make_world(installed, folder, model, asks=True) as world, OpencodeServe(world) as server:
        server.prompt(server.new_session(), "warm up")  # the first prompt of a server loads its providers
        model.wait("warm up", timeout=WAIT_SECONDS)
        yield server


async def nobody(hello: Hello) -> Welcome:
    raise AssertionError(f"{hello.native_id} was registered, although its configuration names no agent")


async def nothing(session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> tuple[str | None, list[str]]:
    return None, []


class Watched:
    """The adapter, one session, and what is reported of it."""

    def __init__(self, harness: OpencodeServe, native_id: str | None = None) -> None:
        self.adapter = OpencodeServed([OpencodeServer(harness.url, PASSWORD)], nobody, self._announce)
        self.waiting: list[str] = []  # marks of mail for the next turn
        self.announced: list[tuple[str, ...]] = []  # for each turn, what it was begun with
        self.harness = harness
        self.native_id = native_id or harness.new_session()
        self.session = a_session(self.native_id)
        self.told: list[Observation] = []
        self._changed = asyncio.Condition()

    async def report(self, observation: Observation) -> None:
        async with self._changed:
            self.told.append(observation)
            self._changed.notify_all()

    async def _announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> Announcement:
        """As the server does: a turn that a ring has begun is told nothing, any other that there is unread mail."""
        self.announced.append(shown)
        if shown:
            return None, []
        marks, self.waiting = self.waiting, []
        return f"Wakeline: you have mail ({', '.join(marks)})", marks

    async def until(self, wanted: Callable[[Observation], bool], after: int = 0) -> Observation:
        async with asyncio.timeout(WAIT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: any(wanted(one) for one in self.told[after:]))
        return next(one for one in self.told[after:] if wanted(one))

    async def until_presence(self, presence: Presence, after: int = 0) -> None:
        await self.until(lambda one: isinstance(one, Noticed) and one.presence is presence, after)

    async def ring(self, event_id: str) -> object:
        return await self.adapter.deliver(a_parcel(event_id, self.session))

    async def withdraw(self, event_id: str) -> bool:
        return await self.adapter.withdraw(self.session, mark_of(event_id))

    async def until_stored(self, event_id: str, *, stored: bool = True) -> None:
        server = OpencodeServer(self.harness.url, PASSWORD)
        message_id = letter_of(mark_of(event_id), "").message_id
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while (await server.message(self.native_id, message_id) is None) == stored:  # noqa: ASYNC110 - looked for
                    await asyncio.sleep(0.05)
        finally:
            await server.close()


def a_session(native_id: str) -> Session:
    return Session(
        session_id="S", workspace_id=1, handle="@bob", harness="opencode", native_id=native_id, host=None, cwd=None,
        pid=None, pid_started_at=None, wake_mode="native-push", replyable=1, capabilities="[]", levels="{}",
        presence="idle", active_turn_id=None, presence_source="", presence_at=0, context_tokens=None,
        context_limit=None, resumable=1, task_id=None, branch=None, started_at=0, heartbeat_at=0, transport="served",
    )  # fmt: skip


def a_parcel(event_id: str, session: Session) -> Parcel:
    text = f"Wakeline: you have 1 unread message. ({mark_of(event_id)})"
    return Parcel(
        "D", event_id, "W", 1, "bridge-daemon", None, b"", (), timedelta(seconds=20),
        text=text, mark=mark_of(event_id), session=session,
    )  # fmt: skip


@asynccontextmanager
async def watching(harness: OpencodeServe, native_id: str | None = None) -> AsyncIterator[Watched]:
    watched = Watched(harness, native_id)
    task = asyncio.create_task(watched.adapter.watch(lambda: [watched.session], watched.report))
    try:
        await watched.until_presence(Presence.IDLE)
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_it_is_an_adapter_that_observes() -> None:
    adapter: HarnessAdapter = OpencodeServed([], nobody, nothing)
    assert isinstance(adapter, Observes)
    assert isinstance(adapter, Withdraws)


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
async def test_an_idle_session_wakes_and_tells_of_every_step(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        mark = mark_of(EVENTS[1])
        assert await watched.ring(EVENTS[1]) == Accepted(204, "turn started")
        injected = await watched.until(lambda one: isinstance(one, Injected))
        processed = await watched.until(lambda one: isinstance(one, Processed))
        assert isinstance(injected, Injected)
        assert injected.marks == (mark,)
        assert isinstance(processed, Processed)
        assert (processed.marks, processed.status, processed.last) == ((mark,), "completed", "Done.")
        [request] = model.turns(mark)
        assert request.session == watched.native_id


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
async def test_mail_for_the_next_turn_is_told_in_it_once(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        marks = [mark_of(EVENTS[14]), mark_of(EVENTS[15])]
        watched.waiting = list(marks)
        gate = threading.Event()
        model.script("what is there to do", Say("one and more", gate))
        harness.prompt(watched.native_id, "what is there to do")
        await watched.until_stored(EVENTS[14])
        gate.set()
        injected = await watched.until(lambda one: isinstance(one, Injected))
        processed = await watched.until(lambda one: isinstance(one, Processed))
        assert isinstance(injected, Injected)
        assert isinstance(processed, Processed)
        assert (injected.marks, processed.marks) == (tuple(marks), tuple(marks))
        [request] = model.turns(marks[0])
        assert marks[1] in request.text
        assert "what is there to do" in request.text
        gate, after = threading.Event(), len(watched.told)
        model.script("and then", Say("one and more", gate))
        harness.prompt(watched.native_id, "and then")
        await watched.until_presence(Presence.ACTIVE, after)
        after = len(watched.told)
        gate.set()
        await watched.until_presence(Presence.IDLE, after)
        assert watched.announced == [(), ()]
        assert len(model.turns("you have mail", session=watched.native_id)) == 1


async def test_a_turn_that_a_doorbell_began_is_told_nothing_else(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        watched.waiting = [mark_of(EVENTS[16])]
        await watched.ring(EVENTS[17])
        await watched.until(lambda one: isinstance(one, Processed))
        assert watched.announced == [(mark_of(EVENTS[17]),)]
        assert model.turns(mark_of(EVENTS[16])) == []


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
async def test_the_same_mark_never_makes_a_second_request(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        await watched.ring(EVENTS[2])
        await watched.until(lambda one: isinstance(one, Processed))
        assert await watched.ring(EVENTS[2]) == Accepted(None, "already answered")
    async with watching(harness) as after_a_restart:
        after_a_restart.session = watched.session
        assert await after_a_restart.ring(EVENTS[2]) == Accepted(None, "already answered")
        await after_a_restart.until(lambda one: isinstance(one, Injected))
    assert len(model.turns(mark_of(EVENTS[2]))) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
async def test_a_turn_that_ended_while_no_bridge_followed_is_told_by_the_next(
    harness: OpencodeServe, model: ModelServer
) -> None:
    mark, gate = mark_of(EVENTS[9]), threading.Event()
    model.script(mark, Say("one and more", gate))
    async with watching(harness) as watched:
        await watched.ring(EVENTS[9])
        await asyncio.to_thread(model.wait, mark)
    gate.set()
    async with watching(harness, watched.native_id) as after_a_restart:
        await after_a_restart.until(lambda one: isinstance(one, Injected) and one.marks == (mark,))
        processed = await after_a_restart.until(lambda one: isinstance(one, Processed))
        assert processed == Processed("S", (mark,), letter_of(mark, "").message_id, "completed")
    assert len(model.turns(mark)) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
async def test_a_turn_that_died_with_its_server_has_failed(model: ModelServer, tmp_path: Path) -> None:
    mark, gate = mark_of(EVENTS[10]), threading.Event()
    with make_world(harness_tools.installed("opencode"), tmp_path, model) as world, OpencodeServe(world) as harness:
        async with watching(harness) as watched:
            model.script(mark, Say("one and more", gate))
            await watched.ring(EVENTS[10])
            await asyncio.to_thread(model.wait, mark, timeout=WAIT_SECONDS)
            await watched.until(lambda one: isinstance(one, Injected))
            harness.kill()
            gate.set()
            await watched.until_presence(Presence.UNKNOWN)
            harness.start()
            processed = await watched.until(lambda one: isinstance(one, Processed))
            assert processed == Processed("S", (mark,), letter_of(mark, "").message_id, "failed")


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.parametrize(("reply", "event_id"), [("once", EVENTS[3]), ("reject", EVENTS[4])])
async def test_a_permission_is_left_alone_and_what_it_stranded_is_prompted_again(
    harness: OpencodeServe, model: ModelServer, reply: str, event_id: str
) -> None:
    async with watching(harness) as watched:
        word = f"run for {reply}"
        model.script(word, Shell("true"), Say("ran"))
        harness.prompt(watched.native_id, word)
        await watched.until_presence(Presence.WAITING_ON_APPROVAL)
        assert await watched.ring(event_id) == Accepted(204, "queued")
        assert len(harness.call("GET", "/permission")) == 1
        assert model.turns(mark_of(event_id)) == []
        harness.answer(reply)
        await watched.until(lambda one: isinstance(one, Injected))
        await watched.until(lambda one: isinstance(one, Processed))
        [request] = model.turns(mark_of(event_id))
        assert request.text.count(mark_of(event_id)) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
async def test_after_an_interrupt_it_waits_for_the_human(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        gate = threading.Event()
        model.script("talk long", Say("one and more", gate))
        harness.prompt(watched.native_id, "talk long")
        await asyncio.to_thread(model.wait, "talk long")
        await watched.ring(EVENTS[5])
        harness.abort(watched.native_id)
        await watched.until_presence(Presence.IDLE, len(watched.told))
        assert await watched.ring(EVENTS[6]) == Accepted(204, "for the next prompt")
        harness.prompt(watched.native_id, "now go on")
        request = await asyncio.to_thread(model.wait, "now go on")
        assert all(mark_of(event_id) in request.text for event_id in (EVENTS[5], EVENTS[6]))
        gate.set()
        both = {mark_of(EVENTS[5]), mark_of(EVENTS[6])}
        await watched.until(lambda one: isinstance(one, Injected) and set(one.marks) == both)


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
async def test_what_is_called_off_is_not_in_the_next_prompt(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        gate = threading.Event()
        model.script("talk at length", Say("one and more", gate))
        harness.prompt(watched.native_id, "talk at length")
        await asyncio.to_thread(model.wait, "talk at length")
        harness.abort(watched.native_id)
        await watched.until_presence(Presence.IDLE, len(watched.told))
        gate.set()
        await watched.ring(EVENTS[11])
        await watched.ring(EVENTS[12])
        assert await watched.withdraw(EVENTS[11])
        assert not await watched.withdraw(EVENTS[11])
        harness.prompt(watched.native_id, "what is next")
        request = await asyncio.to_thread(model.wait, "what is next")
        assert mark_of(EVENTS[12]) in request.text
        assert mark_of(EVENTS[11]) not in request.text
        await watched.until(lambda one: isinstance(one, Processed))
        assert not await watched.withdraw(EVENTS[12])


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
async def test_what_is_called_off_in_a_turn_is_not_prompted_again(harness: OpencodeServe, model: ModelServer) -> None:
    async with watching(harness) as watched:
        model.script("run for nobody", Shell("true"), Say("ran"))
        harness.prompt(watched.native_id, "run for nobody")
        await watched.until_presence(Presence.WAITING_ON_APPROVAL)
        await watched.ring(EVENTS[13])
        assert not await watched.withdraw(EVENTS[13]), "opencode deletes nothing in a turn"
        after = len(watched.told)
        harness.answer("reject")
        await watched.until_presence(Presence.IDLE, after)
        await watched.until_stored(EVENTS[13], stored=False)
        harness.prompt(watched.native_id, "what is left")
        await asyncio.to_thread(model.wait, "what is left")
        assert model.turns(mark_of(EVENTS[13])) == []


async def test_what_cannot_be_rung_is_a_result(harness: OpencodeServe) -> None:
    nowhere = a_parcel(EVENTS[7], a_session("ses_nowhere"))
    rows = [
        ("another password", OpencodeServer(harness.url, "wrong"), "unauthorized"),
        ("nobody listens", OpencodeServer("http://127.0.0.1:9"), "unreachable"),
        ("no such session", OpencodeServer(harness.url, PASSWORD), "session_gone"),
    ]
    for why, server, reason in rows:
        result = await OpencodeServed([server], nobody, nothing).deliver(nowhere)
        await server.close()
        assert isinstance(result, Refused | Failed), why
        assert result.reason == reason, why


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
async def test_a_server_that_dies_leaves_presence_unknown_and_is_found_again(
    model: ModelServer, tmp_path: Path
) -> None:
    with make_world(harness_tools.installed("opencode"), tmp_path, model) as world, OpencodeServe(world) as harness:
        async with watching(harness) as watched:
            harness.kill()
            await watched.until_presence(Presence.UNKNOWN)
            harness.start()
            await watched.until_presence(Presence.IDLE, len(watched.told))
            await watched.ring(EVENTS[8])
            request = await asyncio.to_thread(model.wait, mark_of(EVENTS[8]), timeout=WAIT_SECONDS)
            assert request.session == watched.native_id
