"""Whom the watchdog looks after, without a store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.flow.pictures import BOB, NOW, decide, picture
from tests.store.subscribing import session
from wakeline.core.bridge import Bridge
from wakeline.core.subscription import Subscription, Target, Trigger
from wakeline.flow.pulse import Pulse

_replace = msgspec.structs.replace


def subscription(target: str, **fields: Any) -> Subscription:
    row = Subscription(
        subscription_id="s", workspace_id=1, handle="@bob", trigger=Trigger.SENT_TO_ME, filters="{}", route_key="r",
        target=target, url=None, coalesce_window=None, metadata="{}", wake_policy="immediate", signing_key=None,
        previous_key=None, previous_key_until=None, status="active", status_reason=None, failures=0, from_log_id=0,
        created_at=0, updated_at=0,
    )  # fmt: skip
    return _replace(row, **fields)


def bridge(host: str, lease_until: int = NOW + 1) -> Bridge:
    return Bridge(1, host, f"bridge-of-{host}", "1", "[]", 0, lease_until)


PROVEN = session(BOB, host="h", levels='{"D4":"pass"}')
HOOK = subscription(Target.WEBHOOK)
PICKY = _replace(HOOK, filters='{"priority":"high"}', subscription_id="t")
RUNG = subscription(Target.BRIDGE)

CASES: dict[str, tuple[list[Any], bool]] = {
    "a webhook reaches its owner": ([HOOK], False),
    "but not when it is degraded": ([_replace(HOOK, status="degraded")], True),
    "nor when it asks for something else": ([_replace(HOOK, trigger=Trigger.HEARTBEAT_PULSE)], True),
    "nor when it leaves out some mail": ([PICKY], True),
    "another one for the rest is enough": ([PICKY, HOOK], False),
    "a session that some mail wakes": ([_replace(RUNG, filters=PICKY.filters), PROVEN, bridge("h")], True),
    "MCP is a hint for who listens": ([subscription(Target.MCP)], True),
    "no route": ([], True),
    "a proven session whose host has a bridge": ([RUNG, PROVEN, bridge("h")], False),
    "a host without a bridge": ([RUNG, PROVEN], True),
    "a bridge whose lease is over": ([RUNG, PROVEN, bridge("h", NOW)], True),
    "the bridge of another host": ([RUNG, PROVEN, bridge("elsewhere")], True),
    "a session that no bridge can wake": ([RUNG, _replace(PROVEN, levels='{"D4":"fail"}'), bridge("h")], True),
    "a session that has ended": ([RUNG, _replace(PROVEN, ended_at=NOW), bridge("h")], True),
    "a session that names no host": ([RUNG, _replace(PROVEN, host=None), bridge("h")], True),
    "one of two sessions is enough": (
        [RUNG, PROVEN, _replace(PROVEN, session_id="y", host="elsewhere"), bridge("elsewhere")], False,
    ),
    "another agent's session is none": ([RUNG, _replace(PROVEN, handle="@carol"), bridge("h")], True),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "pulsed"), CASES.values(), ids=CASES.keys())
def test_the_watchdog_passes_over_who_is_reached(
    rows: list[Any],
    pulsed: bool,  # noqa: FBT001 - a row of the table
) -> None:
    kinds: dict[str, type] = {"subscriptions": Subscription, "sessions": type(PROVEN), "bridges": Bridge}
    facts = {name: [row for row in rows if isinstance(row, kind)] for name, kind in kinds.items()}
    [handles] = decide(picture(**facts), Pulse(1, {"@bob": 2}, NOW, bypass=True))
    assert handles == (["@bob"] if pulsed else [])
