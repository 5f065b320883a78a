"""A session that was begun for an agent is one of its sessions: the next mail finds it, whatever died in between.

The harness is a stand-in by the name of Codex, which says its session's name when it is told to, and ends when it is
told to.  What the real ones print is in `test_real_harnesses.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.activation.test_crashes import remote_bridge
from tests.activation.ward import PROGRAM, Ward, eventually, is_there, ward_in
from tests.faces.command_line import Shell
from wakeline.client import Client

NAME = "01a1e5eb-20f0-72b2-acc8-74f9e139b639"
# Its first words are `codex exec …`; the prompt is its last, and the thread to resume is the one before.
CODEX = f"""\
#!{sys.executable}
import json, os, sys, time
folder = {{folder!r}}
resumed = sys.argv[-2] if sys.argv[2] == "resume" else ""
with open(folder + "/ledger", "a") as ledger:
    ledger.write(json.dumps(dict(pid=os.getpid(), session=resumed, prompt=sys.argv[-1])) + "\\n")
while not os.path.exists(folder + "/name"):
    time.sleep(0.02)
print("Reading additional input from stdin...", file=sys.stderr, flush=True)
print(json.dumps(dict(type="thread.started", thread_id=resumed or {NAME!r})), flush=True)
while not os.path.exists(folder + "/go"):
    time.sleep(0.02)
if os.path.exists(folder + "/fail"):
    sys.exit(7)
sys.argv[1:] = [folder, "read", sys.argv[-1], resumed]
exec(compile({PROGRAM!r}.replace("ledger.write", "len"), "program", "exec"))
"""


@contextmanager
def equipped(folder: Path, **settings: Any) -> Iterator[Ward]:
    (folder / "bin").mkdir()
    program = folder / "bin" / "codex"
    program.write_text(CODEX.replace("{folder!r}", repr(str(folder))))
    program.chmod(0o755)
    environ = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    with ward_in(folder, environ=environ, **settings) as made:
        made.fall_silent(native_id=None, resumable=False)
        yield made


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    with equipped(tmp_path) as made:
        yield made


def allow(ward: Ward, **fields: Any) -> None:
    said = {"allow": "spawn", "harness": "codex", "cwd": str(ward.folder), **fields}
    ward.human.do("PUT", f"/v1/agents/{ward.bob.handle}/activation", **said)


def tell(ward: Ward, *words: str) -> None:
    for word in words:
        (ward.folder / word).touch()


def begun(ward: Ward) -> dict[str, Any] | None:
    listed = ward.bob.get("/v1/sessions", ended=True)["sessions"]
    return next((one for one in listed if one["native_id"] == NAME), None)


def wait_begun(ward: Ward, **wanted: Any) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = begun(ward)
        return found if found is not None and {**found, **wanted} == found else None

    session: dict[str, Any] = eventually(look, lambda: (begun(ward), ward.shown(), ward.server.output))
    return session


def told(ward: Ward) -> list[tuple[str, str | None]]:
    """What the log says of attempts: the result, and the session that was continued or begun."""
    events = ward.human.get("/v1/log", limit=500)["events"]
    return [(one["data"]["result"], one["data"]["session_id"]) for one in events if one["kind"] == "activation.settled"]


def starts(ward: Ward) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ward.ledger]


@pytest.mark.guarantee("G-ACTIVATION-SESSION")
def test_what_was_begun_is_resumed_for_the_next_mail(ward: Ward) -> None:
    allow(ward)
    tell(ward, "name", "go")
    ward.send()
    ward.wait_result("fallback_spawned")
    session = wait_begun(ward, presence="unknown", resumable=True)
    assert told(ward)[-1] == ("fallback_spawned", session["session_id"])
    assert session["ended_at"] is not None
    assert (session["harness"], session["cwd"], session["levels"]) == ("codex", str(ward.folder), {})
    ward.send()
    again = ward.wait_result("fallback_resumed")
    assert (again["session_id"], again["reason"]) == (session["session_id"], None)
    assert [one["session"] for one in starts(ward)] == ["", NAME]


def test_every_face_names_the_session_that_was_begun(ward: Ward) -> None:
    allow(ward)
    tell(ward, "name", "go")
    ward.send()
    row = ward.wait_result("fallback_spawned")
    session_id = wait_begun(ward, presence="unknown")["session_id"]
    assert row["session_id"] == session_id
    human = Shell(ward.server.environ)
    assert re.search(rf"(?m)^session id +{session_id}$", human.run("activations", "show", row["activation_id"]).out)
    assert session_id in [one["session_id"] for one in human.json("activations", "list")["activations"]]

    async def ask() -> str | None:
        async with Client(socket=ward.server.socket) as client:
            return (await client.get_activation(row["activation_id"])).session_id

    assert asyncio.run(ask()) == session_id


@pytest.mark.guarantee("G-ACTIVATION-SESSION")
def test_mail_that_comes_while_it_runs_begins_nothing(ward: Ward) -> None:
    allow(ward, concurrency=2)
    tell(ward, "name")
    ward.send()
    running = wait_begun(ward, presence="active", ended_at=None)
    assert is_there(running["pid"])
    assert running["liveness"] == "live"
    assert ward.wait_state("running")["session_id"] == running["session_id"]
    ward.send()
    seen = ward.wait_result("already_active")  # nothing is heard of it for a while, but its process is there
    assert (seen["way"], seen["reason"], seen["session_id"]) == ("resume", "process_alive", running["session_id"])
    assert len(ward.ledger) == 1
    tell(ward, "go")
    ward.wait_result("fallback_spawned")
    assert len(ward.ledger) == 1


@pytest.mark.guarantee("G-ACTIVATION-SESSION")
@pytest.mark.parametrize("ended", [False, True], ids=["while it runs", "after it has ended"])
def test_a_server_that_was_killed_before_it_heard_the_name_hears_it_later(
    ward: Ward,
    ended: bool,  # noqa: FBT001 - a case
) -> None:
    allow(ward)
    ward.send()
    running = ward.wait_state("running")
    eventually(lambda: ward.ledger, ward.listed)
    ward.server.kill()
    tell(ward, "name", *(["go", "fail"] if ended else []))
    folder = ward.folder / "data" / "activations" / running["activation_id"]
    eventually((folder / ("exit" if ended else "head")).exists, lambda: list(folder.iterdir()))
    ward.server.start()
    session = wait_begun(ward, resumable=True)
    assert (session["ended_at"] is not None) is ended
    if ended:
        (ward.folder / "fail").unlink()
    else:
        ward.send("It is getting cold.")
        ward.wait_reason("agent_concurrency")
        tell(ward, "go")
        row = ward.wait_result("fallback_spawned")
        assert (row["activation_id"], row["session_id"]) == (running["activation_id"], session["session_id"])
        assert told(ward)[-1] == ("fallback_spawned", session["session_id"])
        ward.send("It is cold.")
    ward.wait_result("fallback_resumed")
    assert [one["session"] for one in starts(ward)] == ["", NAME]
    assert len({row["activation_id"] for row in ward.attempts("spawn")}) == 1


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
def test_a_session_that_can_neither_be_begun_nor_resumed_ends_in_a_stop(ward: Ward) -> None:
    allow(ward, max_per_hour=12)
    tell(ward, "name", "go", "fail")
    ward.send()
    assert ward.wait_reason("crash_loop")["failures"] == 3
    assert [one["session"] for one in starts(ward)] == ["", NAME, ""]


def test_a_bridge_elsewhere_tells_the_name_too(tmp_path: Path) -> None:
    with equipped(tmp_path, bridge=False) as ward, remote_bridge(ward):
        allow(ward)
        tell(ward, "name")
        ward.send()
        running = wait_begun(ward, presence="active", ended_at=None)
        tell(ward, "go")
        ward.wait_result("fallback_spawned")
        assert told(ward)[-1] == ("fallback_spawned", running["session_id"])
        assert wait_begun(ward, presence="unknown")["ended_at"] is not None


def test_the_words_of_an_operators_own_command_name_nothing(ward: Ward) -> None:
    program = ward.folder / "bin" / "codex"
    allow(ward, command=[str(program), "exec", "{prompt}"])
    tell(ward, "name", "go")
    ward.send()
    assert ward.wait_result("fallback_spawned")["session_id"] is None
    assert told(ward)[-1] == ("fallback_spawned", None)
    assert begun(ward) is None
