"""The doctor, as a person runs it: the real command, real harnesses in worlds of their own, a real server."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.faces.command_line import Shell
from tools.long_results import DIAGNOSIS
from wakeline.core.level import SHIPPED, admitted
from wakeline.core.verdict import NAMES, Grade
from wakeline.doctor.hardship import graded, whereabouts
from wakeline.doctor.installs import PINNED, cache_folder
from wakeline.doctor.stage import AGENT, Stage
from wakeline.doctor.ways import ways
from wakeline.testing.installed import PROGRAMS, Installed, layout
from wakeline.testing.server import ServerProcess

PATIENCE = 900
ROOT = Path(__file__).parent.parent.parent
QUICKEST = ("pi", "extension")  # `make test` probes it, too
WAYS = [
    pytest.param(harness, transport, marks=() if (harness, transport) == QUICKEST else pytest.mark.long)
    for harness in PINNED
    for transport in ways(harness)
]


def on_a_path(folder: Path, installed: Installed) -> Path:
    """A folder for PATH in which the harness is what people call it."""
    program = folder / "bin" / PROGRAMS[installed.harness]
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(installed.command)} "$@"\n')
    program.chmod(0o755)
    return program.parent


def operator(server: ServerProcess, home: Path, *folders: Path) -> Shell:
    path = os.pathsep.join([*map(str, folders), "/usr/local/bin", "/usr/bin", "/bin"])
    return Shell({"HOME": str(home), "PATH": path, "WAKELINE_DATA": str(server.data)})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "operator").mkdir()
    return tmp_path / "operator"


# -- the physical probe -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-PROVEN-ROUTES")
@pytest.mark.probe
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(("harness", "transport"), WAYS)
def test_a_real_harness_is_woken_and_what_was_proven_is_kept(
    harness: str,
    transport: str,
    server: ServerProcess,
    home: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    harness_tools.need_terminal()
    installed = harness_tools.installed(harness)
    shell = operator(server, home, on_a_path(tmp_path, installed))
    done = shell.run("doctor", harness, "--transport", transport, "-o", "json", patience=PATIENCE)
    [found] = json.loads(done.out)["harnesses"]
    record_property(DIAGNOSIS, json.dumps(found))  # also what is worse than we claim: it is what there is
    assert done.code == 0, done.out + done.err
    assert (found["harness"], found["transport"]) == (harness, transport)
    assert [one["level"] for one in found["verdicts"]] == list(NAMES)
    [proof] = [one for one in proofs(server) if not one["shipped"]]
    way = (proof["harness"], proof["transport"], proof["version"])
    assert way == (harness, transport, PINNED[harness][1])
    assert admitted(proof["levels"], SHIPPED[way]) == SHIPPED[way], f"we claim more than this:\n{done.out}"


@pytest.mark.parametrize(
    "words", [("tmux", "--transport", "plugin"), ("pi", "--transport", "plugin"), ("all", "--transport", "magic")]
)
def test_a_way_that_there_is_not_is_a_mistake(words: tuple[str, ...], server: ServerProcess, home: Path) -> None:
    done = operator(server, home).run("doctor", *words, "-o", "json")
    assert (done.code, done.error()["code"]) == (2, "USAGE")


@pytest.mark.parametrize(
    ("stood", "failed", "grade"),
    [
        ({"one": "seen"}, {}, Grade.PASS),
        ({"one": "seen"}, {"other": "it rang"}, Grade.PARTIAL),
        ({}, {"other": "it rang"}, Grade.FAIL),
    ],
)
def test_hardships_pass_only_when_none_failed(stood: dict[str, str], failed: dict[str, str], grade: Grade) -> None:
    verdict = graded(stood, failed, {"third": "it never asks"})
    assert (verdict.result, verdict.reason) == (grade, "other: it rang" if failed else None)
    assert verdict.evidence == {**stood, "third": "n/a, it never asks"}


TAKEN, LOST = {"step": "triggered", "outcome": None}, {"step": "queued", "outcome": "unknown"}


@pytest.mark.parametrize(
    ("deliveries", "held", "row", "words"),
    [
        ([TAKEN, LOST], [], {"presence": "idle"}, "triggered: the harness took the doorbell and did not show it"),
        ([LOST, TAKEN], [], {"presence": "idle"}, "last ring queued: unknown; session idle"),
        ([TAKEN], ["turn_active", "turn_active"], {"presence": "active"}, "held: turn_active; session active"),
        ([], [], None, "never rung; session unknown"),
    ],
    ids=["with the harness", "nobody knows", "with us", "nowhere"],
)
def test_mail_that_did_not_arrive_is_said_to_be_somewhere(
    deliveries: list[dict[str, Any]], held: list[str], row: dict[str, Any] | None, words: str
) -> None:
    said = whereabouts(deliveries, held, row)
    assert words in said
    assert len(f"not fetched within 90 s; {said}") < 120


def proofs(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", "/v1/proofs").json()["proofs"]
    return found


def test_a_harness_that_cannot_be_woken_fails_with_a_reason(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    harness_tools.need_terminal()
    dead = Installed("pi", ("/bin/echo", "pi 9.9.9"))
    done = operator(server, home, on_a_path(tmp_path, dead)).run("doctor", "pi", "-o", "json")
    answer = json.loads(done.out)
    assert (done.code, answer["healthy"]) == (1, False)
    [found] = answer["harnesses"]
    assert (found["version"], {one["result"] for one in found["verdicts"]}) == ("9.9.9", {"fail"})
    assert all(one["reason"] for one in found["verdicts"])


# -- where harnesses are ----------------------------------------------------------------------------------------------


def test_a_harness_that_is_not_here_is_not_found(server: ServerProcess, home: Path) -> None:
    done = operator(server, home).run("doctor", "pi", "-o", "json")
    assert (done.code, done.error()["code"]) == (3, "HARNESS_NOT_FOUND")


def test_what_was_fetched_is_found_in_the_cache(server: ServerProcess, home: Path) -> None:
    """The first look at it is that it is there; that it is no harness comes out at once."""
    folder = cache_folder({"HOME": str(home)}) / f"pi-{PINNED['pi'][1]}"
    program = folder / "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
    program.parent.mkdir(parents=True)
    program.touch()
    node = home / "bin"
    node.mkdir()
    (node / "node").symlink_to("/bin/true")
    done = operator(server, home, node).run("doctor", "pi", "--no-keep")
    first, named, reached, *levels = done.out.splitlines()
    assert (done.code, first, named, reached) == (1, "DELIVERY_LEVELS:", "harness=pi", "transport=none")
    assert [line.split(":")[0] for line in levels] == [f"{level} {name}" for level, name in NAMES.items()]
    assert [one for one in proofs(server) if not one["shipped"]] == []


def says(folder: Path, harness: str, words: str) -> Path:
    """A program that answers so, whatever it is asked."""
    return on_a_path(folder, Installed(harness, ("/bin/sh", "-c", words)))


def test_what_is_installed_is_found_with_its_version_and_what_is_proven_of_it(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    says(tmp_path, "pi", f"echo {PINNED['pi'][1]}")
    says(tmp_path, "claude-code", "echo 99.0.0")
    path = says(tmp_path, "codex", "echo codex-cli 99.1.0")
    cached = cache_folder({"HOME": str(home)}) / f"opencode-{PINNED['opencode'][1]}"
    program = Path(layout("opencode", cached / "node_modules")[-1])
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho {PINNED['opencode'][1]}\n")
    program.chmod(0o755)
    verdicts = [{"level": "D4", "result": "pass"}]
    proof = {"harness": "codex", "transport": "app-server", "version": "99.1.0", "verdicts": verdicts}
    assert server.call("POST", "/v1/proofs", proof).status == 200
    shell = operator(server, home, path)
    answer = shell.json("doctor")
    found = {one["harness"]: (one["version"], one["levels"], one["cached"]) for one in answer["harnesses"]}
    assert found == {
        "claude-code": ("99.0.0", "none", False),
        "codex": ("99.1.0", "known", False),
        "opencode": (PINNED["opencode"][1], "shipped", True),
        "pi": (PINNED["pi"][1], "shipped", False),
    }
    [codex] = [one for one in answer["harnesses"] if one["harness"] == "codex"]
    assert (codex["program"], codex["ways"][0]) == (
        str(path / "codex"),
        {"transport": "app-server", "known": "known", "levels": {"D4": "pass"}},
    )
    seen = {line.split("  ")[0]: line for line in shell.run("doctor").out.splitlines()}
    assert "99.1.0" in seen["✓ harness: codex"]
    assert "app-server can wake (known)" in seen["✓ harness: codex"]
    assert "extension can wake (shipped)" in seen["✓ harness: pi"]
    assert "'wakeline doctor claude-code'" in seen["- harness: claude-code"]


def test_a_harness_that_does_not_say_its_version_holds_nothing_up(home: Path, tmp_path: Path) -> None:
    path = says(tmp_path, "pi", "exec sleep 600")
    alone = Shell({"HOME": str(home), "PATH": f"{path}:/usr/bin:/bin", "WAKELINE_DATA": str(home / "data")})
    answer = json.loads(alone.run("doctor", "-o", "json", patience=60).out)
    found = {one["harness"]: (one["program"], one["version"], one["levels"]) for one in answer["harnesses"]}
    assert found["pi"] == (str(path / "pi"), None, "none")
    assert found["codex"] == (None, None, "none")


@pytest.mark.parametrize(
    ("who", "told"),
    [("nobody", "will be shown but not kept: "), ("@bob", "only a human may record a proof"), ("human", None)],
)
def test_whose_result_would_be_lost_hears_of_it_before_the_probe(
    who: str, told: str | None, server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    harness_tools.need_terminal()
    shell = operator(server, home, says(tmp_path, "pi", "echo pi 9.9.9"))
    if who == "nobody":
        shell = shell.with_environ(WAKELINE_DATA=str(tmp_path / "none"))
    elif who == "@bob":
        shell = shell.with_environ(WAKELINE_TOKEN=server.add_agent("@bob"))
    before, _, _ = shell.run("doctor", "pi").err.partition("starting pi")
    assert (told in before) if told else before == ""


def test_the_versions_that_are_fetched_are_those_that_are_tested() -> None:
    asked = json.loads((ROOT / "requirements/node/package.json").read_text())
    pinned = {**asked["dependencies"], **asked["optionalDependencies"]}
    opencode = {"opencode-ai": pinned["opencode-linux-x64"]}  # tests need only the program for one platform
    assert dict(PINNED.values()).items() <= {**pinned, **opencode}.items()


# -- a session that is at work ----------------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    harness_tools.need_terminal()
    with Stage(harness_tools.installed("pi"), tmp_path) as made:
        yield made


def test_a_live_session_is_rung_with_consent_and_the_path_is_told(stage: Stage, home: Path) -> None:
    session, _, row = stage.seat()
    shell = operator(stage.server, home)
    refused = shell.run("doctor", "--live", AGENT, "-o", "json")
    assert (refused.code, refused.error()["code"]) == (4, "CONFIRMATION_REQUIRED")
    assert stage.model.turns("A test ring") == [], "nobody agreed"
    answer = shell.json("doctor", "--live", AGENT, "--yes")
    assert (answer["arrived"], answer["session_id"], answer["transport"]) == (True, row["session_id"], "extension")
    assert [step["step"] for step in answer["steps"]][:1] == ["queued"]
    assert stage.model.turns("a test ring", session=session.native_id)


def test_who_has_no_session_cannot_be_rung(server: ServerProcess, home: Path) -> None:
    server.add_agent("@nobody-there")
    done = operator(server, home).run("doctor", "--live", "@nobody-there", "--yes", "-o", "json")
    assert (done.code, done.error()["code"]) == (3, "SESSION_NOT_FOUND")
