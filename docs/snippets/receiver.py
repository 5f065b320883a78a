import os

from aiohttp import web

from wakeline.webhooks import Unverified, verify


async def wake(request: web.Request) -> web.Response:
    try:
        event = verify(await request.read(), request.headers, os.environ["WAKE_KEY"])
    except Unverified as error:
        return web.Response(status=401, text=str(error))
    print("woken by", event["eventType"], event["payload"])
    return web.Response(status=202)


def make_app(_: list[str]) -> web.Application:
    app = web.Application()
    app.add_routes([web.post("/wake", wake)])
    return app
