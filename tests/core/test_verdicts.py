from __future__ import annotations

from wakeline.core.verdict import NAMES, Diagnosis, Grade, Verdict, block, unreached

EXPECTED = """\
DELIVERY_LEVELS:
harness=claude-code
transport=inbox-socket
D0 live_session: pass
D4 idle_active_wake: pass latency_ms=137
D5 context_injection: pass token=AGY-PARITY-3399
D7 completion_reply: partial reason="no reply was seen"
D8 robustness: n/a note="two words" reason="a 'quoted' word\""""


def found(*verdicts: Verdict) -> Diagnosis:
    return Diagnosis("claude-code", "2.1.325", "inbox-socket", list(verdicts))


def test_the_block_is_the_one_that_all_harnesses_are_compared_by() -> None:
    diagnosis = found(
        Verdict("D0", Grade.PASS),
        Verdict("D4", Grade.PASS, latency_ms=137.4),
        Verdict("D5", Grade.PASS, evidence={"token": "AGY-PARITY-3399"}),
        Verdict("D7", Grade.PARTIAL, "no reply\nwas seen"),
        Verdict("D8", Grade.NOT_APPLICABLE, 'a "quoted" word', {"note": "two words"}),
    )
    assert block(diagnosis) == EXPECTED


def test_only_a_failure_makes_a_harness_unhealthy() -> None:
    others = [Verdict("D0", grade) for grade in Grade if grade is not Grade.FAIL]
    assert found(*others).healthy
    assert not found(*others, Verdict("D1", Grade.FAIL)).healthy
    assert not found().healthy, "nothing was looked at"


def test_what_was_not_reached_has_failed_with_the_reason() -> None:
    diagnosis = found(*unreached(NAMES, "it did not start"))
    assert set(diagnosis.levels.values()) == {"fail"}
    assert diagnosis.levels.keys() == NAMES.keys()
