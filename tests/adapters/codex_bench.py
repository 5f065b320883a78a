"""A Codex world with our adapter beside it: the real terminal, the real app server, and a note of what was observed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from wakeline.adapters.codex.adapter import Codex
from wakeline.core.observation import Gone, Injected, Noticed, Observation, Processed
from wakeline.core.parcel import Parcel, Result, mark_of
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.testing.worlds import World
from wakeline.wire.seat import Hello, Welcome

SECONDS = 100.0
TOKEN = "the agent's token"
_T = TypeVar("_T", bound=Observation)


def configure(world: World, folder: Path) -> None:
    """What `wakeline connect codex` leaves in the configuration, as far as the adapter reads it."""
    secret = folder / "agent.token"
    secret.write_text(TOKEN)
    entry = f'\n[mcp_servers.wakeline]\ncommand = "false"\nenv = {{ WAKELINE_TOKEN_FILE = "{secret}" }}\n'
    config = world.home / ".codex" / "config.toml"
    config.write_text(config.read_text() + entry)


class Bench:
    """Runs the adapter on a loop of its own, so that a test may wait for a screen meanwhile."""

    def __init__(self, home: Path, *, steer: bool = False) -> None:
        self.observations: list[Observation] = []
        self.enrolled: dict[str, Hello] = {}  # by thread
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.adapter = Codex([home], self._enrol, steer=steer)
        self._watching: Future[None] | None = None

    async def _enrol(self, said: Hello) -> Welcome:
        assert said.token == TOKEN
        with self._changed:
            self.enrolled[str(said.native_id)] = said
            self._changed.notify_all()
        return Welcome(session_id=f"session of {said.native_id}", handle="@bob")

    async def _report(self, observation: Observation) -> None:
        with self._changed:
            self.observations.append(observation)
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        self._watching = asyncio.run_coroutine_threadsafe(self.adapter.watch(list, self._report), self._loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._watching is not None
        self._watching.cancel()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- what was seen ------------------------------------------------------------------------------------------------

    def _wait(self, look: Callable[[], Any], what: str) -> Any:
        found: list[Any] = []

        def see() -> bool:
            found[:] = [look()]
            return found[0] is not None

        with self._changed:
            assert self._changed.wait_for(see, SECONDS), f"{what}; seen: {self.observations}"
        return found[0]

    def thread(self, *besides: str) -> str:
        """The thread that is enrolled beside these."""
        return str(self._wait(lambda: next(iter(self.enrolled.keys() - set(besides)), None), "no thread was enrolled"))

    def wait(self, kind: type[_T], wanted: Callable[[_T], bool], after: int = 0) -> _T:
        def look() -> _T | None:
            return next((one for one in self.observations[after:] if isinstance(one, kind) and wanted(one)), None)

        found: _T = self._wait(look, f"no such {kind.__name__}")
        return found

    def wait_presence(self, presence: Presence, after: int = 0) -> Noticed:
        return self.wait(Noticed, lambda one: one.presence == presence, after)

    def wait_injected(self, name: str) -> Injected:
        return self.wait(Injected, lambda one: mark_of(name) in one.marks)

    def wait_processed(self, name: str) -> Processed:
        return self.wait(Processed, lambda one: mark_of(name) in one.marks)

    def wait_gone(self) -> Gone:
        return self.wait(Gone, lambda _: True)

    # -- what is rung -------------------------------------------------------------------------------------------------

    def ring(self, thread: str, name: str, *, attempt: int = 1) -> Result:
        parcel = a_parcel(thread, name, attempt=attempt)
        return asyncio.run_coroutine_threadsafe(self.adapter.deliver(parcel), self._loop).result(SECONDS)

    def withdraw(self, thread: str, name: str) -> bool:
        asked = self.adapter.withdraw(a_session(thread), mark_of(name))
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(SECONDS)


def a_parcel(thread: str, name: str, *, attempt: int = 1) -> Parcel:
    return Parcel(
        delivery_id=name,
        event_id=name,
        subscription_id="subscription",
        attempt=attempt,
        target="bridge-daemon",
        url=None,
        body=b"{}",
        text=f"Wakeline: you have 1 unread message. [{mark_of(name)}]",
        mark=mark_of(name),
        session=a_session(thread),
    )


def a_session(thread: str | None) -> Session:
    return Session(
        session_id=f"session of {thread}",
        workspace_id=1,
        handle="@bob",
        harness="codex",
        native_id=thread,
        host="here",
        cwd=None,
        pid=None,
        pid_started_at=None,
        wake_mode=WakeMode.APP_SERVER,
        replyable=1,
        capabilities="[]",
        levels="{}",
        presence=Presence.IDLE,
        active_turn_id=None,
        presence_source="app-server",
        presence_at=0,
        context_tokens=None,
        context_limit=None,
        resumable=1,
        task_id=None,
        branch=None,
        started_at=0,
        heartbeat_at=0,
        transport="app-server",
    )
