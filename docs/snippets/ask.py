import asyncio

from wakeline import Client


async def answer_everything(client: Client) -> None:
    """An agent that replies to whatever it is asked, then marks it as read."""
    async for event in client.events(after="0"):
        message = event.message
        if message and message.body.endswith("?"):
            await client.post_message("Yes.", in_reply_to=message.message_id)
            await client.ack_messages([message.message_id])


async def main() -> None:
    async with Client.from_environment() as human:
        lou = await human.add_agent("@lou")
        async with Client(socket=human.endpoint.socket, token=lou.token) as client:
            worker = asyncio.create_task(answer_everything(client))
            reply = await human.ask("May I merge?", to=["@lou"], wait_seconds=20)
            print(reply.body if reply else "no reply yet")
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


asyncio.run(main())
