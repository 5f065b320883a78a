"""How a webhook is signed: Standard Webhooks, and the wake protocol's own header beside it, over the exact bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
VERSION = "v1"
SCHEMA_VERSION = "1.0"


def encode_key(key: bytes) -> str:
    """The key as its owner is shown it."""
    return PREFIX + base64.b64encode(key).decode()


def decode_key(text: str) -> bytes:
    """Raises ValueError for what is not a key."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("a signing key is 'whsec_' and base 64") from error
    if not key:
        raise ValueError("a signing key is not empty")
    return key


def standard(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """`v1,…` over id, timestamp and body, as Standard Webhooks has it."""
    digest = hmac.digest(key, b"%s.%d.%s" % (event_id.encode(), timestamp, body), hashlib.sha256)
    return f"{VERSION},{base64.b64encode(digest).decode()}"


def plain(key: bytes, body: bytes) -> str:
    """Lowercase hex over the body alone, as the wake protocol has it."""
    return hmac.digest(key, body, hashlib.sha256).hex()


def signed_headers(
    event_id: str, subscription_id: str, timestamp: int, body: bytes, keys: Sequence[bytes], *, callback: bool = False
) -> dict[str, str]:
    """`keys` newest first.  All of them sign where there is room for several, the newest alone where there is not."""
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(standard(key, event_id, timestamp, body) for key in keys),
    }
    if callback:
        return {**headers, "X-MCP-Subscription-Id": subscription_id}
    return {
        **headers,
        "X-Neo-Wake-Signature": plain(keys[0], body),
        "X-Neo-Wake-Event-Id": event_id,
        "X-Neo-Wake-Subscription-Id": subscription_id,
        "X-Neo-Wake-Schema-Version": SCHEMA_VERSION,
    }
