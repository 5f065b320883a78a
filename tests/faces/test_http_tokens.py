from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.faces.http_calls import NOWHERE, Actor, address, error_of, head, new_agent, new_token, operator
from tests.faces.listener import Listener
from wakeline.core.records import IssuerKey
from wakeline.faces.http.operations import OPERATIONS
from wakeline.runtime import secrets
from wakeline.testing.server import Answer, ServerProcess

DOORS = [*((one.method, one.path) for one in OPERATIONS), ("GET", "/v1/events"), ("GET", "/v1/wakes")]
BODY = {"to": ["@human"], "body": "let me in", "handle": "@mallory", "name": "mallory", "message_ids": [NOWHERE]}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose keys we hold: its data directory is ours."""
    with ServerProcess(tmp_path_factory.mktemp("vault") / "data", keepalive_seconds=0.2) as process:
        yield process


@pytest.fixture(scope="module")
def alice(vault: ServerProcess) -> Actor:
    return new_agent(vault, "alice")


@pytest.fixture(scope="module")
def issuer(vault: ServerProcess) -> IssuerKey:
    return _issuer(vault.data)


def _issuer(data: Path) -> IssuerKey:
    connection = apsw.Connection(str(data / "wakeline.db"), flags=apsw.SQLITE_OPEN_READONLY)
    [row] = connection.execute("SELECT kid, public_key, private_key, created_at, retired_at FROM issuer_keys")
    connection.close()
    return IssuerKey(*row)


def knock(server: ServerProcess, credentials: str | None) -> list[Answer]:
    """Try every door with these credentials, over TCP, on one connection."""
    connection = server.connect()
    answers = []
    for method, template in DOORS:
        names = ("message_id", "thread_id", "dead_letter_id", "jti", "session_id", "subscription_id", "delivery_id",
                 "activation_id")  # fmt: skip
        path = template.format(handle="@human", **dict.fromkeys(names, NOWHERE))
        headers = {} if credentials is None else {"Authorization": credentials}
        connection.request(method, path, None if method == "GET" else json.dumps(BODY), headers)
        answer = connection.getresponse()
        answers.append(Answer(answer.status, dict(answer.getheaders()), answer.read()))
    connection.close()
    return answers


def segment(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


# -- what opens nothing -----------------------------------------------------------------------------------------------

Forge = Callable[[str, IssuerKey], str]


def claims_of(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def _none(token: str, issuer: IssuerKey) -> str:
    return f"{segment({'alg': 'none', 'kid': issuer.kid, 'typ': 'JWT'})}.{token.split('.')[1]}."


def _none_with_signature(token: str, issuer: IssuerKey) -> str:
    return f"{segment({'alg': 'nOnE', 'kid': issuer.kid})}.{token.split('.')[1]}.{token.split('.')[2]}"


def _public_key_as_secret(token: str, issuer: IssuerKey) -> str:
    message = f"{segment({'alg': 'HS256', 'kid': issuer.kid})}.{token.split('.')[1]}"
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = algorithm.sign(message.encode(), issuer.public_key.encode())
    return f"{message}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def _wrong_key(token: str, issuer: IssuerKey) -> str:
    return jwt.encode(claims_of(token), Ed25519PrivateKey.generate(), algorithm="EdDSA", headers={"kid": issuer.kid})


def _unknown_kid(token: str, issuer: IssuerKey) -> str:
    return jwt.encode(claims_of(token), Ed25519PrivateKey.generate(), algorithm="EdDSA", headers={"kid": "stranger"})


def _no_kid(token: str, issuer: IssuerKey) -> str:
    return jwt.encode(claims_of(token), Ed25519PrivateKey.generate(), algorithm="EdDSA")


def _key_in_the_header(token: str, issuer: IssuerKey) -> str:
    key = Ed25519PrivateKey.generate()
    jwk = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key()))
    headers = {"kid": "mine", "jwk": jwk, "jku": "http://127.0.0.1:9/keys"}
    return jwt.encode(claims_of(token), key, algorithm="EdDSA", headers=headers)


def _tampered(token: str, issuer: IssuerKey) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{segment({**claims_of(token), 'agent_id': '@human', 'role': 'human'})}.{signature}"


def _no_signature(token: str, issuer: IssuerKey) -> str:
    return token.rpartition(".")[0] + "."


FORGERIES: list[Forge] = [
    _none, _none_with_signature, _public_key_as_secret, _wrong_key, _unknown_kid, _no_kid, _key_in_the_header,
    _tampered, _no_signature,
]  # fmt: skip


@pytest.mark.guarantee("G-TOKEN")
@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__.strip("_"))
def test_a_forged_token_opens_nothing(vault: ServerProcess, alice: Actor, issuer: IssuerKey, forge: Forge) -> None:
    assert alice.token is not None
    before = operator(vault).get("/v1/status")["position"]
    for answer in knock(vault, f"Bearer {forge(alice.token, issuer)}"):
        assert answer.status == 401
        error_of(answer, "TOKEN_INVALID")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert operator(vault).get("/v1/status")["position"] == before  # the search index follows when it likes


@pytest.mark.guarantee("G-TOKEN")
@pytest.mark.parametrize(
    ("credentials", "code"),
    [
        (None, "TOKEN_MISSING"),
        ("", "TOKEN_INVALID"),
        ("Bearer", "TOKEN_INVALID"),
        ("Bearer ", "TOKEN_INVALID"),
        ("Bearer x", "TOKEN_INVALID"),
        ("Bearer a.b.c", "TOKEN_INVALID"),
        ("Bearer ...", "TOKEN_INVALID"),
        ("Bearer \u00ff", "TOKEN_INVALID"),
        ("Basic QGh1bWFuOng=", "TOKEN_INVALID"),
        ("Bearer " + "a" * 9_000, "TOKEN_INVALID"),
        ("Bearer " + segment({"alg": "EdDSA", "kid": 7}) + ".e30.x", "TOKEN_INVALID"),
        ("Bearer " + segment([]) + ".e30.x", "TOKEN_INVALID"),
        ("Bearer " + base64.urlsafe_b64encode(b"[" * 6_000).decode() + ".e30.x", "TOKEN_INVALID"),
        ("Bearer " + base64.urlsafe_b64encode(b'{"a":' * 1_100).decode() + ".e30.x", "TOKEN_INVALID"),
    ],
)
def test_what_is_no_token_opens_nothing(vault: ServerProcess, credentials: str | None, code: str) -> None:
    for answer in knock(vault, credentials):
        assert answer.status == 401
        error_of(answer, code)


@pytest.mark.guarantee("G-TOKEN")
def test_a_token_signed_by_us_must_still_say_everything(vault: ServerProcess, alice: Actor, issuer: IssuerKey) -> None:
    assert alice.token is not None
    box = secrets.load_box(vault.data, "", make=False)
    key = secrets.open_issuer_key(box, issuer)
    good = claims_of(alice.token)

    def answer(**changed: Any) -> Answer:
        claims = {name: value for name, value in {**good, **changed}.items() if value is not None}
        token = jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": issuer.kid})
        return vault.call("GET", "/v1/whoami", token=token)

    operator(vault).call("POST", "/v1/workspaces", {"name": "other"})
    assert answer().status == 200
    for claim in ("agent_id", "workspace_id", "iat", "exp", "jti", "iss"):
        error_of(answer(**{claim: None}), "TOKEN_INVALID")
    for changed in (
        {"jti": "nobody-knows-this"},
        {"jti": 7},
        {"jti": ""},
        {"jti": "a\0b"},
        {"iss": "somebody else"},
        {"agent_id": "@nobody-at-all"},
        {"agent_id": "alice"},
        {"agent_id": f"{alice.handle}\n"},
        {"agent_id": ["@human"]},
        {"workspace_id": "other"},  # the token's row is in another workspace
        {"workspace_id": 1},
        {"role": "Coordinator"},
        {"iat": int(time.time()) + 3_600},
        {"nbf": int(time.time()) + 3_600},
        {"exp": "soon"},
        {"session_id": "a\0b"},
    ):
        error_of(answer(**changed), "TOKEN_INVALID")
    error_of(answer(exp=int(time.time()) - 3_600), "TOKEN_EXPIRED")
    error_of(answer(workspace_id="nowhere"), "WORKSPACE_MISMATCH")
    assert answer(role="coordinator").json()["role"] == "participant"  # a role that it does not hold is not given
    assert answer(role="human").json()["kind"] == "agent"


@pytest.mark.guarantee("G-TOKEN")
def test_an_expired_token_opens_nothing(vault: ServerProcess, alice: Actor) -> None:
    short = new_token(vault, alice.handle, seconds=1)
    deadline = time.monotonic() + 20
    while short.call("GET", "/v1/whoami").status == 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    for answer in knock(vault, f"Bearer {short.token}"):
        error_of(answer, "TOKEN_EXPIRED")
    assert alice.call("GET", "/v1/whoami").status == 200


@pytest.mark.guarantee("G-TOKEN")
def test_a_revoked_token_opens_nothing_from_the_next_call_on(vault: ServerProcess, alice: Actor) -> None:
    made = operator(vault).post("/v1/tokens", handle=alice.handle, note="to be revoked")
    doomed = Actor(vault, alice.handle, made["token"])
    assert doomed.call("GET", "/v1/whoami").status == 200
    revoked = operator(vault).do("DELETE", f"/v1/tokens/{made['jti']}")
    assert revoked["revoked_at"] is not None
    for answer in knock(vault, f"Bearer {doomed.token}"):
        error_of(answer, "TOKEN_REVOKED")
    assert alice.call("GET", "/v1/whoami").status == 200  # another token of the same agent
    assert operator(vault).do("DELETE", f"/v1/tokens/{made['jti']}") == revoked  # twice is once


@pytest.mark.guarantee("G-TOKEN")
def test_a_retired_agent_opens_nothing_and_comes_back_with_the_human(vault: ServerProcess) -> None:
    agent = new_agent(vault, "retiring")
    assert agent.call("GET", "/v1/whoami").status == 200
    operator(vault).do("PATCH", f"/v1/agents/{agent.handle}", retired=True)
    for answer in knock(vault, f"Bearer {agent.token}"):
        error_of(answer, "TOKEN_INVALID")
    new_agent(vault).send_refused("RECIPIENT_UNKNOWN", agent)
    operator(vault).refused("AGENT_NOT_FOUND", "POST", "/v1/tokens", handle=agent.handle)
    operator(vault).refused("AGENT_EXISTS", "POST", "/v1/agents", handle=agent.handle)  # handles are never reused
    operator(vault).do("PATCH", f"/v1/agents/{agent.handle}", retired=False)
    assert agent.call("GET", "/v1/whoami").status == 200


@pytest.mark.guarantee("G-TOKEN")
def test_revoking_while_the_token_is_used_always_wins(vault: ServerProcess, alice: Actor) -> None:
    """Whatever the order of looking and forgetting, no answer after the revocation's is a yes."""

    async def race() -> None:
        made = operator(vault).post("/v1/tokens", handle=alice.handle)
        doomed = Actor(vault, alice.handle, made["token"])
        using = [asyncio.to_thread(doomed.call, "GET", "/v1/whoami") for _ in range(4)]
        revoking = asyncio.to_thread(operator(vault).call, "DELETE", f"/v1/tokens/{made['jti']}")
        await asyncio.gather(*using, revoking)
        assert doomed.call("GET", "/v1/whoami").status == 401

    for _ in range(10):
        asyncio.run(race())


# -- who is listening -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-TOKEN")
def test_losing_its_token_ends_a_stream(vault: ServerProcess, alice: Actor) -> None:
    made = operator(vault).post("/v1/tokens", handle=alice.handle)
    with Listener(Actor(vault, alice.handle, made["token"])) as stream, Listener(alice) as other:
        operator(vault).do("DELETE", f"/v1/tokens/{made['jti']}")
        stream.wait_for_end()
        operator(vault).send(alice, body="still there?")
        other.take_until("still there?")


def test_losing_its_token_ends_a_wait_for_an_answer(vault: ServerProcess, alice: Actor) -> None:
    made = operator(vault).post("/v1/tokens", handle=alice.handle)
    doomed, bob = Actor(vault, alice.handle, made["token"]), new_agent(vault, "bob")
    answers: list[Answer] = []
    body = {"to": [bob.handle], "body": "may I know?", "wait_seconds": 50}
    asking = threading.Thread(target=lambda: answers.append(doomed.call("POST", "/v1/messages", body)))
    with Listener(bob) as heard:
        asking.start()
        [asked] = heard.take_until("may I know?")
    operator(vault).do("DELETE", f"/v1/tokens/{made['jti']}")
    asking.join(20)
    assert answers[0].json()["reply"] is None
    bob.send(in_reply_to=asked.data["message"]["message_id"], body="for others")


def test_the_end_of_its_token_ends_a_stream(vault: ServerProcess, alice: Actor) -> None:
    with Listener(new_token(vault, alice.handle, seconds=1)) as stream:
        stream.wait_for_end()


def test_retiring_ends_the_streams_of_an_agent(vault: ServerProcess) -> None:
    agent = new_agent(vault, "retiring")
    with Listener(agent) as stream:
        operator(vault).do("PATCH", f"/v1/agents/{agent.handle}", retired=True)
        stream.wait_for_end()


def test_a_changed_role_ends_a_stream_that_sees_too_much(vault: ServerProcess) -> None:
    lead = new_agent(vault, "lead", "coordinator")
    with Listener(lead) as stream:
        operator(vault).do("PATCH", f"/v1/agents/{lead.handle}", roles=["participant"])
        stream.wait_for_end()


def test_a_listener_that_catches_up_slowly_loses_its_stream_with_its_token(vault: ServerProcess, alice: Actor) -> None:
    for _ in range(60):
        operator(vault).send(alice, body="x" * 200_000)
    made = operator(vault).post("/v1/tokens", handle=alice.handle)
    with socket.create_connection(address(vault), timeout=20) as connection:
        connection.sendall(head("GET", "/v1/events?after=0", made["token"]))
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")  # and then reads no more
        operator(vault).do("DELETE", f"/v1/tokens/{made['jti']}")
        operator(vault).send(alice, body="not for this one")
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += connection.recv(1 << 20)
    assert b"not for this one" not in received
    assert len(received) < 60 * 200_000  # it ended where it was
