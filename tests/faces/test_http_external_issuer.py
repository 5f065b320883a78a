from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.faces.http_calls import Actor, error_of, new_name, operator
from wakeline.testing.server import Answer, ServerProcess

AUDIENCE, ISSUER = "wakeline-of-acme", "https://issuer.example"


class Issuer:
    """An identity provider of our own, which publishes its keys over real HTTP."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "ed": (Ed25519PrivateKey.generate(), "EdDSA"),
            "rsa": (rsa.generate_private_key(65537, 2048), "RS256"),
            "ec": (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        }
        self.fetched = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetched += 1
                body = json.dumps(issuer.document()).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:100])
                self.wfile.flush()
                time.sleep(0.05)  # the rest comes when it comes
                self.wfile.write(body[100:])

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def document(self) -> dict[str, Any]:
        published = []
        for kid, (key, algorithm) in self.keys.items():
            made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
            published.append({**made, "kid": kid, "alg": algorithm, "use": "sig"})
        return {"keys": published}

    def token(self, handle: str, kid: str = "ed", **changed: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "agent_id": handle, "workspace_id": "default", "role": "participant",
            "iat": now, "exp": now + 600, "jti": new_name("jti")[1:], **changed,
        }  # fmt: skip
        key, algorithm = self.keys[kid]
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(given, key, algorithm=algorithm, headers={"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


def _serve(data: Path, issuer: Issuer, **settings: Any) -> ServerProcess:
    given = {"jwks_url": issuer.url, "jwks_issuer": ISSUER, "jwks_audience": AUDIENCE, **settings}
    return ServerProcess(data, **given)


@pytest.fixture(scope="module")
def closed(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that trusts the issuer, but knows its agents itself."""
    with _serve(tmp_path_factory.mktemp("closed") / "data", issuer) as process:
        yield process


@pytest.fixture(scope="module")
def provisioning(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that also takes in whom the issuer vouches for."""
    with _serve(tmp_path_factory.mktemp("provisioning") / "data", issuer, auto_provision="true") as process:
        yield process


def who(server: ServerProcess, token: str) -> Answer:
    return server.call("GET", "/v1/whoami", token=token)


def known(server: ServerProcess) -> str:
    handle: str = operator(server).post("/v1/agents", handle=new_name("known"), token=False)["handle"]
    return handle


@pytest.mark.parametrize("kid", ["ed", "rsa", "ec"])
def test_an_agent_that_is_known_here_calls_with_the_issuers_token(
    closed: ServerProcess, issuer: Issuer, kid: str
) -> None:
    handle = known(closed)
    agent = Actor(closed, handle, issuer.token(handle, kid, session_id="s-1"))
    me = agent.get("/v1/whoami")
    assert (me["handle"], me["kind"], me["role"], me["operator"]) == (handle, "agent", "participant", False)
    posted = agent.send("@me")
    assert agent.message(posted["message_id"])["session_id"] == "s-1"


def test_a_local_token_still_opens(closed: ServerProcess) -> None:
    handle = new_name("local")
    token = operator(closed).post("/v1/agents", handle=handle)["token"]
    assert who(closed, token).json()["handle"] == handle


def test_an_unknown_agent_is_refused_unless_it_is_provisioned(
    closed: ServerProcess, provisioning: ServerProcess, issuer: Issuer
) -> None:
    handle = new_name("unknown")
    error_of(who(closed, issuer.token(handle)), "TOKEN_INVALID")
    assert handle not in str(operator(closed).get("/v1/agents"))
    first = who(provisioning, issuer.token(handle, role="reviewer")).json()
    assert (first["handle"], first["role"], first["kind"]) == (handle, "reviewer", "agent")
    [row] = [one for one in operator(provisioning).get("/v1/agents")["agents"] if one["handle"] == handle]
    assert row["roles"] == ["reviewer"]
    # What it holds is decided here from then on.
    assert who(provisioning, issuer.token(handle, role="coordinator")).json()["role"] == "participant"


@pytest.mark.guarantee("G-TOKEN")
@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "somebody-else"},
        {"aud": None},
        {"iss": "https://other.example"},
        {"iss": "wakeline"},
        {"iss": None},
        {"jti": None},
        {"iat": None},
        {"exp": None},
        {"agent_id": None},
        {"agent_id": "known"},
        {"workspace_id": None},
        {"jti": "with space"},
        {"jti": ""},
        {"jti": "a\0b"},
        {"session_id": "a\0b"},
        {"session_id": ""},
        {"role": "No Role"},
    ],
)
def test_a_token_of_the_issuer_must_be_meant_for_us_and_whole(
    closed: ServerProcess, issuer: Issuer, changed: dict[str, Any]
) -> None:
    handle = known(closed)
    error_of(who(closed, issuer.token(handle, **changed)), "TOKEN_INVALID")
    assert who(closed, issuer.token(handle)).status == 200


def test_an_expired_token_of_the_issuer_opens_nothing(closed: ServerProcess, issuer: Issuer) -> None:
    error_of(who(closed, issuer.token(known(closed), exp=int(time.time()) - 5)), "TOKEN_EXPIRED")
    error_of(who(closed, issuer.token(known(closed), workspace_id="nowhere")), "WORKSPACE_MISMATCH")


@pytest.mark.guarantee("G-HUMAN")
@pytest.mark.parametrize("handle", ["@human", "@system", "@me", "@everyone"])
def test_the_issuer_speaks_for_agents_only(provisioning: ServerProcess, issuer: Issuer, handle: str) -> None:
    error_of(who(provisioning, issuer.token(handle, role="human")), "TOKEN_INVALID")
    handles = {one["handle"] for one in operator(provisioning).get("/v1/agents")["agents"]}
    assert not handles & {"@me", "@everyone"}


def test_a_provisioned_agent_is_no_human_whatever_it_says(provisioning: ServerProcess, issuer: Issuer) -> None:
    me = who(provisioning, issuer.token(new_name("ambitious"), role="human")).json()
    assert (me["kind"], me["role"]) == ("agent", "participant")


@pytest.mark.guarantee("G-TOKEN")
def test_another_key_with_the_same_name_opens_nothing(closed: ServerProcess, issuer: Issuer) -> None:
    handle = known(closed)
    claims = jwt.decode(issuer.token(handle), options={"verify_signature": False})
    for kid, key, algorithm in (
        ("ed", Ed25519PrivateKey.generate(), "EdDSA"),
        ("rsa", rsa.generate_private_key(65537, 2048), "RS256"),
        ("stranger", Ed25519PrivateKey.generate(), "EdDSA"),
        ("rsa", issuer.keys["ed"][0], "EdDSA"),
    ):
        token = jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})
        error_of(who(closed, token), "TOKEN_INVALID")
    secret = issuer.document()["keys"][0]["x"]
    error_of(who(closed, jwt.encode(claims, secret * 2, algorithm="HS256", headers={"kid": "ed"})), "TOKEN_INVALID")


def test_a_token_of_the_issuer_can_be_revoked_here(closed: ServerProcess, issuer: Issuer) -> None:
    handle = known(closed)
    seen, unseen = issuer.token(handle, jti="seen-here"), issuer.token(handle, jti="not-yet-seen")
    assert who(closed, seen).status == 200
    operator(closed).do("DELETE", "/v1/tokens/seen-here")
    operator(closed).do("DELETE", "/v1/tokens/not-yet-seen")
    error_of(who(closed, seen), "TOKEN_REVOKED")
    error_of(who(closed, unseen), "TOKEN_REVOKED")
    assert who(closed, issuer.token(handle)).status == 200


def test_strangers_do_not_make_us_ask_the_issuer_again_and_again(closed: ServerProcess, issuer: Issuer) -> None:
    who(closed, issuer.token(known(closed)))
    before = issuer.fetched
    key = Ed25519PrivateKey.generate()
    for n in range(5):
        token = jwt.encode({"exp": 1}, key, algorithm="EdDSA", headers={"kid": f"stranger-{n}"})
        error_of(who(closed, token), "TOKEN_INVALID")
    assert issuer.fetched <= before + 1


@pytest.mark.guarantee("G-TOKEN")
def test_an_issuer_that_is_away_is_no_reason_to_let_anybody_in(tmp_path: Path, issuer: Issuer) -> None:
    with ServerProcess(tmp_path / "data", jwks_url="http://127.0.0.1:9/keys") as server:
        handle = known(server)
        for _ in range(2):  # also while it is not asked again at once
            error_of(who(server, issuer.token(handle)), "ISSUER_UNAVAILABLE")
        token = operator(server).post("/v1/tokens", handle=handle)["token"]
        assert who(server, token).status == 200
