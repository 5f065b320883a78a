from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import wakeline
from tests.faces.cable import Cable
from wakeline import Client, client, wire
from wakeline.errors import Conflict, Forbidden, InvalidArgument, NotFound, Unauthorized, Unavailable
from wakeline.testing.server import ServerProcess


@pytest.fixture
async def operator(server: ServerProcess) -> AsyncIterator[Client]:
    async with Client(socket=server.socket) as connected:
        yield connected


@pytest.fixture
async def cable(server: ServerProcess, tmp_path: Path) -> AsyncIterator[Cable]:
    async with Cable(server.socket, tmp_path / "cable.sock") as laid:
        yield laid


@pytest.fixture
async def remote(cable: Cable) -> AsyncIterator[Client]:
    """The operator at the far end of the cable."""
    async with Client(socket=cable.path) as connected:
        yield connected


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without pauses."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.0)


def name() -> str:
    return f"@a{uuid.uuid4().hex[:10]}"


async def test_a_message_comes_back_typed(server: ServerProcess, operator: Client) -> None:
    added = await operator.add_agent(name(), roles=["reviewer"])
    expires = datetime.now(UTC) + timedelta(hours=1)
    posted = await operator.post_message("hello", to=[added.handle], tags=("a", "b"), expires_at=expires)
    assert isinstance(posted, wire.Posted)
    async with Client(url=server.url, token=added.token) as agent:
        inbox = await agent.get_inbox()
        assert (inbox.unread, inbox.messages[0].body, inbox.messages[0].tags) == (1, "hello", ["a", "b"])
        assert inbox.messages[0].expires_at == expires
        assert await agent.ack_messages([posted.message_id]) == wire.Acked(acked=1, unread=0)


async def test_ask_returns_the_reply_or_nothing(server: ServerProcess, operator: Client) -> None:
    added = await operator.add_agent(name())
    assert await operator.ask("Anybody?", to=[added.handle], wait_seconds=0.05) is None
    async with Client(url=server.url, token=added.token) as agent, asyncio.TaskGroup() as group:
        asking = group.create_task(operator.ask("Which port?", to=[added.handle], wait_seconds=30))
        while len((await agent.get_inbox()).messages) < 2:
            pass
        question = (await agent.get_inbox()).messages[-1]
        await agent.post_message("8080", in_reply_to=question.message_id)
    reply = asking.result()
    assert reply is not None
    assert reply.body == "8080"


async def test_a_refusal_raises_the_class_that_the_server_meant(server: ServerProcess, operator: Client) -> None:
    agent = await operator.add_agent(name())
    with pytest.raises(NotFound) as missing:
        await operator.get_thread("0" * 26)
    assert missing.value.code == "THREAD_NOT_FOUND"
    assert missing.value.hint
    assert missing.value.details["request_id"]
    with pytest.raises(InvalidArgument):
        await operator.get_inbox(limit=0)
    with pytest.raises(Conflict, match=agent.handle):
        await operator.add_agent(agent.handle)
    async with Client(url=server.url, token=agent.token) as limited:
        with pytest.raises(Forbidden):
            await limited.add_workspace("mine")
    async with Client(url=server.url, token="forged") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.whoami()


@pytest.mark.guarantee("G-SAFE-REPEAT")
async def test_a_lost_answer_is_asked_for_again_and_posts_once(operator: Client, remote: Client, cable: Cable) -> None:
    receiver = await operator.add_agent(name())
    cable.lose_answers = 2
    posted = await remote.post_message("once", to=[receiver.handle])
    assert cable.requests == 3
    inbox = await operator.read_thread(posted.thread_id)
    assert [message.message_id for message in inbox.messages] == [posted.message_id]


@pytest.mark.guarantee("G-SAFE-REPEAT")
async def test_what_is_not_safe_to_repeat_is_not_repeated(operator: Client, remote: Client, cable: Cable) -> None:
    workspace = name().removeprefix("@")
    cable.lose_answers = 1
    with pytest.raises(Unavailable) as lost:
        await remote.add_workspace(workspace)
    assert lost.value.code == "SERVER_UNREACHABLE"
    assert cable.requests == 1
    assert workspace in {found.name for found in (await operator.list_workspaces()).workspaces}


@pytest.mark.guarantee("G-SAFE-REPEAT")
async def test_a_token_whose_answer_was_lost_is_given_again(operator: Client, remote: Client, cable: Cable) -> None:
    handle = name()
    cable.lose_answers = 1
    added = await remote.add_agent(handle)
    assert cable.requests == 2
    assert added.token
    issued = (await operator.list_tokens(handle=handle)).tokens
    assert [token.jti for token in issued] == [added.jti]


async def test_a_busy_server_is_asked_again(remote: Client, cable: Cable) -> None:
    cable.busy_answers = 2
    assert (await remote.whoami()).operator
    assert cable.requests == 3


@pytest.mark.usefixtures("hasty")
async def test_patience_has_an_end(remote: Client, cable: Cable) -> None:
    cable.busy_answers = 1000
    with pytest.raises(Unavailable) as busy:
        await remote.whoami()
    assert busy.value.code == "STORE_BUSY"
    assert cable.requests == client.ATTEMPTS


@pytest.mark.usefixtures("hasty")
async def test_a_server_that_is_not_there_is_said_to_be_away(tmp_path: Path) -> None:
    for away in (Client(socket=tmp_path / "no.sock"), Client(url="http://127.0.0.1:1", token="x")):
        async with away:
            with pytest.raises(Unavailable, match="Cannot reach"):
                await away.add_agent("@bob")
            with pytest.raises(Unavailable, match="Cannot reach"):
                await anext(aiter(away.events(after="0")))


async def test_a_call_waits_for_a_server_that_is_just_starting(server: ServerProcess, tmp_path: Path) -> None:
    cable = Cable(server.socket, tmp_path / "late.sock")
    async with Client(socket=cable.path) as early, asyncio.TaskGroup() as group:
        calling = group.create_task(early.add_agent(name()))
        await asyncio.sleep(0.05)
        async with cable:
            await calling


async def test_the_environment_says_who_and_where(server: ServerProcess, operator: Client) -> None:
    added = await operator.add_agent(name())
    assert added.token
    async with Client.from_environment(server.environ) as human:
        assert (await human.whoami()).operator
    by_token = server.environ | {"WAKELINE_TOKEN": added.token}
    for environ in (by_token, by_token | {"WAKELINE_URL": server.url}, by_token | {"CLAUDECODE": "1"}):
        async with Client.from_environment(environ) as agent:
            assert (await agent.whoami()).handle == added.handle
    with pytest.raises(Forbidden) as refused:
        Client.from_environment(server.environ | {"CLAUDECODE": "1"})
    assert refused.value.code == "OPERATOR_IN_HARNESS"


async def test_the_operator_chooses_a_workspace(server: ServerProcess, operator: Client) -> None:
    space = f"w{uuid.uuid4().hex[:10]}"
    await operator.add_workspace(space)
    async with Client(socket=server.socket, workspace=space) as there:
        assert (await there.whoami()).workspace == space


def test_a_client_needs_one_place_to_go() -> None:
    for places in ({}, {"url": "http://h", "socket": "/s"}):
        with pytest.raises(TypeError):
            Client(**places)


def test_the_package_offers_the_client_and_nothing_else() -> None:
    assert wakeline.Client is Client
    assert not hasattr(wakeline, "Server")
