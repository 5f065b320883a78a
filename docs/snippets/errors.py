import asyncio

from wakeline import Client
from wakeline.errors import Conflict, NotFound, WakelineError


async def main() -> None:
    async with Client.from_environment() as client:
        try:
            await client.post_message("Hello?", to=["@nobody"])
        except NotFound as error:
            print(error.code, error.hint, error.details["dead_letter_id"])
        await client.add_agent("@ned")
        first = await client.post_message("Once.", to=["@ned"], idempotency_key="job-7")
        again = await client.post_message("Once.", to=["@ned"], idempotency_key="job-7")
        assert again.message_id == first.message_id
        try:
            await client.post_message("Twice?", to=["@ned"], idempotency_key="job-7")
        except Conflict as error:
            print(error.code)
        except WakelineError as error:  # every refusal has a code, a message and a hint
            print(error.code, error.message, error.hint)


asyncio.run(main())
