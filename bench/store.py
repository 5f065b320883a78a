"""The store alone, decisions included: `SqliteStore.submit` beside a raw group-commit loop of the same rows."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import msgspec
import uvloop

from bench import raw
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, say
from bench.servers import BUSY_THREADS, CLIENTS, UNREACHED, text
from wakeline.core.guardrail import Guardrails
from wakeline.core.message import SCHEMA_VERSION, Message
from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.core.queries import WorkspaceById
from wakeline.flow.convene import CreateThread
from wakeline.flow.enrol import AddPrincipal
from wakeline.flow.post import Post
from wakeline.runtime import clock
from wakeline.runtime.bootstrap import SWITCH_SECONDS
from wakeline.store.sqlite.connection import connect
from wakeline.store.sqlite.store import SqliteStore

NAME = "store"
POSTERS = (256, 64)
_RAILS = Guardrails(
    rate_per_second=10_000_000, rate_burst=1_000_000_000, loop_turn_limit=UNREACHED, loop_repeat_limit=UNREACHED
)


class Seed(msgspec.Struct, frozen=True):
    """A database with principals, threads and one post of each sender."""

    path: Path
    last_log_id: int
    callers: list[Caller]
    threads: list[list[str]]  # by caller

    def posts(self) -> Iterator[Post]:
        for number in count():
            place, turn = number % len(self.callers), number // len(self.callers)
            mine = self.threads[place]
            yield _post(self.callers[place], mine[turn % len(mine)])


class Run(msgspec.Struct, frozen=True):
    rate: float
    batch: int  # posts per commit, on average
    took: list[float]  # seconds per post


def make_seed(folder: Path) -> Seed:
    return uvloop.run(_make_seed(folder / "seed.db"))


async def _make_seed(path: Path) -> Seed:
    store = await SqliteStore.open(path, clock.now)
    workspace = await store.add_workspace("default", "bench", "@human")
    human = Caller(workspace.workspace_id, workspace.name, "@human", Kind.HUMAN, "human", operator=True)
    handles = [f"@agent{number}" for number in range(CLIENTS)]
    for handle in handles:
        await store.submit(AddPrincipal(human, handle, Kind.AGENT, (PARTICIPANT,), None, None))
    callers = [Caller(workspace.workspace_id, workspace.name, name, Kind.AGENT, PARTICIPANT) for name in handles]
    threads: list[list[str]] = [[] for _ in callers]
    for number in range(BUSY_THREADS):
        places = [(number + step * CLIENTS // 3) % CLIENTS for step in range(3)]
        members = tuple(handles[place] for place in places[1:])
        made = CreateThread(
            callers[places[0]], clock.new_id(), f"busy {number}", "conversation", members, None, None, ""
        )
        thread_id = await store.submit(made)
        for place in places:
            threads[place].append(thread_id)
    seed = Seed(path, 0, callers, threads)
    for post in islice(seed.posts(), CLIENTS):  # the raw loop updates buckets, so they must be there
        await store.submit(post)
    [workspace] = await store.read(WorkspaceById(workspace.workspace_id))
    await store.close()
    _settle(path)
    return msgspec.structs.replace(seed, last_log_id=workspace.last_log_id)


def _settle(path: Path) -> None:
    """Bring everything into the one file, since that is what is copied."""
    connection = connect(path)
    connection.pragma("wal_checkpoint", "TRUNCATE")
    connection.close()


def _post(caller: Caller, thread_id: str) -> Post:
    message = Message(
        message_id=clock.new_id(),
        workspace_id=caller.workspace_id,
        thread_id="",
        seq=0,
        log_id=0,
        sender=caller.handle,
        session_id=None,
        kind="chat",
        subject=None,
        body=text(thread_id),
        recipients="[]",
        priority="normal",
        wake_policy="",
        tags="[]",
        in_reply_to=None,
        idempotency_key=None,
        expires_at=None,
        supersedes=None,
        metadata=None,
        schema_version=SCHEMA_VERSION,
        created_at=0,
    )
    return Post(caller, message, None, thread_id, None, [], "", _RAILS)


def submit(seed: Seed, target: Path, posters: int, posts: int) -> Run:
    """Into a copy of the seed, with so many posters that each wait for their answer."""
    sys.setswitchinterval(SWITCH_SECONDS)
    shutil.copyfile(seed.path, target)
    return uvloop.run(_submit(target, list(islice(seed.posts(), 1 + posts)), posters))


async def _submit(target: Path, posts: list[Post], posters: int) -> Run:
    first, *posts = posts
    store = await SqliteStore.open(target, clock.now, apart=True)
    await store.submit(first)  # the writer has started then, as the raw loop has when its clock begins
    commits = 0
    took: list[float] = []
    waiting = iter(posts)

    def committed(_workspace_id: int) -> None:
        nonlocal commits
        commits += 1

    async def poster() -> None:
        for post in waiting:
            began = time.perf_counter()
            await store.submit(post)
            took.append(time.perf_counter() - began)

    store.on_commit(committed)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(posters):
            group.create_task(poster())
    elapsed = time.perf_counter() - began
    await store.close()
    return Run(len(posts) / elapsed, round(len(posts) / commits), took)


def measure(plan: Plan) -> list[Figure]:
    posts = plan.posts * 32
    with tempfile.TemporaryDirectory(prefix="wakeline-bench-") as place:
        folder = Path(place)
        seed = isolated(make_seed, folder)
        return [_measure(plan.rounds, seed, folder / "ours.db", posters, posts) for posters in POSTERS]


def _measure(rounds: int, seed: Seed, target: Path, posters: int, posts: int) -> Figure:
    ours, reference, sizes = [], [], []
    for number in range(rounds):
        run = isolated(submit, seed, target, posters, posts)
        took = isolated(raw.write_again, seed.path, target, seed.last_log_id, run.batch)
        ours.append(run.rate)
        reference.append((1 + posts) / sum(took))
        sizes.append(float(run.batch))
        say(
            NAME,
            f"{posters} posters, round {number + 1} of {rounds}: {run.rate:,.0f}, raw {reference[-1]:,.0f} posts/s",
        )
    note = f"reference: a raw loop of the same rows, {median(sizes):.0f} per commit"
    name = f"{NAME}: {posters} posters"
    return figure(name, median(ours), median(reference), "posts/s", note, at_least=0.5)
