"""Events that are no messages, from their rows in the log to the bytes that go out: live, as a digest, and replayed."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell, body
from tests.store.builders import UNGUARDED, agent, new_id, send
from wakeline import wire
from wakeline.core.event import moment
from wakeline.core.log import Workspace
from wakeline.core.picture import Needs, Picture
from wakeline.core.row_data import NoticeAssigned, RowData, TaskState, TaskStateChanged
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Trigger
from wakeline.core.wake_queries import DeliveryFor
from wakeline.service import Hub
from wakeline.service.context import Context
from wakeline.service.deliveries import Deliveries
from wakeline.service.log import Logs

TASK, NOTICE = "01JD3Z8Q0W4T6N9X2C5V7B1M3K", "01JD3Z8Q0W4T6N9X2C5V7B1M3N"
DEADLINE = datetime(2026, 4, 26, 10, 5, tzinfo=UTC)


def changed(before: TaskState, after: TaskState, assignee: str | None = "@bob") -> TaskStateChanged:
    return TaskStateChanged(task_id=TASK, previous_state=before, new_state=after, originator="@ann", assignee=assignee)


def assigned(title: str = "Disk nearly full") -> NoticeAssigned:
    return NoticeAssigned(
        notice_id=NOTICE, assignee="@bob", title=title, target="user", handler="agent", deadline=DEADLINE
    )


class Tell(msgspec.Struct, frozen=True):
    """Rows of the log, as whoever changes tasks and assigns notices writes them.  Answers when."""

    workspace_id: int
    kind: str
    data: tuple[dict[str, Any], ...]
    actor: str = "@ann"

    def needs(self, needs: Needs) -> None:
        pass

    def decide(self, picture: Picture) -> int:
        for one in self.data:
            picture.append(self.kind, f"task:{TASK}", 0, self.actor, TASK, one)
        return picture.now


@pytest.fixture
def bell(store: Store, workspace: Workspace) -> Bell:
    return Bell(store, workspace)


@pytest.fixture
def service(store: Store) -> Deliveries:
    context = Context(store, UNGUARDED, new_id)
    return Deliveries(context, Logs(context, Hub(store)))


async def tell(bell: Bell, kind: str, *rows: RowData, actor: str = "@ann") -> int:
    data = tuple(row.data() for row in rows)
    return await bell.store.submit(Tell(bell.workspace.workspace_id, kind, data, actor))


CASES = {
    "a task": (
        Trigger.TASK_STATE_CHANGED, "task.state_changed",
        changed(TaskState.SUBMITTED, TaskState.WORKING), changed(TaskState.WORKING, TaskState.INPUT_REQUIRED),
        {
            "taskId": TASK, "previousState": "Working", "newState": "InputRequired",
            "originator": "@ann", "assignee": "@bob", "lastModifiedAt": "",
        },
        f"- 2 task transitions (latest: Working → InputRequired on task {TASK})",
    ),
    "a notice": (
        Trigger.NOTICE_ASSIGNED, "notice.assigned", assigned("Disk half full"), assigned(),
        {
            "noticeId": NOTICE, "title": "Disk nearly full", "target": "user", "handler": "agent",
            "deadline": "2026-04-26T10:05:00.000Z",
        },
        '- 2 notices assigned (latest: "Disk nearly full")',
    ),
}  # fmt: skip


def expected(payload: dict[str, Any], at: int) -> dict[str, Any]:
    return payload | {"lastModifiedAt": moment(at)} if "lastModifiedAt" in payload else payload


@pytest.mark.parametrize("case", CASES)
async def test_it_wakes_whom_it_concerns_in_the_agreed_shape(bell: Bell, case: str) -> None:
    trigger, kind, _, row, payload, _ = CASES[case]
    made = await bell.subscribe("@bob", trigger=trigger)
    await bell.subscribe("@cat", trigger=trigger)
    at = await tell(bell, kind, row)
    [planned] = await bell.match()
    said = body(planned)
    assert list(said) == [
        "schemaVersion", "eventType", "eventId", "logId", "agentIdentity", "subscriptionId", "payload", "emittedAt",
    ]  # fmt: skip
    assert (said["eventType"], said["subscriptionId"]) == (f"wake/{trigger.lower()}", made.subscription_id)
    assert said["payload"] == expected(payload, at)


@pytest.mark.parametrize("case", CASES)
async def test_several_become_one_digest(bell: Bell, case: str) -> None:
    trigger, kind, first, second, payload, line = CASES[case]
    await bell.subscribe("@bob", trigger=trigger)
    at = await tell(bell, kind, first, second)
    [planned] = await bell.match()
    said = body(planned)["payload"]
    assert said["breakdown"] == {trigger.lower(): {"count": 2, "latest": expected(payload, at)}}
    assert line in said["text"].splitlines()


@pytest.mark.guarantee("G-RESYNC")
@pytest.mark.parametrize("case", CASES)
async def test_it_is_replayed_from_a_position(bell: Bell, service: Deliveries, case: str) -> None:
    trigger, kind, first, second, payload, _ = CASES[case]
    at = await tell(bell, kind, first, second)
    made = await bell.subscribe("@bob", trigger=trigger)
    bob = agent(bell.workspace, "@bob")
    answer = await service.resync(bob, made.subscription_id, wire.Resync(since_log_id=0))
    assert answer.events_replayed == 2
    [delivery] = await bell.store.read(DeliveryFor(bell.workspace.workspace_id, answer.delivery_id or ""))
    [group] = msgspec.json.decode(delivery.body)["payload"]["breakdown"].values()
    assert group == {"count": 2, "latest": expected(payload, at)}


async def test_whoever_changed_a_task_is_not_woken_by_it(bell: Bell) -> None:
    for handle in ("@ann", "@bob"):
        await bell.subscribe(handle, trigger=Trigger.TASK_STATE_CHANGED)
    await tell(bell, "task.state_changed", changed(TaskState.SUBMITTED, TaskState.WORKING), actor="@bob")
    assert [planned.delivery.handle for planned in await bell.match()] == ["@ann"]
    await tell(bell, "task.state_changed", changed(TaskState.SUBMITTED, TaskState.CANCELED, None), actor="@ann")
    assert await bell.match() == []


async def test_filters_ask_who_did_it(bell: Bell) -> None:
    trigger = Trigger.NOTICE_ASSIGNED
    wanted = await bell.subscribe("@bob", trigger=trigger, filters=Filters(sender_filter=("@ann",)))
    await bell.subscribe("@bob", trigger=trigger, filters=Filters(sender_filter=("@cat",)))
    await tell(bell, "notice.assigned", assigned())
    assert [one.subscription.subscription_id for one in await bell.match()] == [wanted.subscription_id]


MISFITS: dict[str, tuple[str, dict[str, Any]]] = {
    "nobody to wake": ("notice.assigned", {"notice_id": NOTICE, "title": "x", "target": "user", "handler": "agent"}),
    "a state that we do not know": (
        "task.state_changed",
        {"task_id": TASK, "previous_state": "working", "new_state": "asleep", "originator": "@bob", "assignee": "@bob"},
    ),
    "nothing at all": ("task.state_changed", {}),
    "a grant to nobody": ("grant.added", {"scope": "CAN_REPLY_TO", "owner": "@ann"}),
}


@pytest.mark.parametrize("case", MISFITS)
async def test_a_row_that_does_not_fit_stops_nobody_else(
    bell: Bell, service: Deliveries, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    kind, data = MISFITS[case]
    trigger = Trigger.PERMISSION_GRANTED if kind == "grant.added" else Trigger(kind.replace(".", "_").upper())
    row = await bell.subscribe("@bob", trigger=trigger)
    await bell.subscribe("@bob")
    await bell.store.submit(Tell(bell.workspace.workspace_id, kind, (data,)))
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    with caplog.at_level(logging.WARNING):
        [planned] = await bell.match()
    assert planned.delivery.event_type == "wake/sent_to_me"
    assert kind in caplog.text
    bob = agent(bell.workspace, "@bob")
    answer = await service.resync(bob, row.subscription_id, wire.Resync(since_log_id=0))
    assert answer.events_replayed == 0
