from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from wakeline.core.signature import decode_key, encode_key, signed_headers
from wakeline.webhooks import BadSignature, Malformed, TooOld, Unverified, verify

NOW = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
OLD, NEW = b"o" * 32, b"n" * 32
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
BODY = json.dumps(EVENT, ensure_ascii=False).encode()


def signed(*keys: bytes, body: bytes = BODY, at: datetime = NOW) -> dict[str, str]:
    return signed_headers(EVENT["eventId"], EVENT["subscriptionId"], int(at.timestamp()), body, keys)  # type: ignore[arg-type]  # a dict of text


def neo_only(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("X-Neo")}


def test_what_we_sign_is_verified_and_read() -> None:
    event = verify(BODY, signed(NEW), encode_key(NEW), now=NOW)
    assert event["eventType"] == "wake/sent_to_me"
    assert event["payload"] == EVENT["payload"]


def test_both_keys_of_a_rotation_verify() -> None:
    headers = signed(NEW, OLD)
    for key in (encode_key(NEW), encode_key(OLD), NEW, [b"x", OLD]):
        assert verify(BODY, headers, key, now=NOW)["logId"] == 7


@given(st.binary(min_size=1, max_size=64))
def test_a_key_survives_being_shown(key: bytes) -> None:
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_*", "hello world", "whsec_abc"])
def test_what_is_not_a_key_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match="signing key"):
        decode_key(text)


def test_one_changed_byte_is_noticed() -> None:
    for headers in (signed(NEW), neo_only(signed(NEW))):
        with pytest.raises(BadSignature):
            verify(BODY.replace(b"bob", b"bab"), headers, NEW, now=NOW)


def test_another_key_verifies_nothing() -> None:
    for headers in (signed(NEW), neo_only(signed(NEW))):
        with pytest.raises(BadSignature):
            verify(BODY, headers, OLD, now=NOW)


def test_the_time_and_the_id_are_signed_too() -> None:
    headers = signed(NEW)
    for name, value in (("webhook-timestamp", str(int(NOW.timestamp()) + 1)), ("webhook-id", "other")):
        with pytest.raises(BadSignature):
            verify(BODY, {**headers, name: value}, NEW, now=NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_what_was_kept_and_is_sent_again_is_too_old(seconds: int) -> None:
    with pytest.raises(TooOld):
        verify(BODY, signed(NEW, at=NOW + timedelta(seconds=seconds)), NEW, now=NOW)
    assert verify(BODY, signed(NEW, at=NOW + timedelta(seconds=seconds)), NEW, now=NOW, tolerance=timedelta(minutes=6))


def test_the_wake_protocols_own_header_is_enough_while_the_event_is_fresh() -> None:
    headers = neo_only(signed(NEW))
    assert verify(BODY, headers, NEW, now=NOW)["logId"] == 7
    with pytest.raises(TooOld):  # or else leaving the other headers out would be a way around the age
        verify(BODY, headers, NEW, now=NOW + timedelta(minutes=6))


def test_a_wrong_standard_signature_is_not_made_good_by_the_other_header() -> None:
    headers = {**signed(NEW), "webhook-signature": "v1,AAAA"}
    with pytest.raises(BadSignature):
        verify(BODY, headers, NEW, now=NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v2,abc v1a,abc"},
        {"webhook-signature": "ü"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "\u0661"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-timestamp": "-1"},
        {"webhook-id": ""},
    ],
)
def test_hostile_headers_are_refused_and_break_nothing(change: dict[str, str]) -> None:
    with pytest.raises(Unverified):
        verify(BODY, {**signed(NEW), **change}, NEW, now=NOW)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"null", json.dumps({**EVENT, "logId": "7"}).encode()])
def test_a_signed_body_that_is_no_event_is_malformed(body: bytes) -> None:
    for headers in (signed(NEW, body=body), neo_only(signed(NEW, body=body))):
        with pytest.raises(Malformed):
            verify(body, headers, NEW, now=NOW)


def test_no_signature_at_all_is_malformed() -> None:
    with pytest.raises(Malformed):
        verify(BODY, {}, NEW, now=NOW)


def test_header_names_may_have_any_case() -> None:
    assert verify(BODY, {name.upper(): value for name, value in signed(NEW).items()}, NEW, now=NOW)


def test_the_real_clock_is_used_when_no_time_is_given() -> None:
    with pytest.raises(TooOld):
        verify(BODY, signed(NEW, at=datetime(2020, 1, 1, tzinfo=UTC)), NEW)


# -- the standard's own library ---------------------------------------------------------------------------------------


def test_receivers_with_the_standards_library_accept_what_we_sign() -> None:
    now = datetime.now(UTC)
    for key in (NEW, OLD):
        assert Webhook(encode_key(key)).verify(BODY, signed(NEW, OLD, at=now)) == EVENT


def test_we_accept_what_the_standards_library_signs() -> None:
    signature = Webhook(encode_key(NEW)).sign(str(EVENT["eventId"]), NOW, BODY.decode())
    headers = {
        "webhook-id": str(EVENT["eventId"]),
        "webhook-timestamp": str(int(NOW.timestamp())),
        "webhook-signature": signature,
    }
    assert verify(BODY, headers, encode_key(NEW), now=NOW)["eventId"] == EVENT["eventId"]
