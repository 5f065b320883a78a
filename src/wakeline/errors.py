"""Every refusal and failure that a caller can meet, as one tree with one catalogue.

    WakelineError
    ├── InvalidArgument     400  the input is wrong and will stay wrong
    ├── Unauthorized        401  we do not know who is calling
    ├── Forbidden           403  we know, and a rule says no
    ├── NotFound            404  it is not there, or not visible to this caller
    ├── MethodNotAllowed    405  the path is right, the verb is not
    ├── TooSlow             408  the request did not arrive in time
    ├── Conflict            409  it contradicts what is already stored
    ├── Gone                410  it was there and is no longer kept
    ├── TooLarge            413  more bytes than this server accepts
    ├── RateLimited         429  right, but too often
    ├── Unavailable         503  the store cannot answer now; nothing was accepted unless the text says so
    │   └── Unusable        503  the same, and waiting alone does not help: somebody must do something
    └── Internal            500  a bug of ours

A code is stable and belongs to one line of the catalogue; the message is one sentence for a person; the hint says what
to do next.  Faces render errors, they never invent them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class WakelineError(Exception):
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, code: str, message: str, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = CATALOGUE[code] if hint is None else hint
        self.details = details
        self.audited = False  # set by who has counted this refusal, so that nobody counts it twice

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.code, self.message, self.hint, self.details, self.audited)

    def again(self) -> Self:
        """The same for somebody else: whoever raises an error adds to its traceback, and may add to its details."""
        return type(self)(self.code, self.message, self.hint, **self.details)


def _remade(
    kind: type[WakelineError],
    code: str,
    message: str,
    hint: str,
    details: dict[str, Any],
    audited: bool,  # noqa: FBT001 - positional by nature
) -> WakelineError:
    """As it was in the process that it comes from."""
    error = kind(code, message, hint, **details)
    error.audited = audited
    return error


class InvalidArgument(WakelineError):
    status = 400


class Unauthorized(WakelineError):
    status = 401


class Forbidden(WakelineError):
    status = 403


class NotFound(WakelineError):
    status = 404


class MethodNotAllowed(WakelineError):
    status = 405


class TooSlow(WakelineError):
    status = 408
    retryable = True


class Conflict(WakelineError):
    status = 409


class Gone(WakelineError):
    status = 410


class TooLarge(WakelineError):
    status = 413


class RateLimited(WakelineError):
    status = 429
    retryable = True


class Unavailable(WakelineError):
    status = 503
    retryable = True


class Unusable(Unavailable):
    retryable = False


class Internal(WakelineError):
    status = 500


# What a rule refuses to a caller whom we know.  The audit counts these.
POLICY = (Forbidden, TooLarge, RateLimited)


CATALOGUE: dict[str, str] = {
    # 400
    "INVALID_ARGUMENT": "Compare the request with the reference at /openapi.json.",
    "MALFORMED_HTTP": "Send one well-formed HTTP/1.1 request, with at most 64 KB of headers.",
    "MALFORMED_JSON": "Send one JSON object, UTF-8, without NUL characters or lone surrogates.",
    "MALFORMED_POSITION": "Send a position exactly as an event's id gave it, or 0 for the start of what is kept.",
    # 401
    "TOKEN_MISSING": "Send 'Authorization: Bearer <token>'; 'wakeline agent add @name' prints one.",
    "TOKEN_INVALID": "Ask the human for a new token: 'wakeline token create @name'.",
    "TOKEN_EXPIRED": "Ask the human for a new token: 'wakeline token create @name'.",
    "TOKEN_REVOKED": "Ask the human for a new token: 'wakeline token create @name'.",
    # 403
    "CLAIM_MISMATCH": "Leave the field out: the server takes it from the token.",
    "WORKSPACE_MISMATCH": "Use a token of that workspace.",
    "ROLE_FORBIDDEN": "Ask a principal whose role allows it, or ask the human to change your role.",
    "NOT_A_MEMBER": "Ask the thread's creator, a coordinator or the human to add you.",
    "GRANT_MISSING": "Ask the owner or the human for the grant.",
    "BLOCKED": "Only the principal who set the block, or the human, can lift it.",
    "RESTRICTED_TAG": "Leave the tag out, or ask a coordinator or the human to send it.",
    "OVERRIDE_REQUIRED": "A coordinator or the human can do it with override=true and a reason.",
    "OPERATOR_REQUIRED": "Run it as the human on the machine that serves the data directory.",
    "WEBHOOK_URL_REFUSED": "Give a URL on the public internet, or ask the operator to allow its range.",
    "TOO_MANY_SUBSCRIPTIONS": "Remove some, or ask the operator to raise the setting subscriptions_per_agent.",
    "BRIDGE_REQUIRED": "Use the token of a bridge: 'wakeline token create --bridge HOST'.",
    "BRIDGE_SCOPE": "A bridge's token claims, settles and reports for its host's sessions; use another for the rest.",
    "PERMISSION_BYPASS_REFUSED": "Leave it out: what is started has the rights that its human has set up for it.",
    "ACTIVATION_LIMIT": "Ask for less, or ask the operator to raise the setting that the guide on activation names.",
    "NOT_OFFERED": "Wakeline has no such thing; leave it out.",
    # 404
    "NOT_FOUND": "Check the path against /openapi.json.",
    "THREAD_NOT_FOUND": "List what you can see with GET /v1/threads.",
    "MESSAGE_NOT_FOUND": "Check the message_id; GET /v1/inbox and thread reads give it.",
    "RECIPIENT_UNKNOWN": "GET /v1/agents lists who exists; if the details name a dead letter, it keeps the message.",
    "NO_RECIPIENTS": "Nobody holds that role now; if the details name a dead letter, it keeps the message.",
    "SESSION_NOT_FOUND": "GET /v1/sessions lists yours, GET /v1/peers those of others.",
    "AGENT_NOT_FOUND": "GET /v1/agents lists who exists.",
    "TOKEN_NOT_FOUND": "'wakeline token list' shows the tokens.",
    "GRANT_NOT_FOUND": "GET /v1/grants lists what exists.",
    "BLOCK_NOT_FOUND": "GET /v1/blocks lists what exists.",
    "DEAD_LETTER_NOT_FOUND": "'wakeline dead-letter list' shows what is kept.",
    "CURSOR_NOT_FOUND": "A cursor is put back to where it has been, never forward.",
    "DELIVERY_NOT_FOUND": "'wakeline deliveries list' shows yours.",
    "ACTIVATION_NOT_FOUND": "'wakeline activations list' shows yours.",
    "SUBSCRIPTION_NOT_FOUND": "'wakeline wake list' shows yours.",
    "WORKSPACE_NOT_FOUND": "'wakeline workspace list' shows what exists.",
    # 405
    "METHOD_NOT_ALLOWED": "The Allow header says what this path takes.",
    # 408
    "REQUEST_TOO_SLOW": "Send the whole request at once; nothing was done with the part that arrived.",
    # 409
    "IDEMPOTENCY_CONFLICT": "Use a new key for a new payload, or repeat the first payload exactly.",
    "INVALID_THREAD_TRANSITION": "docs/reference/states.md shows which changes exist.",
    "THREAD_CLOSED": "Open a new thread; if the details name a dead letter, it keeps the message.",
    "AGENT_EXISTS": "Handles are never reused; choose another, or make a token with 'wakeline token create'.",
    "WORKSPACE_EXISTS": "Choose another name.",
    "NON_MONOTONIC_CURSOR": "Read the cursor again; it never goes back.",
    "NOT_WRITTEN_YET": "Acknowledge what was read; the details say where the thread ends.",
    "NOT_RETRYABLE": "Only what failed, was skipped or has an unknown outcome can be sent again.",
    "SUBSCRIPTION_DEGRADED": "Mend the receiver, then 'wakeline wake resume'.",
    "NO_ROUTE": "Give the subscription a target first.",
    "SUBSCRIPTION_EXISTS": "Use the one that the details name, or remove it first.",
    "WEBHOOK_URL_MISSING": "Give the URL in the target's metadata.",
    "NOT_A_WEBHOOK": "Only webhooks have a signing key.",
    "MCP_EVENT_SUBSCRIPTION": "Call events/subscribe again with the same URL: it renews, and takes another secret.",
    "CALLBACK_UNVERIFIED": "Let the endpoint say the challenge of a verification back, then subscribe again.",
    "ALREADY_READ": "A message that somebody has read cannot be taken back; post one that supersedes it.",
    "ALREADY_REPLACED": "Supersede the newest one instead; the details name it, if there is one.",
    "WAIT_CYCLE": "Answer what you are asked first, or post without wait_seconds and read the reply later.",
    "BRIDGE_RUNNING": "A host has one bridge at a time: stop the other, or wait until its lease is over.",
    "BRIDGE_NOT_ATTENDING": "Attend first: a bridge claims and reports only while it holds its host's lease.",
    "ALREADY_REDRIVEN": "It was accepted; the details name the message.",
    # 410
    "POSITION_EXPIRED": "Read the inbox, then continue from the position in the details.",
    "EPOCH_CHANGED": "The store was restored; read the inbox, then continue from the position in the details.",
    # 413
    "BODY_TOO_LARGE": "Shorten it, or send a link to the content.",
    "SUBJECT_TOO_LONG": "Shorten the subject and move the rest to the body.",
    # 429
    "RATE_LIMITED": "Wait as long as Retry-After says.",
    "TOO_MANY_STREAMS": "Close streams that are not needed, or raise the setting max_streams.",
    # 500
    "INTERNAL": "This is a bug: report it with the request_id.",
    # 503
    "STORE_UNAVAILABLE": "Retry with the same idempotency_key: then it is applied exactly once.",
    "STORE_FULL": "Free disk space; the server goes on by itself. Nothing that was answered is lost.",
    "STORE_BUSY": "Another program holds the database; close it. Retry with the same idempotency_key.",
    "STORE_READ_ONLY": "Give the server's user write permission on the data directory.",
    "STORE_CORRUPT": "Stop the server and restore a backup with 'wakeline restore'.",
    "STORE_NEWER": "Run a Wakeline at least as new as the one that wrote this database.",
    "STORE_CHANGED": "A migration that was already applied differs from this program's; install the released package.",
    "STORE_LOCKED": "Another Wakeline serves this data directory; stop it, or choose another with --data.",
    "BRIDGE_LOCKED": "Stop that bridge first ('wakeline up' has one of its own), or choose another --data.",
    "ADDRESS_UNAVAILABLE": "Choose another address with --host, --port or --data.",
    "KEY_MISMATCH": "Give the key that the database was made with: the data directory's file 'key', or WAKELINE_KEY.",
    "ISSUER_UNAVAILABLE": "Retry in a minute; tokens that this server issued work meanwhile.",
    "SHUTTING_DOWN": "Retry in a moment, with the same idempotency_key.",
}
