import asyncio

from wakeline import Client


async def main() -> None:
    async with Client.from_environment() as human:  # no WAKELINE_TOKEN: the operator, on the Unix socket
        kim = await human.add_agent("@kim")
        posted = await human.post_message("The tests pass now.", to=["@kim"])
        async with Client(socket=human.endpoint.socket, token=kim.token) as client:
            inbox = await client.get_inbox()
            print(inbox.unread, "unread:", inbox.messages[0].body)
            await client.ack_messages([posted.message_id])


asyncio.run(main())
