from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, new_token, operator, raw, to_json
from tests.faces.mcp_calls import ACCEPT, ERAS, HANDSHAKE, LEGACY, connected, initialize, modern, post, rpc, use
from wakeline.testing.server import Answer, ServerProcess

FORGED = "eyJhbGciOiJub25lIn0.eyJhZ2VudF9pZCI6IkBodW1hbiJ9."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("mcp") / "data") as process:
        yield process


def knock(server: ServerProcess, token: str | None, era: str) -> Answer:
    if era == LEGACY:
        return post(server, token, rpc("tools/list"))
    body, headers = modern("tools/list")
    return post(server, token, body, **headers)


@pytest.mark.guarantee("G-MCP-ACCESS")
@pytest.mark.parametrize("era", ERAS)
def test_an_anonymous_call_is_refused_plainly(place: ServerProcess, era: str) -> None:
    answer = knock(place, None, era)
    assert answer.status == 401
    error_of(answer, "TOKEN_MISSING")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.guarantee("G-MCP-ACCESS")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["nonsense", FORGED])
def test_a_forged_token_opens_nothing(place: ServerProcess, era: str, token: str) -> None:
    error_of(knock(place, token, era), "TOKEN_INVALID")


@pytest.mark.guarantee("G-MCP-ACCESS")
@pytest.mark.parametrize("era", ERAS)
def test_an_expired_token_opens_nothing(place: ServerProcess, era: str) -> None:
    actor = new_token(place, new_agent(place).handle, seconds=1)
    while (answer := knock(place, actor.token, era)).status != 401:
        time.sleep(0.05)
    error_of(answer, "TOKEN_EXPIRED")


@pytest.mark.guarantee("G-MCP-ACCESS")
@pytest.mark.parametrize("era", ERAS)
def test_a_revoked_token_opens_nothing(place: ServerProcess, era: str) -> None:
    actor = new_agent(place)
    [token] = operator(place).get("/v1/tokens", handle=actor.handle)["tokens"]
    operator(place).call("DELETE", f"/v1/tokens/{token['jti']}")
    error_of(knock(place, actor.token, era), "TOKEN_REVOKED")


@pytest.mark.guarantee("G-MCP-ACCESS")
def test_nobody_uses_the_session_of_another(place: ServerProcess) -> None:
    alice, bob = new_agent(place, "alice"), new_agent(place, "bob")
    session = initialize(alice)
    ping = rpc("ping")
    assert post(place, alice.token, ping, Mcp_Session_Id=session).status == 200
    assert post(place, bob.token, ping, Mcp_Session_Id=session).status == 404
    assert post(place, None, ping, Mcp_Session_Id=session).status == 401
    again = new_token(place, alice.handle)
    assert post(place, again.token, ping, Mcp_Session_Id=session).status == 200


def test_a_session_that_this_node_does_not_know_is_not_found(place: ServerProcess) -> None:
    assert post(place, new_agent(place).token, rpc("ping"), Mcp_Session_Id="f" * 32).status == 404


@pytest.mark.parametrize("era", ERAS)
async def test_the_operator_may_speak_over_tcp_only_with_a_token(place: ServerProcess, era: str) -> None:
    human = new_token(place, "@human")
    async with connected(human, era) as client:
        assert (await use(client, "read_messages"))["unread"] >= 0


def test_on_the_unix_socket_the_owner_is_the_operator(place: ServerProcess) -> None:
    body, headers = modern("tools/call", {"name": "wait", "arguments": {"wait_seconds": 0}}, "wait")
    answer = place.call("POST", "/mcp", body, headers={**ACCEPT, **headers})
    assert answer.json()["result"]["structuredContent"]["unread"] >= 0


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_a_browser_that_was_lied_to_about_our_name_is_refused(place: ServerProcess, name: str) -> None:
    body, headers = modern("tools/list")
    given = {"Host": "127.0.0.1", **ACCEPT, **headers, "Authorization": f"Bearer {new_agent(place).token}"}
    given |= {name: "evil.example" if name == "Host" else "http://evil.example"}
    lines = "".join(f"{key}: {value}\r\n" for key, value in given.items())
    request = f"POST /mcp HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
    assert raw(place, request)[0] in (403, 421)


def test_a_name_that_a_proxy_uses_can_be_allowed(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("named") / "data"
    with ServerProcess(data, mcp_hosts="bus.example") as server:
        body, headers = modern("tools/list")
        given = {**ACCEPT, **headers, "Host": "bus.example"}
        assert server.call("POST", "/mcp", body, token=new_agent(server).token, headers=given).status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', to_json({"jsonrpc": "2.0", "id": 1}), b"\xff"])
def test_what_is_no_request_is_refused_and_breaks_nothing(place: ServerProcess, body: bytes) -> None:
    alice = new_agent(place)
    for headers in ({}, {"MCP-Protocol-Version": "2026-07-28"}, {"MCP-Protocol-Version": HANDSHAKE}):
        assert 400 <= post(place, alice.token, body, **headers).status < 500
    assert "Traceback" not in place.output


def test_a_request_beyond_the_limit_is_refused(place: ServerProcess) -> None:
    assert post(place, new_agent(place).token, b" " * 2_000_000).status == 413


def test_an_agent_of_another_workspace_has_its_own_world(place: ServerProcess) -> None:
    operator(place).post("/v1/workspaces", name="other")
    stranger = new_agent(place, workspace="other")
    session = initialize(new_agent(place))
    assert post(place, stranger.token, rpc("ping"), Mcp_Session_Id=session).status == 404
    twin = Actor(place, stranger.handle, stranger.token)
    assert initialize(twin) != session
