"""Find what a batch must know: what earlier batches have left us, and one statement for the rest.

The statement has one part for each kind of fact that is asked for, and each part returns its rows as one JSON array, so
the whole load is one step.  A step gives up and takes back the interpreter's lock once; a row or a part at a time would
mean as many rounds of waiting while the event loop is busy.  And msgspec turns an array into rows faster than the
driver could hand them over.
"""

from __future__ import annotations

from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Any, get_type_hints

import apsw
import msgspec

from wakeline.core.log import Workspace
from wakeline.core.picture import Facts, Needs, Picture
from wakeline.core.subscription import Subscription
from wakeline.core.wake_queries import Watching
from wakeline.errors import NotFound
from wakeline.store import statements
from wakeline.store.known import Known
from wakeline.store.sqlite.reading import rows

# What is asked for → the parts that bring it, each with the kind of fact it is.
PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "handles": (("principals", "principals"),),
    "roles": (("role_holders", "role_holders"), ("role_principals", "principals")),
    "everyone": (("everyone", "principals"),),
    "threads": (("threads", "threads"), ("members", "members")),
    "audience_keys": (("standing_threads", "threads"), ("standing_members", "members")),
    "workflows_of": (("workflow_threads", "threads"), ("workflow_members", "members")),
    "role_threads_of": (("role_threads", "threads"), ("role_memberships", "members")),
    "guests": (("guests", "guests"),),
    "messages": (("messages", "messages"), ("message_threads", "threads"), ("message_members", "members")),
    "receipts": (("receipts", "receipts"),),
    "receipts_of": (("all_receipts", "receipts"),),
    "unread_until": (("unread_receipts", "receipts"), ("glimpsed_receipts", "receipts")),
    "idempotency": (("idempotency", "idempotency"),),
    "senders": (("grants", "grants"), ("blocks", "blocks"), ("buckets", "buckets"), ("causes", "causes")),
    "tokens": (("tokens", "tokens"),),
    "dead_letters": (("dead_letters", "dead_letters"),),
    "sessions": (("sessions", "sessions"),),
    "sessions_of": (("sessions_of", "sessions"),),
    "subscriptions": (("subscriptions", "subscriptions"), ("subscription_deliveries", "deliveries")),
    "subscriptions_of": (("subscriptions_of", "subscriptions"),),
    "plans": (
        ("plan_subscriptions", "subscriptions"),
        ("plan_wakes", "wakes"),
        ("plan_receipts", "receipts"),
        ("plan_threads", "threads"),
        ("plan_members", "members"),
        ("plan_principals", "principals"),
        ("plan_buckets", "buckets"),
        ("plan_deliveries", "deliveries"),
    ),
    "seats": (
        ("plan_sessions", "sessions"),
        ("plan_session_deliveries", "deliveries"),
        ("plan_bridges", "bridges"),
        ("plan_ringing", "wakes"),
        ("plan_ringing_receipts", "receipts"),
    ),
    "deliveries": (
        ("deliveries", "deliveries"),
        ("delivery_subscriptions", "subscriptions"),
        ("delivery_wakes", "wakes"),
        ("delivery_receipts", "receipts"),
    ),
    "cursors": (("cursors", "cursors"),),
    "consumers": (("consumers", "consumers"),),
    "waits": (("waits", "waits"),),
    "bridges": (("bridges", "bridges"),),
    "bridges_of": (("bridges_of", "bridges"),),
    "wakes": (("wakes", "wakes"),),
    "proofs": (("proofs", "proofs"),),
    "activations": (("activations", "activations"),),
    "mandates": (("mandates", "mandates"), ("dormancies", "dormancies"), ("open_activations", "activations")),
}

_encode = msgspec.json.Encoder().encode
_workspace = msgspec.json.Decoder(Workspace)
_decoders: dict[str, msgspec.json.Decoder[list[Any]]] = {
    name: msgspec.json.Decoder(kind) for name, kind in get_type_hints(Facts).items() if name not in ("now", "workspace")
}


# Rows that are learned before we forget them all and begin again: what bounds the memory that they take.
MAX_LEARNED = 200_000
MAX_WATCHING = 16  # subscriptions of one handle


class Loader:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._known: dict[int, Known] = {}
        self._version = 0  # of the file; changes with every commit, whoever makes it
        self.watched: dict[int, bool] = {}  # by workspace: does anybody want what follows from its log?

    def begin(self) -> bool:
        """In the transaction, before the first load: is what we know still true?  If not, it is forgotten."""
        holds = self._connection.data_version() == self._version
        if not holds:
            self.forget()
        return holds

    def committed(self) -> None:
        """We did it ourselves, so it says nothing about others."""
        self._version = self._connection.data_version()

    def recall(self, workspace_id: int, needs: Needs, now: int) -> Facts | None:
        """Without reading anything; None if something must be read."""
        known = self._known.get(workspace_id)
        return known.facts(needs, now) if known is not None and known.lacks(needs) is None else None

    def load(self, workspace_id: int, needs: Needs, now: int, before: Picture | None = None) -> Facts:
        """`before` was written in the same transaction and is not learned yet; its workspace is not closed either."""
        if needs.receipts_of or needs.receipts:
            needs.messages |= needs.receipts_of | {message_id for message_id, _ in needs.receipts}
        known = self._known.get(workspace_id)
        if known is not None and before is not None:
            known.distrust(before.changes)
        lacked = needs if known is None else known.lacks(needs)
        if known is not None and lacked is None:
            return known.facts(needs, now)
        read = self._read(workspace_id, lacked or needs, now)
        if known is None:
            known = self._known[workspace_id] = Known(read.workspace)
        known.read(lacked or needs, read)
        return known.facts(needs, now, read)

    def watchers(self, workspace_id: int, handle: str) -> list[tuple[Subscription, bool]] | None:
        """Who waits for mail to this handle.  None: we do not know of all, or they are too many to remember."""
        known = self._known.get(workspace_id)
        if known is None:
            return None
        query = Watching(workspace_id, handle, MAX_WATCHING + 1)
        found = known.watching(handle, lambda: rows(self._connection, query))
        return found if found is not None and len(found) <= MAX_WATCHING else None

    def wrote(self, picture: Picture) -> None:
        """This picture's changes were committed."""
        known = self._known.get(picture.workspace.workspace_id)
        if known is not None:
            known.wrote(picture)
        if picture.changes.subscription_keys:
            self.watched.pop(picture.workspace.workspace_id, None)
        if sum(known.learned for known in self._known.values()) > MAX_LEARNED:
            self.forget()

    def forget(self) -> None:
        """After, or before, anything but a batch that was committed."""
        self._known.clear()
        self.watched.clear()

    def _read(self, workspace_id: int, needs: Needs, now: int) -> Facts:
        statement, kinds = _statement(_asked(needs))
        given = {name: _encode(getattr(needs, name)).decode() for name in _asked(needs)}
        values = tuple(workspace_id if name == "workspace_id" else given[name] for name in statement.parameters)
        [documents] = self._connection.execute(statement.text, values).fetchall()
        return _facts(workspace_id, now, kinds, documents)


_needs = attrgetter(*PARTS)


def _asked(needs: Needs) -> tuple[str, ...]:
    return tuple(compress(PARTS, _needs(needs)))


@cache
def _statement(asked: tuple[str, ...]) -> tuple[statements.Statement, tuple[str, ...]]:
    """Few combinations ever occur, because few kinds of commands exist."""
    parts = [part for name in asked for part in PARTS[name]]
    names = ["facts_workspace", *(f"facts_{part}" for part, _ in parts)]
    return statements.compose("sqlite", names), tuple(kind for _, kind in parts)


def _facts(workspace_id: int, now: int, kinds: tuple[str, ...], documents: tuple[Any, ...]) -> Facts:
    if documents[0] is None:
        raise NotFound("WORKSPACE_NOT_FOUND", f"There is no workspace {workspace_id}.")
    facts = Facts(now=now, workspace=_workspace.decode(documents[0]))
    for kind, document in zip(kinds, documents[1:], strict=True):
        rows = _decoders[kind].decode(document)
        if rows:
            # Two parts may bring the same row; the picture keeps one of each key.
            setattr(facts, kind, [*getattr(facts, kind), *rows])
    return facts
