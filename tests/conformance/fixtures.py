"""The conformance suite's fixtures on our own server: the same listeners, authentication, mount and handlers.

Run as a program this is the real server with them added.  What has another name than a fixture goes to our handlers.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from tests.conformance import contents
from tests.conformance.contents import said, text
from wakeline.faces.mcp import schemas
from wakeline.runtime import bootstrap, settings

COMMAND = (sys.executable, "-m", "tests.conformance.fixtures")
Context = ServerRequestContext[Any, Any]
KEY = b"the suite tampers with what this signs"
PAUSE = 0.05


async def log(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await asyncio.sleep(PAUSE)
    return said(text("Tool with logging executed successfully"))


async def progress(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await asyncio.sleep(PAUSE)
    return said(text("Tool with progress executed successfully"))


async def sample(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=given["prompt"]))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return said(text(f"LLM response: {getattr(answer.content, 'text', '')}"))


def elicit(name: str) -> Callable[[Context, dict[str, Any]], Awaitable[dict[str, Any]]]:
    async def ask(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
        message = given.get("message", "Please answer")
        answer = await ctx.session.elicit_form(message, contents.FORMS[name], related_request_id=ctx.request_id)
        return said(text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"))

    return ask


async def need_sampling(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling.", needed)
    return said(text("done"))


ACTIVE: dict[str, Callable[[Context, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_streaming_elicitation": progress,
    "test_tool_with_progress": progress,
    "test_sampling": sample,
    "test_missing_capability": need_sampling,
    **{name: elicit(name) for name in contents.FORMS},
}
NEEDS = {"test_sampling": "prompt", "test_elicitation": "message"}


# -- asking back in the stateless era ---------------------------------------------------------------------------------


def sign(number: int) -> str:
    return f"{number}.{hmac.new(KEY, str(number).encode(), hashlib.sha256).hexdigest()}"


def round_of(state: str | None) -> int:
    """How many rounds are behind us, as we signed it."""
    if state is None:
        return 0
    number = state.partition(".")[0]
    if not (number.isdecimal() and hmac.compare_digest(state, sign(int(number)))):
        raise MCPError(types.INVALID_PARAMS, "The requestState is not what this server gave.")
    return int(number)


def ask_back(
    ctx: Context, rounds: list[dict[str, dict[str, Any]]], params: types.InputResponseRequestParams
) -> dict[str, Any] | None:
    """What to ask next, or None when everything was answered."""
    behind = round_of(params.request_state)
    answers = {name: one for name, one in (params.input_responses or {}).items() if is_answer(one)}
    asked = {name: one for name, one in rounds[max(behind, 1) - 1].items() if is_possible(ctx, one)}
    if asked.keys() <= answers.keys():
        if max(behind, 1) == len(rounds):
            return None
        asked, behind = rounds[max(behind, 1)], max(behind, 1) + 1
    return {"resultType": "input_required", "inputRequests": asked, "requestState": sign(max(behind, 1))}


def is_answer(response: Any) -> bool:
    return getattr(response, "action", "accept") == "accept"


def is_possible(ctx: Context, request: dict[str, Any]) -> bool:
    return getattr(ctx.session.client_capabilities, contents.ASKS[request["method"]], None) is not None


def answered(name: str, params: types.InputResponseRequestParams) -> dict[str, Any]:
    given = {key: one.model_dump(mode="json") for key, one in (params.input_responses or {}).items()}
    return said(text(f"{name}: state-ok, hello, {json.dumps(given)}"))


# -- registering ------------------------------------------------------------------------------------------------------


class Fixtures:
    def __init__(self, server: Server[None]) -> None:
        self._call = server.get_request_handler("tools/call")
        self._read = server.get_request_handler("resources/read")
        self._subscribe = server.get_request_handler("resources/subscribe")

    async def list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        names = [*contents.PLAIN, *ACTIVE, *contents.ROUNDS]
        fixtures = [{"name": name, "description": f"Fixture {name}", "inputSchema": _takes(name)} for name in names]
        return types.ListToolsResult.model_validate({"tools": [*schemas.listed(), *fixtures]})

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name in contents.PLAIN:
            return contents.PLAIN[params.name]
        if params.name in ACTIVE:
            return await ACTIVE[params.name](ctx, params.arguments or {})
        if params.name in contents.ROUNDS:
            return ask_back(ctx, contents.ROUNDS[params.name], params) or answered(params.name, params)
        assert self._call is not None
        return await self._call.handler(ctx, params)

    async def list_resources(self, ctx: Context, params: object) -> types.ListResourcesResult:
        found = [{"uri": uri, "name": uri, "description": f"Fixture {uri}"} for uri in contents.RESOURCES]
        return types.ListResourcesResult.model_validate({"resources": found})

    async def list_templates(self, ctx: Context, params: object) -> types.ListResourceTemplatesResult:
        one = {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "Fixture template"}
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [one]})

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        number = uri.removeprefix("test://template/").removesuffix("/data")
        content = contents.RESOURCES.get(uri)
        if f"test://template/{number}/data" == uri:
            words = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
            content = {"mimeType": "application/json", "text": words}
        if content is not None:
            return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **content}]})
        assert self._read is not None
        return await self._read.handler(ctx, params)

    async def list_prompts(self, ctx: Context, params: object) -> types.ListPromptsResult:
        found = [
            {
                "name": name,
                "description": f"Fixture {name}",
                "arguments": [{"name": one, "required": True} for one in takes],
            }
            for name, takes in contents.PROMPTS.items()
        ]
        return types.ListPromptsResult.model_validate({"prompts": found})

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name not in contents.PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name!r}.")
        if params.name == "test_input_required_result_prompt":
            asked = ask_back(ctx, [{"user_context": contents.CONTEXT}], params)
            if asked is not None:
                return asked
        return contents.prompt(params.name, params.arguments or {})

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=["paris", "park"], total=2, has_more=False))

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> Any:
        if str(params.uri) in contents.RESOURCES:
            return types.EmptyResult()
        assert self._subscribe is not None
        return await self._subscribe.handler(ctx, params)


def _takes(name: str) -> dict[str, Any]:
    argument = NEEDS.get(name)
    if argument is None:
        return {"type": "object", "properties": {}}
    return {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}


def prepare(server: Server[None]) -> None:
    fixtures = Fixtures(server)
    handle = server.add_request_handler
    handle("tools/list", types.PaginatedRequestParams, fixtures.list_tools)
    handle("tools/call", types.CallToolRequestParams, fixtures.call_tool)
    handle("resources/list", types.PaginatedRequestParams, fixtures.list_resources)
    handle("resources/templates/list", types.PaginatedRequestParams, fixtures.list_templates)
    handle("resources/read", types.ReadResourceRequestParams, fixtures.read_resource)
    handle("resources/subscribe", types.SubscribeRequestParams, fixtures.subscribe)
    handle("prompts/list", types.PaginatedRequestParams, fixtures.list_prompts)
    handle("prompts/get", types.GetPromptRequestParams, fixtures.get_prompt)
    handle("completion/complete", types.CompleteRequestParams, fixtures.complete)


if __name__ == "__main__":
    sys.exit(bootstrap.serve(settings.load({}, os.environ)[0], bootstrap.Additions(prepare=prepare, plain=False)))
