"""What a message came from is kept by the store, so it is known after a restart and on every node."""

from __future__ import annotations

import msgspec

from tests.store.builders import agent, open_workspace, send
from tests.store.places import Place
from wakeline.core import chain
from wakeline.core.log import Workspace
from wakeline.core.principal import Caller
from wakeline.core.queries import MessageFor, NewestMail
from wakeline.core.store import Store
from wakeline.flow.ack import AckMessages, AckThread


async def hops(store: Store, workspace: Workspace, message_id: str) -> tuple[str, ...] | None:
    [found] = await store.read(MessageFor(workspace.workspace_id, message_id, "@human", everything=True))
    return None if found.message.chain is None else chain.parse(found.message.chain).hops


async def test_a_chain_goes_on_after_a_restart(place: Place) -> None:
    first = await place.open()
    workspace = await open_workspace(first, "@ann", "@bob", "@cat")
    sent = await send(first, agent(workspace, "@ann"), "@bob")
    await first.submit(AckMessages(agent(workspace, "@bob"), (sent.message_id,)))
    await place.close()
    again = await place.open()
    onward = await send(again, agent(workspace, "@bob"), "@cat")
    assert await hops(again, workspace, sent.message_id) is None
    assert await hops(again, workspace, onward.message_id) == ("@ann", "@bob")
    await place.close()


async def test_each_session_has_a_cause_of_its_own(store: Store, workspace: Workspace) -> None:
    def session(name: str) -> Caller:
        return msgspec.structs.replace(agent(workspace, "@bob"), session_id=name)

    sent = await send(store, agent(workspace, "@ann"), "@bob")
    await store.submit(AckMessages(session("one"), (sent.message_id,)))
    assert await hops(store, workspace, (await send(store, session("one"), "@cat")).message_id) == ("@ann", "@bob")
    assert await hops(store, workspace, (await send(store, session("two"), "@cat")).message_id) is None


async def test_the_newest_mail_is_what_somebody_else_sent_to_the_reader(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    theirs = await send(store, ann, "@bob")
    own = await send(store, bob, "@ann")
    assert await store.read(NewestMail(own.thread_id, own.seq, "@bob")) == [theirs.message_id]
    assert await store.read(NewestMail(own.thread_id, own.seq, "@cat")) == []
    await store.submit(AckThread(bob, own.thread_id, own.seq, theirs.message_id))
    assert await hops(store, workspace, (await send(store, bob, "@cat")).message_id) == ("@ann", "@bob")
