import asyncio
from pathlib import Path

from wakeline import Client
from wakeline.errors import Gone

BOOKMARK = Path("position.txt")  # how far this program has come


async def follow(client: Client, most: int) -> None:
    """Handle events, and remember after each one how far we are."""
    stream = client.events(after=BOOKMARK.read_text() if BOOKMARK.exists() else "0")
    async for event in stream:
        print(event.log_id, event.kind, event.actor)
        BOOKMARK.write_text(str(stream.position))
        most -= 1
        if most == 0:
            return


async def main() -> None:
    async with Client.from_environment() as client:
        await client.add_agent("@mia")  # two events: the agent and its token
        await follow(client, 1)
        try:
            await follow(client, 1)  # goes on where the first one ended
        except Gone as gone:  # the position is no longer kept, or the store was restored
            await client.get_inbox()
            BOOKMARK.write_text(str(gone.details["position"]))


asyncio.run(main())
