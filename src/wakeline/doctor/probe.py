"""The probe: wake a real harness, and say for each level what was seen.

Everything is judged by the requests that reached the model and by the server's own rows; nothing is read off a screen.
A level that asks for something that did not happen fails with the reason, and so do those that build on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wakeline.core.verdict import NAMES, Diagnosis, Grade, Verdict, unreached
from wakeline.doctor.hardship import TROUBLE, endure
from wakeline.doctor.stage import MARK, Row, Stage, Unproven
from wakeline.doctor.ways import Way
from wakeline.runtime.clock import new_id
from wakeline.testing.installed import Installed
from wakeline.testing.model import Request
from wakeline.testing.worlds import HarnessSession

WAKE_SECONDS = 60.0
SETTLE_SECONDS = 30.0
TYPED = "keystrokes are no evidence for this level"
ARMED = ("socket", "file-watch", "native-push", "app-server")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """Two idle sessions of one agent: the one that is written to, and a sibling."""

    stage: Stage
    session: HarnessSession
    spoken: Request  # what its human said first
    row: Row
    sibling: HarnessSession


@dataclass(frozen=True, slots=True)
class Wake:
    """One message, and the request that it became."""

    message_id: str
    token: str
    posted: float
    request: Request


def examine(installed: Installed, version: str, folder: Path, say: Say, way: Way | None = None) -> Diagnosis:
    """`way`: by which way into it; what people get without choosing, if that is not said."""
    verdicts: list[Verdict] = []
    transport = "none" if way is None else way.transport
    try:
        say(f"starting {installed.harness} {version} in a throwaway world")
        with Stage(installed, folder, way) as stage:
            scene = _set(stage)
            came_by = str(scene.row["transport"] or "none")
            if way is not None and came_by != transport:
                raise Unproven(f"this version is reached by {came_by}, not by {transport}")
            transport = came_by
            say(f"it is reached by {transport}")
            _judge(scene, version, verdicts, say)
    except TROUBLE as error:
        reason = " ".join(str(error).split())[:300]
        verdicts += unreached(set(NAMES) - {verdict.level for verdict in verdicts}, reason)
    return Diagnosis(installed.harness, version, transport, sorted(verdicts, key=lambda one: one.level))


def _set(stage: Stage) -> Scene:
    sibling, _, _ = stage.seat()
    session, spoken, row = stage.seat()
    stage.trust(row)
    return Scene(stage, session, spoken, row, sibling)


def _judge(scene: Scene, version: str, verdicts: list[Verdict], say: Say) -> None:
    verdicts += [_identity(scene, version), _armed(scene)]
    say("writing to one of two idle sessions")
    wake = ring(scene)
    say("the session woke; looking at what it does with the mail")
    fetched = scene.stage.model.wait(wake.token, session=scene.session.native_id, timeout=WAKE_SECONDS)
    completed = _completed(scene)
    reached = [_woke(wake), _injected(wake, fetched)]
    if scene.stage.way.typed:
        reached = [_typed(one) for one in reached]
    verdicts += [_free(scene), _addressed(scene), *reached, _same(scene, wake), completed]
    say("looking how it stands bursts and crashes")
    verdicts.append(endure(scene.stage, scene.session, scene.row, say))


def ring(scene: Scene, *, replying: bool = False) -> Wake:
    """Post to an idle session and wait for its model to be asked."""
    stage, token = scene.stage, f"WAKE-{new_id()}"
    if replying:
        stage.answer_next()
    before = len(stage.model.requests)
    posted = stage.now()
    message_id = stage.post(scene.row, f"A probe. Its token is {token}.")["message_id"]
    request = stage.model.wait(MARK, session=scene.session.native_id, after=before, timeout=WAKE_SECONDS)
    return Wake(message_id, token, posted, request)


# -- levels -----------------------------------------------------------------------------------------------------------


def _identity(scene: Scene, version: str) -> Verdict:
    """Who it is, where, and a sign of life: its process, or what its own server tells of it."""
    row = scene.row
    seen = {"native_id": str(row["native_id"]), "version": version, "liveness": str(row["liveness"])}
    lacking = [name for name in ("native_id", "cwd", "host") if row[name] is None]
    if lacking:
        return Verdict("D0", Grade.PARTIAL, f"the session does not say its {', '.join(lacking)}", seen)
    return Verdict("D0", Grade.PASS, evidence={**seen, "presence": str(row["presence"])})


def _armed(scene: Scene) -> Verdict:
    mode = str(scene.row["wake_mode"])
    if scene.stage.way.typed:
        return Verdict("D2", Grade.NOT_APPLICABLE, TYPED, {"wake_mode": mode})
    if mode not in ARMED:
        return Verdict("D2", Grade.FAIL, "no official way to reach it was registered", {"wake_mode": mode})
    return Verdict("D2", Grade.PASS, evidence={"wake_mode": mode})


def _free(scene: Scene) -> Verdict:
    """Nobody else was asked: no fresh session, no second process."""
    known = {scene.session.native_id, scene.sibling.native_id}
    strangers = {request.session for request in scene.stage.model.turns()} - known
    if strangers or not scene.session.terminal.alive:
        return Verdict("D1", Grade.FAIL, f"{len(strangers)} other sessions were started")
    return Verdict("D1", Grade.PASS)


def _addressed(scene: Scene) -> Verdict:
    rung = scene.stage.model.turns(MARK, session=scene.sibling.native_id)
    if rung:
        return Verdict("D3", Grade.FAIL, "the sibling was woken too")
    return Verdict("D3", Grade.PASS, evidence={"sibling": scene.sibling.native_id})


def _woke(wake: Wake) -> Verdict:
    return Verdict("D4", Grade.PASS, latency_ms=(wake.request.at - wake.posted) * 1_000)


def _injected(wake: Wake, fetched: Request) -> Verdict:
    return Verdict("D5", Grade.PASS, evidence={"token": wake.token}, latency_ms=(fetched.at - wake.posted) * 1_000)


def _typed(verdict: Verdict) -> Verdict:
    """What was seen, and that it does not count."""
    return Verdict(verdict.level, Grade.NOT_APPLICABLE, TYPED, verdict.evidence, verdict.latency_ms)


def _same(scene: Scene, wake: Wake) -> Verdict:
    seen = {"session_id": str(wake.request.session), "model": wake.request.model}
    if (wake.request.session, wake.request.model) != (scene.spoken.session, scene.spoken.model):
        return Verdict("D6", Grade.FAIL, "another session or another model answered", seen)
    return Verdict("D6", Grade.PASS, evidence=seen)


def _completed(scene: Scene) -> Verdict:
    """The first wake ends in silence, so its turn's end must be seen; the next one ends with a reply."""
    seen = {step: _reaches(scene.stage, step) for step in ("injected", "processed")}
    scene.stage.wait(lambda: scene.stage.idle(scene.session), SETTLE_SECONDS, "it did not become idle again")
    ring(scene, replying=True)
    seen["replied"] = _reaches(scene.stage, "replied")
    observed, missing = ([step for step, is_seen in seen.items() if is_seen is wanted] for wanted in (True, False))
    if not missing:
        return Verdict("D7", Grade.PASS, evidence={"steps": ",".join(observed)})
    reason = f"not observed: {', '.join(missing)}"
    enough = {"processed", "replied"} & set(observed)
    return Verdict("D7", Grade.PARTIAL if enough else Grade.FAIL, reason, {"steps": ",".join(observed)})


def _reaches(stage: Stage, step: str) -> bool:
    """Does the newest delivery come to this step?"""

    def has_come() -> bool:
        newest, *_ = [*stage.deliveries(), {"steps": []}]
        return any(one["step"] == step for one in newest["steps"])

    try:
        stage.wait(has_come, SETTLE_SECONDS, "")
    except Unproven:
        return False
    return True
