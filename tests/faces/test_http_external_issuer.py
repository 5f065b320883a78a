from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.faces.http_calls import Actor, error_of, new_name, operator
from tests.faces.listener import Listener
from tests.issuer import AUDIENCE, ISSUER, Issuer
from wakeline.testing.server import Answer, ServerProcess


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


# -- keys come and go -------------------------------------------------------------------------------------------------


@pytest.fixture
def own_issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


@pytest.mark.guarantee("G-TOKEN")
def test_what_a_withdrawn_key_vouched_for_is_forgotten(tmp_path: Path, own_issuer: Issuer) -> None:
    with _serve(tmp_path / "data", own_issuer, jwks_refresh_seconds=0.1) as server:
        handle = known(server)
        agent, other = (Actor(server, handle, own_issuer.token(handle, kid)) for kid in ("rsa", "ed"))
        with Listener(agent) as stream, Listener(other) as going_on:
            del own_issuer.keys["rsa"]
            stream.wait_for_end()
            error_of(agent.call("GET", "/v1/whoami"), "TOKEN_INVALID")
            other.send("@me", body="still here")
            assert going_on.take(1)[0].body == "still here"


@pytest.mark.guarantee("G-TOKEN")
def test_an_issuer_that_stays_away_is_not_trusted_for_ever(tmp_path: Path, own_issuer: Issuer) -> None:
    with _serve(tmp_path / "data", own_issuer, jwks_refresh_seconds=0.1, jwks_keep_seconds=0.5) as server:
        handle = known(server)
        agent = Actor(server, handle, own_issuer.token(handle))
        with Listener(agent) as stream:
            assert "3 keys" in issuer_check(server)["detail"]
            own_issuer.is_down = True
            stream.wait_for_end()
        error_of(agent.call("GET", "/v1/whoami"), "ISSUER_UNAVAILABLE")
        check = issuer_check(server)
        assert (check["ok"], "cannot be fetched" in check["detail"]) == (True, True)
        assert "wakeline_issuer_keys_age_seconds" in server.call("GET", "/metrics").body.decode()


def issuer_check(server: ServerProcess) -> dict[str, Any]:
    ready = server.call("GET", "/readyz").json()
    assert ready["ready"]
    [check] = [one for one in ready["checks"] if one["name"] == "issuer"]
    return dict(check)
