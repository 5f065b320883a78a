"""Which keys of an outside issuer are trusted, and for how long.  The issuer is real, the clock is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.issuer import Issuer
from wakeline.core.instant import SECOND
from wakeline.errors import Unauthorized, Unavailable
from wakeline.runtime.jwks import AGAIN, Jwks

KEEP_SECONDS = 3_600


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


class Reader:
    """Our side, at a time of our choosing."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.now = 1_800_000_000 * SECOND
        self.withdrawn: list[frozenset[str]] = []
        self.jwks = Jwks(issuer.url, lambda: self.now, refresh_seconds=600, keep_seconds=KEEP_SECONDS)
        self.jwks.on_withdrawn(self.withdrawn.append)

    async def trusts(self, token: str) -> bool:
        try:
            await self.jwks.find(token)
        except Unauthorized:
            return False
        return True


@pytest.fixture
def reader(issuer: Issuer) -> Reader:
    return Reader(issuer)


async def test_a_key_that_is_no_longer_published_is_withdrawn(reader: Reader, issuer: Issuer) -> None:
    token = issuer.token("@ann", "rsa")
    assert await reader.trusts(token)
    del issuer.keys["rsa"]
    await reader.jwks.refresh()
    assert reader.withdrawn == [frozenset({"rsa"})]
    assert not await reader.trusts(token)
    assert await reader.trusts(issuer.token("@ann", "ed"))


async def test_a_key_with_another_content_is_withdrawn_and_known_anew(reader: Reader, issuer: Issuer) -> None:
    await reader.jwks.refresh()
    await reader.jwks.refresh()
    assert reader.withdrawn == []
    issuer.keys["ed"] = (Ed25519PrivateKey.generate(), "EdDSA")
    await reader.jwks.refresh()
    assert reader.withdrawn == [frozenset({"ed"})]
    assert await reader.trusts(issuer.token("@ann", "ed"))


async def test_an_issuer_without_keys_vouches_for_nobody(reader: Reader, issuer: Issuer) -> None:
    token = issuer.token("@ann")
    await reader.jwks.refresh()
    issuer.keys.clear()
    await reader.jwks.refresh()
    assert reader.withdrawn == [frozenset({"ed", "rsa", "ec"})]
    assert not await reader.trusts(token)


async def test_keys_of_an_issuer_that_is_away_are_kept_for_a_while(reader: Reader, issuer: Issuer) -> None:
    token = issuer.token("@ann")
    await reader.jwks.refresh()
    issuer.is_down = True
    reader.now += KEEP_SECONDS * SECOND - 1
    await reader.jwks.refresh()
    assert await reader.trusts(token)
    assert "3 old keys are trusted" in reader.jwks.describe()
    reader.now += 1
    await reader.jwks.refresh()
    assert reader.withdrawn == [frozenset({"ed", "rsa", "ec"})]
    with pytest.raises(Unavailable):
        await reader.jwks.find(token)
    assert "its tokens are refused" in reader.jwks.describe()
    assert reader.jwks.age_seconds() == KEEP_SECONDS
    issuer.is_down = False
    await reader.jwks.refresh()
    assert await reader.trusts(token)
    assert reader.jwks.describe() == "3 keys, fetched 0 s ago"


async def test_an_unknown_key_is_looked_for_at_once_but_not_again_and_again(reader: Reader, issuer: Issuer) -> None:
    await reader.jwks.refresh()
    reader.now += AGAIN
    issuer.keys["new"] = (Ed25519PrivateKey.generate(), "EdDSA")
    tokens = [issuer.token("@ann", "new") for _ in range(5)]
    assert await asyncio.gather(*(reader.trusts(token) for token in tokens)) == [True] * 5
    assert issuer.fetched == 2
    del issuer.keys["new"]
    issuer.keys["newer"] = (Ed25519PrivateKey.generate(), "EdDSA")
    assert not await reader.trusts(issuer.token("@ann", "newer"))
    assert issuer.fetched == 2


async def test_who_comes_while_the_keys_are_fetched_waits_for_them(reader: Reader, issuer: Issuer) -> None:
    token = issuer.token("@ann")
    fetching = asyncio.create_task(reader.jwks.refresh())
    await asyncio.sleep(0)
    assert await reader.trusts(token)
    await fetching
    assert issuer.fetched == 1
