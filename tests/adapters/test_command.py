"""An operator's own command: its words, its time, its exit code, and what they mean."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.builders import agent
from tests.store.subscribing import session
from wakeline.adapters.command.adapter import Commands, fill
from wakeline.adapters.command.book import Book, Order, read_book, recipes
from wakeline.core.log import Workspace
from wakeline.core.observation import Gone, Observation, Still
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain
from wakeline.core.seat import COMMAND, may_ring
from wakeline.core.session import Session
from wakeline.runtime.processes import look

TEXT = 'Wakeline: you have 1 unread message. "$(touch boom)"; `touch boom` [wl-1]'
BOB = agent(Workspace(1, "default", "e", 0, 0, 1, 0), "@bob")


def parcel(**fields: Any) -> Parcel:
    seat = session(BOB, native_id="n 1", transport="command", cwd="/work")
    given_ = {"session": seat, "text": TEXT, "mark": "wl-1", "handle": "@bob", "timeout": timedelta(seconds=20)}
    return Parcel("D", "E", "S", 1, "bridge-daemon", None, b"{}", **{**given_, **fields})


def program(body: str) -> list[str]:
    return [sys.executable, "-c", f"import sys, os, time\n{body}"]


async def ring(order: Order, **fields: Any) -> Result:
    return await Commands({"@bob": order}, os.environ, time.monotonic, look).deliver(parcel(**fields))


async def test_the_words_arrive_as_they_are_and_no_shell_sees_them(tmp_path: Path) -> None:
    note = tmp_path / "note"
    body = f"open({str(note)!r}, 'w').write(repr(sys.argv[1:])); print('queued')"
    order = Order(argv=[*program(body), "{native_id}", "{text}", "--to={handle}:{mark}", "{unknown}"])
    assert await ring(order) == Accepted(None, "queued ")
    assert note.read_text() == repr(["n 1", TEXT, "--to=@bob:wl-1", "{unknown}"])
    assert not (tmp_path / "boom").exists()


async def test_the_text_can_come_where_no_list_of_processes_shows_it() -> None:
    order = Order(argv=program("print(sys.stdin.read())"), stdin=True)
    result = await ring(order)
    assert isinstance(result, Accepted)
    assert "1 unread message" in result.detail


@pytest.mark.parametrize(
    ("body", "extra", "kind", "reason"),
    [
        ("sys.exit(0)", {}, Accepted, None),
        ("sys.exit(75)", {}, Refused, "command_refused"),
        ("sys.exit(69)", {}, Absent, None),
        ("sys.exit(3)", {}, Failed, "exit_3"),
        ("sys.exit(3)", {"exits": {"3": "unknown"}}, Uncertain, "command_unsure"),
        ("os.kill(os.getpid(), 9)", {}, Uncertain, "killed"),
        ("time.sleep(60)", {"timeout_seconds": 0.5}, Uncertain, "timeout"),
        ("print('refused: not in front')", {"answers": True}, Uncertain, "command_unsure"),
        ("print('refused not in front')", {"answers": True}, Refused, "command_refused"),
        ("print('absent')", {"answers": True}, Absent, None),
        ("print('accepted'); sys.exit(1)", {"answers": True}, Uncertain, "command_unsure"),
        ("pass", {"answers": True}, Uncertain, "command_unsure"),
    ],
)
async def test_how_it_ends_says_what_came_of_it(
    body: str, extra: dict[str, Any], kind: type[Result], reason: str | None
) -> None:
    result = await ring(Order(argv=program(body), **extra))
    assert (type(result), getattr(result, "reason", None)) == (kind, reason)


async def test_a_command_that_cannot_be_started_has_done_nothing() -> None:
    result = await ring(Order(argv=["/nowhere/at-all"]))
    assert isinstance(result, Failed)
    assert not result.retryable


async def test_a_late_command_is_ended_with_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = "import time; time.sleep(60)"
    body = (
        f"import subprocess\nchild = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    assert isinstance(await ring(Order(argv=program(body), timeout_seconds=3)), Uncertain)
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        pass
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False


async def test_a_name_that_looks_like_an_option_is_not_filled_in() -> None:
    seat = session(BOB, native_id="--delete-everything")
    assert isinstance(await ring(Order(argv=program("pass")), session=seat), Failed)


async def test_a_command_rings_no_more_often_than_it_may() -> None:
    now = [100.0]
    commands = Commands({"@bob": Order(argv=program("pass"), every_seconds=5)}, os.environ, lambda: now[0], look)
    again = parcel()
    assert isinstance(await commands.deliver(again), Accepted)
    assert isinstance(await commands.deliver(again), Refused)
    now[0] += 5
    assert isinstance(await commands.deliver(again), Accepted)


async def test_one_application_is_rung_by_one_command_at_a_time_for_all_agents(tmp_path: Path) -> None:
    """Two scripts that drive the same window would type into each other's text."""
    gate, now = tmp_path / "gate", [100.0]
    os.mkfifo(gate)
    order = Order(argv=program(f"open({str(gate)!r}).read()"), every_seconds=5, application="Claude")
    apart = Order(argv=program("pass"), every_seconds=5)
    book = {"@bob": order, "@carol": order, "@dan": apart}
    commands = Commands(book, os.environ, lambda: now[0], look)
    first = asyncio.create_task(commands.deliver(parcel()))
    writing = await asyncio.to_thread(gate.open, "w")  # it runs
    now[0] += 10
    other = parcel(handle="@carol", session=session(BOB, transport="command"))
    assert isinstance(await commands.deliver(other), Refused)
    assert isinstance(await commands.deliver(parcel(handle="@dan", session=session(BOB))), Accepted)
    writing.close()
    assert isinstance(await first, Accepted)
    now[0] += 4
    assert isinstance(await commands.deliver(other), Refused)
    now[0] += 1
    ringing = asyncio.create_task(commands.deliver(other))
    (await asyncio.to_thread(gate.open, "w")).close()
    assert isinstance(await ringing, Accepted)


# -- watching ---------------------------------------------------------------------------------------------------------


async def seen(*sessions: Session) -> list[Observation]:
    """What one look tells."""
    told: list[Observation] = []

    async def report(one: Observation) -> None:
        told.append(one)

    commands = Commands({"@bob": Order(argv=["x"])}, os.environ, time.monotonic, look)
    watching = asyncio.create_task(commands.watch(lambda: sessions, report))
    while not told:  # noqa: ASYNC110 - the look itself does not wait
        await asyncio.sleep(0)
    watching.cancel()
    await asyncio.wait([watching])
    return told


async def test_sessions_with_a_command_are_told_to_be_there_still() -> None:
    stranger = agent(Workspace(1, "default", "e", 0, 0, 1, 0), "@eve")
    pid = os.getpid()
    there = [
        session(BOB, transport="command"),
        session(BOB, transport="command", pid=pid, pid_started_at=look(pid)[1]),
    ]
    others = [session(BOB, transport="tmux"), session(stranger, transport="command")]
    assert await seen(*others, *there) == [Still(one.session_id) for one in there]


async def test_a_session_whose_process_ended_is_gone() -> None:
    process = await asyncio.create_subprocess_exec(*program("time.sleep(600)"))
    one = session(BOB, transport="command", pid=process.pid, pid_started_at=look(process.pid)[1])
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await seen(one) == [Gone(one.session_id, "process_ended")]


@pytest.mark.guarantee("G-TMUX-GIVEN")
async def test_who_has_no_command_is_not_rung() -> None:
    orders = {"@carol": Order(argv=["touch", "rang"])}
    assert await Commands(orders, os.environ, time.monotonic, look).deliver(parcel()) == Absent()


def test_a_command_rings_although_nobody_has_proven_it() -> None:
    said = f'["{COMMAND}"]'
    assert may_ring(session(BOB, transport="command", capabilities=said))
    assert not may_ring(session(BOB, transport="tmux", capabilities=said))
    assert not may_ring(session(BOB, capabilities=said))
    assert not may_ring(session(BOB))


@given(st.text(), st.text())
def test_what_is_filled_in_is_not_filled_again(before: str, value: str) -> None:
    filled = fill("{text}", {"text": value, "native_id": before})
    assert filled == value


# -- the operator's file ----------------------------------------------------------------------------------------------


def test_the_recipes_that_we_ship_can_be_read_and_claim_nothing() -> None:
    assert {"antigravity", "claude-desktop"} <= recipes().keys()
    for order in recipes().values():
        assert order.level == "unproven"
        assert order.argv.count("{text}") == 1
    desktop = recipes()["claude-desktop"]
    assert (desktop.every_seconds, desktop.application, desktop.answers) == (5, "Claude", True)


def test_what_the_script_for_a_desktop_cannot_be_sure_of_is_unknown() -> None:
    """It refuses only what it has seen for certain: a draft."""
    said = [word.rsplit('return "', 1)[1].rstrip('"') for word in recipes()["claude-desktop"].argv if "return " in word]
    assert [one.split()[0].rstrip(":") for one in said] == [
        "absent",
        *["unknown"] * 3,
        "refused",
        "unknown",
        "accepted",
    ]


def test_a_file_gives_commands_and_recipes_to_agents(tmp_path: Path) -> None:
    book = tmp_path / "commands.toml"
    book.write_text('["@bob"]\nargv = ["x", "{text}"]\nexits = { 7 = "refused" }\n["@cat"]\nrecipe = "antigravity"\n')
    orders = read_book(book)
    assert orders["@bob"] == Order(argv=["x", "{text}"], exits={"7": "refused"})
    assert orders["@cat"] == recipes()["antigravity"]
    assert read_book(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "text",
    [
        '["bob"]\nargv = ["x"]',
        '["@bob"]',
        '["@bob"]\nargv = []',
        '["@bob"]\nrecipe = "none"',
        '["@bob"]\nshell = true',
        "x",
    ],
)
def test_a_wrong_file_says_so(tmp_path: Path, text: str) -> None:
    book = tmp_path / "commands.toml"
    book.write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        read_book(book)


async def test_a_book_is_read_again_when_it_changes_and_a_mistake_leaves_what_it_said(tmp_path: Path) -> None:
    path = tmp_path / "commands.toml"
    book = Book(path)
    assert book.get("@bob") is None
    path.write_text('["@bob"]\nargv = ["one"]\n')
    assert book.get("@bob") == Order(argv=["one"])
    path.write_text('["@bob"]\nargv = "two words"\n')
    assert book.get("@bob") == Order(argv=["one"])
    path.write_text('["@bob"]\nargv = ["three"]\n')
    assert book.get("@bob") == Order(argv=["three"])
    path.unlink()
    assert book.get("@bob") is None
    path.write_text("wrong = 1")
    with pytest.raises(ValueError, match="matching regex"):
        Book(path)
