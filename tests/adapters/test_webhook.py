from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.adapters import receivers
from tests.adapters.receivers import OK, Behaviour, Receiver, answers, status
from wakeline.adapters.webhook import Webhooks
from wakeline.core.destination import parse_networks
from wakeline.core.parcel import DETAIL_BYTES, Accepted, Failed, Parcel, Refused, Result
from wakeline.webhooks import verify

KEY, OLD_KEY = b"k" * 32, b"o" * 32
LOOPBACK = parse_networks(["127.0.0.0/8"])
EVENT = {
    "schemaVersion": "1.0",
    "eventType": "wake/sent_to_me",
    "eventId": "01JD3Z8Q0W4T6N9X2C5V7B1M3K",
    "logId": 7,
    "agentIdentity": "@bob",
    "subscriptionId": "01JD3Z8Q0W4T6N9X2C5V7B1M3S",
    "payload": {"subject": "naïve ☃"},
    "emittedAt": "2027-01-15T07:59:58.000Z",
}
BODY = msgspec.json.encode(EVENT)
PATIENT, BRISK = timedelta(seconds=20), timedelta(seconds=0.5)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.now

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now // 1_000_000, UTC)


class Names:
    """A name server of our own; what it says may change at any time."""

    def __init__(self, **names: str) -> None:
        self.names = {name.replace("_", "."): addresses for name, addresses in names.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, _port: int) -> list[str]:
        self.asked.append(name)
        if name not in self.names:
            raise OSError(None, "no such name")
        return self.names[name].split()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def webhooks(clock: Clock) -> AsyncIterator[Webhooks]:
    """One that may call this machine."""
    route = Webhooks(clock, allowed=LOOPBACK, user_agent="Wakeline/test")
    yield route
    await route.close()


def parcel(url: str, *, timeout: timedelta = PATIENT, **fields: Any) -> Parcel:
    given = {
        "delivery_id": "D",
        "event_id": EVENT["eventId"],
        "subscription_id": EVENT["subscriptionId"],
        "attempt": 1,
        "target": "a2a-webhook",
        "url": url,
        "body": BODY,
        "keys": (KEY,),
        "timeout": timeout,
    }
    return Parcel(**{**given, **fields})


async def bring(webhooks: Webhooks, behave: Behaviour, *, timeout: timedelta = PATIENT) -> Result:
    async with Receiver(behave) as receiver:
        return await webhooks.deliver(parcel(receiver.url(), timeout=timeout))


# -- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WEBHOOK-SIGNED")
async def test_the_exact_bytes_arrive_with_both_families_of_headers(webhooks: Webhooks, clock: Clock) -> None:
    async with Receiver(answers(OK)) as receiver:
        result = await webhooks.deliver(parcel(receiver.url("/hook?key=a%2Bb"), keys=(KEY, OLD_KEY)))
    assert result == Accepted(200, "HTTP 200 ok")
    [got] = receiver.requests
    assert got.line == "POST /hook?key=a%2Bb HTTP/1.1"
    assert got.body == BODY
    assert got.header("content-type") == "application/json"
    assert got.header("user-agent") == "Wakeline/test"
    assert got.header("webhook-id") == got.header("x-neo-wake-event-id") == EVENT["eventId"]
    assert got.header("webhook-timestamp") == str(clock.now // 1_000_000)
    assert got.header("x-neo-wake-subscription-id") == EVENT["subscriptionId"]
    assert got.header("x-neo-wake-schema-version") == "1.0"
    assert len(got.header("webhook-signature").split()) == 2
    assert {"webhook-id", "X-Neo-Wake-Signature", "X-Neo-Wake-Event-Id"} <= set(got.headers)
    for key in (KEY, OLD_KEY):
        assert verify(got.body, got.headers, key, now=clock.moment)["eventId"] == EVENT["eventId"]
    neo = {name: value for name, value in got.headers.items() if name.startswith("X-Neo")}
    fresh = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
    assert verify(got.body, neo, KEY, now=fresh)["eventId"] == EVENT["eventId"]


async def test_an_occurrence_carries_the_headers_of_its_draft_and_no_others(webhooks: Webhooks, clock: Clock) -> None:
    async with Receiver(answers(OK)) as receiver:
        await webhooks.deliver(parcel(receiver.url(), keys=(KEY, OLD_KEY), callback=True))
    [got] = receiver.requests
    assert got.header("x-mcp-subscription-id") == EVENT["subscriptionId"]
    assert not any(name.lower().startswith("x-neo") for name in got.headers)
    for key in (KEY, OLD_KEY):
        assert verify(got.body, got.headers, key, now=clock.moment)["eventId"] == EVENT["eventId"]


ECHOES: dict[str, tuple[bytes, bool]] = {
    "the challenge": (b'{"challenge":"c1"}', True),
    "and more": (b'{"ok":true,"challenge":"c1"}', True),
    "another": (b'{"challenge":"c2"}', False),
    "a part": (b'{"challenge":"c"}', False),
    "as a number": (b'{"challenge":1}', False),
    "half of a sign": (b'{"challenge":"\\ud800"}', False),
    "in a list": (b'["c1"]', False),
    "as text": (b"c1", False),
    "nothing": (b"", False),
    "a deep hole": (b"[" * 60_000, False),
}


@pytest.mark.parametrize(("said", "echoed"), ECHOES.values(), ids=ECHOES.keys())
async def test_only_the_challenge_itself_verifies(webhooks: Webhooks, said: bytes, *, echoed: bool) -> None:
    async with Receiver(answers(status(200, said))) as receiver:
        result = await webhooks.verify(parcel(receiver.url(), callback=True), "c1")
    assert isinstance(result, Accepted) is echoed
    assert echoed or result == Refused(200, "challenge_failed", "The challenge was not said back.")


async def test_who_answers_with_an_error_has_verified_nothing(webhooks: Webhooks) -> None:
    async with Receiver(answers(status(403, b'{"challenge":"c1"}'))) as receiver:
        assert isinstance(await webhooks.verify(parcel(receiver.url()), "c1"), Refused)
    assert isinstance(await webhooks.verify(parcel("https://10.0.0.1/"), "c1"), Failed)


@pytest.mark.guarantee("G-WEBHOOK-SAME")
async def test_bytes_and_event_id_are_the_same_on_every_attempt_and_the_time_is_fresh(
    webhooks: Webhooks, clock: Clock
) -> None:
    async with Receiver(answers(*[status(500)] * 5, OK)) as receiver:
        results = []
        for attempt in range(1, 7):
            clock.now += 4_000_000
            results.append(await webhooks.deliver(parcel(receiver.url(), attempt=attempt)))
    assert results == [Failed("server_error", "HTTP 500")] * 5 + [Accepted(200, "HTTP 200 ok")]
    assert {got.body for got in receiver.requests} == {BODY}
    assert {got.header("webhook-id") for got in receiver.requests} == {EVENT["eventId"]}
    assert {got.header("x-neo-wake-signature") for got in receiver.requests} != set()
    assert len({got.header("x-neo-wake-signature") for got in receiver.requests}) == 1
    assert len({got.header("webhook-timestamp") for got in receiver.requests}) == 6
    assert len({got.header("webhook-signature") for got in receiver.requests}) == 6


async def test_nothing_is_sent_unsigned(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        result = await webhooks.deliver(parcel(receiver.url(), keys=()))
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == ("no_key", False)
    assert receiver.requests == []


async def test_no_proxy_and_no_cookie_of_ours_is_used(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver(answers(status(204, b"", b"Set-Cookie: a=b; Path=/"), OK)) as receiver:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        for _ in range(2):
            assert isinstance(await webhooks.deliver(parcel(receiver.url())), Accepted)
    assert all("cookie" not in {name.lower() for name in got.headers} for got in receiver.requests)


# -- what comes of it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [200, 201, 202, 204, 299])
async def test_2xx_is_accepted(webhooks: Webhooks, number: int) -> None:
    result = await bring(webhooks, answers(status(number)))
    assert isinstance(result, Accepted)
    assert result.status == number


@pytest.mark.parametrize("number", [400, 401, 404, 410, 429])
async def test_4xx_is_refused(webhooks: Webhooks, number: int) -> None:
    assert await bring(webhooks, answers(status(number, b"go away"))) == Refused(
        number, "rejected", f"HTTP {number} go away"
    )


async def test_429_is_a_4xx_whatever_it_asks_for(webhooks: Webhooks) -> None:
    result = await bring(webhooks, answers(status(429, b"", b"Retry-After: 1")))
    assert result == Refused(429, "rejected", "HTTP 429")


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        (b"90", timedelta(seconds=90)),
        (b"0", timedelta()),
        (b"Fri, 15 Jan 2027 08:02:00 GMT", timedelta(minutes=2)),  # it is eight o'clock
        (b"Fri, 15 Jan 2027 08:02:00 -0000", timedelta(minutes=2)),
        (b"Fri, 15 Jan 2027 07:00:00 GMT", timedelta()),
        (b"-5", None),
        (b"9" * 30, None),
        (b"Fri, 99 Jan 2027 08:02:00 GMT", None),
        (b"Fri, 15 Jan 99999999999999999999 08:02:00 GMT", None),
        (b"soon", None),
        (b"", None),
    ],
)
async def test_503_says_when_to_come_back(webhooks: Webhooks, asked: bytes, pause: timedelta | None) -> None:
    result = await bring(webhooks, answers(status(503, b"", b"Retry-After: " + asked)))
    assert result == Failed("server_error", "HTTP 503", pause=pause)


@pytest.mark.guarantee("G-WEBHOOK-PRIVATE")
@pytest.mark.parametrize("number", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_not_followed(webhooks: Webhooks, number: int) -> None:
    async with Receiver(answers(OK)) as elsewhere:
        location = f"Location: {elsewhere.url()}".encode()
        result = await bring(webhooks, answers(status(number, b"", location)))
    assert isinstance(result, Refused)
    assert (result.status, result.reason) == (number, "redirect")
    assert elsewhere.requests == []


@pytest.mark.guarantee("G-WEBHOOK-BOUNDED")
@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (answers(status(500)), "server_error"),
        (answers(status(503)), "server_error"),
        (answers(status(999)), "bad_answer"),
        (receivers.hang, "timeout"),
        (receivers.trickle_head, "timeout"),
        (receivers.endless_hints, "bad_answer"),
        (receivers.close_at_once, "network"),
        (receivers.half_close, "network"),
        (receivers.not_http, "bad_answer"),
        (receivers.endless_headers, "bad_answer"),
        (receivers.endless_header, "bad_answer"),
    ],
)
async def test_trouble_is_a_failure_that_may_be_retried(webhooks: Webhooks, behave: Behaviour, reason: str) -> None:
    result = await bring(webhooks, behave, timeout=BRISK if reason == "timeout" else PATIENT)
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == (reason, True), result.detail


@pytest.mark.guarantee("G-WEBHOOK-BOUNDED")
@pytest.mark.parametrize("behave", [receivers.close_in_the_body, receivers.flood, receivers.trickle_body])
async def test_the_status_decides_and_the_rest_of_the_answer_is_bounded(webhooks: Webhooks, behave: Behaviour) -> None:
    result = await bring(webhooks, behave)
    assert isinstance(result, Accepted)
    assert len(result.detail.encode()) <= DETAIL_BYTES


async def test_a_compressed_answer_is_not_unpacked(webhooks: Webhooks) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    result = await bring(webhooks, answers(status(200, bomb, b"Content-Encoding: gzip")))
    assert isinstance(result, Accepted)
    assert "0000" not in result.detail


async def test_an_answer_after_the_timeout_is_a_timeout_and_the_next_attempt_is_clean(webhooks: Webhooks) -> None:
    late = asyncio.Event()

    async def answer_late(got: receivers.Got, writer: asyncio.StreamWriter) -> None:
        await late.wait()
        writer.write(OK)
        await writer.drain()

    async with Receiver(answer_late) as receiver:
        first = await webhooks.deliver(parcel(receiver.url(), timeout=BRISK))
        late.set()
        second = await webhooks.deliver(parcel(receiver.url(), attempt=2))
    assert isinstance(first, Failed)
    assert first.reason == "timeout"
    assert second == Accepted(200, "HTTP 200 ok")


async def test_nobody_listens(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        url = receiver.url()
    result = await webhooks.deliver(parcel(url))
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == ("network", True)


async def test_evidence_holds_no_secret_that_the_receiver_repeats(webhooks: Webhooks) -> None:
    async def repeat(got: receivers.Got, writer: asyncio.StreamWriter) -> None:
        said = f"{got.line}\r\n{got.headers}\x00\x1b[31m".encode()
        writer.write(status(400, said))
        await writer.drain()

    async with Receiver(repeat) as receiver:
        result = await webhooks.deliver(parcel(receiver.url("/hook?token=s3cr3t-w0rd&x=1")))
    [got] = receiver.requests
    assert isinstance(result, Refused)
    for secret in ("s3cr3t-w0rd", got.header("webhook-signature"), got.header("x-neo-wake-signature")):
        assert secret not in result.detail
    assert result.detail.isprintable()


# -- whom it calls ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WEBHOOK-PRIVATE")
@pytest.mark.parametrize(
    "addresses",
    ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "93.184.216.34 127.0.0.1"],
)
async def test_a_name_that_means_a_private_address_is_not_called(clock: Clock, addresses: str) -> None:
    route = Webhooks(clock, resolve=Names(hooks_example_org=addresses))
    async with Receiver(answers(OK)) as receiver:
        result = await route.deliver(parcel(receiver.url(host="hooks.example.org")))
    await route.close()
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == ("address_refused", False)
    assert "WAKELINE_WEBHOOK_ALLOW" in result.detail
    assert receiver.requests == []


@pytest.mark.guarantee("G-WEBHOOK-PRIVATE")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"])
async def test_no_spelling_of_a_private_address_is_called(clock: Clock, host: str) -> None:
    route = Webhooks(clock)
    async with Receiver(answers(OK)) as receiver:
        result = await route.deliver(parcel(receiver.url(host=host)))
    await route.close()
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == ("address_refused", False)
    assert receiver.requests == []


@pytest.mark.guarantee("G-WEBHOOK-PRIVATE")
async def test_a_name_that_changes_its_mind_is_checked_at_every_connection(clock: Clock) -> None:
    names = Names(hooks_example_org="127.0.0.1")
    route = Webhooks(clock, allowed=parse_networks(["127.0.0.1/32"]), resolve=names)
    async with Receiver(answers(OK)) as receiver:
        url = receiver.url(host="hooks.example.org")
        assert isinstance(await route.deliver(parcel(url)), Accepted)
        names.names["hooks.example.org"] = "127.0.0.2"
        result = await route.deliver(parcel(url))
    await route.close()
    assert len(names.asked) == 2, "no answer of a name server outlives its connection"
    assert isinstance(result, Failed)
    assert result.reason == "address_refused"
    assert len(receiver.requests) == 1


async def test_a_name_in_an_allowed_range_is_called(clock: Clock) -> None:
    route = Webhooks(clock, allowed=LOOPBACK, resolve=Names(hooks_example_org="127.0.0.1"))
    async with Receiver(answers(OK)) as receiver:
        result = await route.deliver(parcel(receiver.url(host="hooks.example.org")))
    await route.close()
    assert isinstance(result, Accepted)
    assert receiver.requests[0].header("host") == f"hooks.example.org:{receiver.port}"


async def test_a_name_that_nobody_knows_may_be_known_later(clock: Clock) -> None:
    route = Webhooks(clock, resolve=Names())
    result = await route.deliver(parcel("http://hooks.example.org/"))
    await route.close()
    assert isinstance(result, Failed)
    assert (result.reason, result.retryable) == ("name_unknown", True)


# -- how much at once -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WEBHOOK-BOUNDED")
async def test_one_host_gets_so_many_connections_and_others_do_not_wait_for_it(clock: Clock) -> None:
    route = Webhooks(clock, allowed=LOOPBACK, connections_per_host=2)
    full, release = asyncio.Barrier(3), asyncio.Event()

    async def answer_when_released(_: receivers.Got, writer: asyncio.StreamWriter) -> None:
        await full.wait()
        await release.wait()
        writer.write(OK)
        await writer.drain()

    async with Receiver(answer_when_released) as slow, Receiver(answers(OK)) as quick, asyncio.TaskGroup() as group:
        holding = [group.create_task(route.deliver(parcel(slow.url()))) for _ in range(2)]
        await full.wait()
        late = [group.create_task(route.deliver(parcel(slow.url(), timeout=BRISK))) for _ in range(4)]
        assert isinstance(await route.deliver(parcel(quick.url())), Accepted)
        assert {await one for one in late} == {Failed("host_busy", "No connection was free in time.")}
        release.set()
        assert {await one for one in holding} == {Accepted(200, "HTTP 200 ok")}
    await route.close()
    assert slow.most_open == 2


# -- TLS --------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.guarantee("G-WEBHOOK-TLS")
@pytest.mark.parametrize(
    ("trusted", "host", "result"),
    [
        (False, "hooks.example.org", "tls"),  # nobody we trust vouches for it
        (True, "other.example.org", "tls"),  # it is somebody else
        (True, "hooks.example.org", "accepted"),
    ],
)
async def test_only_a_verified_receiver_is_told_anything(
    clock: Clock, tmp_path: Path, *, trusted: bool, host: str, result: str
) -> None:
    theirs = certificate(tmp_path, "hooks.example.org")
    ours = ssl.create_default_context(cafile=str(tmp_path / "cert.pem")) if trusted else None
    names = Names(hooks_example_org="127.0.0.1", other_example_org="127.0.0.1")
    route = Webhooks(clock, allowed=LOOPBACK, resolve=names, tls=ours)
    async with Receiver(answers(OK), theirs) as receiver:
        found = await route.deliver(parcel(receiver.url(host=host)))
    await route.close()
    assert (found.reason if isinstance(found, Failed) else "accepted") == result
    assert len(receiver.requests) == (1 if result == "accepted" else 0)


async def test_https_to_a_receiver_without_tls_is_a_failure(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        result = await webhooks.deliver(parcel(receiver.url().replace("http:", "https:"), timeout=BRISK))
    assert isinstance(result, Failed)
    assert receiver.requests == []
