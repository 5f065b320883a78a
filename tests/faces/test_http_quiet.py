from __future__ import annotations

from typing import Any

import pytest

from tests.faces.http_calls import HUMAN, Actor, new_agent, new_name, new_token, operator
from wakeline.testing.server import ServerProcess

NIGHT = {"from": "22:00", "until": "07:00", "time_zone": "Europe/Berlin"}
LATER = "2999-01-01T00:00:00Z"


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


def change(actor: Actor, handle: str, **fields: Any) -> Any:
    return actor.do("PATCH", f"/v1/agents/{handle}", **fields)


def rest(actor: Actor, handle: str) -> tuple[Any, Any]:
    [one] = [one for one in actor.get("/v1/agents")["agents"] if one["handle"] == handle]
    return one["quiet_hours"], one["do_not_disturb_until"]


def test_an_agent_says_when_to_leave_it_alone(bob: Actor) -> None:
    assert rest(bob, bob.handle) == (None, None)
    changed = change(bob, bob.handle, quiet_hours=NIGHT)
    assert (changed["quiet_hours"], changed["do_not_disturb_until"]) == (NIGHT, None)
    change(bob, bob.handle, do_not_disturb_until=LATER)
    assert rest(bob, bob.handle) == (NIGHT, LATER)  # what is left out stays
    change(bob, bob.handle, quiet_hours=None)
    assert rest(bob, bob.handle) == (None, LATER)
    change(bob, bob.handle, do_not_disturb_until=None)
    assert rest(bob, bob.handle) == (None, None)


def test_the_log_keeps_the_change_and_not_the_repetition(node: ServerProcess, bob: Actor) -> None:
    start = bob.get("/v1/status")["position"]
    for _ in range(3):
        change(bob, bob.handle, quiet_hours=NIGHT)
    [row] = [one for one in operator(node).get("/v1/log", after=start)["events"] if one["subject"] == bob.handle]
    assert (row["kind"], row["actor"], row["data"]["quiet_hours"]) == ("agent.changed", bob.handle, NIGHT)


@pytest.mark.guarantee("G-HUMAN")
def test_only_the_principal_and_humans_say_it(node: ServerProcess, bob: Actor) -> None:
    other, lead = new_agent(node), new_agent(node, "lead", "coordinator")
    for stranger in (other, lead):
        stranger.refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{bob.handle}", quiet_hours=NIGHT)
        stranger.refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{HUMAN}", do_not_disturb_until=LATER)
    # Not as a way to the rest, and not without a word of it.
    for more in ({"roles": ["coordinator"]}, {"display_name": "B"}, {"retired": False}):
        bob.refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{bob.handle}", quiet_hours=NIGHT, **more)
    bob.refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{bob.handle}")
    human = new_token(node, HUMAN)
    change(human, HUMAN, do_not_disturb_until=LATER)  # their own, also far from the socket
    change(human, HUMAN, do_not_disturb_until=None)
    change(human, bob.handle, quiet_hours=NIGHT)
    assert rest(bob, bob.handle) == (NIGHT, None)
    place = new_name("place")[1:]
    operator(node).post("/v1/workspaces", name=place)
    stranger = new_agent(node, "stranger", workspace=place)
    stranger.refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{bob.handle}", quiet_hours=None)
    operator(node, place).refused("AGENT_NOT_FOUND", "PATCH", f"/v1/agents/{bob.handle}", quiet_hours=None)


@pytest.mark.parametrize(
    "fields",
    [
        {"quiet_hours": {**NIGHT, "from": "25:00"}},
        {"quiet_hours": {**NIGHT, "from": "7:00"}},
        {"quiet_hours": {**NIGHT, "until": "07:60"}},
        {"quiet_hours": {**NIGHT, "until": "22:00"}},  # never ends
        {"quiet_hours": {**NIGHT, "time_zone": "Mars/Olympus"}},
        {"quiet_hours": {**NIGHT, "time_zone": "../../etc/passwd"}},
        {"quiet_hours": {**NIGHT, "time_zone": "Europe"}},
        {"quiet_hours": {"from": "22:00", "until": "07:00"}},
        {"quiet_hours": {**NIGHT, "days": "all"}},
        {"quiet_hours": "22:00-07:00"},
        {"do_not_disturb_until": "tomorrow"},
        {"do_not_disturb_until": "2026-01-01T00:00:00"},  # by whose clock?
        {"do_not_disturb_until": "9999-12-31T23:59:59-23:00"},
    ],
)
def test_what_makes_no_sense_is_refused(bob: Actor, fields: dict[str, Any]) -> None:
    bob.refused("INVALID_ARGUMENT", "PATCH", f"/v1/agents/{bob.handle}", **fields)
    assert rest(bob, bob.handle) == (None, None)
