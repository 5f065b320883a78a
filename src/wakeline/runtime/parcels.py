"""Make parcels: a claimed delivery with what its adapter needs and no row may hold in the open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial

from cryptography.fernet import Fernet

from wakeline.core.parcel import Parcel
from wakeline.core.subscription import Subscription, callback_of, live_keys
from wakeline.errors import Unusable
from wakeline.flow.plan import Planned
from wakeline.runtime.secrets import unseal

KEPT_KEYS = 256  # opening one takes longer than signing with it


class Packer:
    """`now` in microseconds."""

    def __init__(self, box: Fernet, now: Callable[[], int], timeout: timedelta) -> None:
        self._now = now
        self._timeout = timeout
        self._unseal = lru_cache(KEPT_KEYS)(partial(unseal, box))

    def pack(self, planned: Planned) -> Parcel:
        delivery, subscription = planned.delivery, planned.subscription
        return Parcel(
            delivery_id=delivery.delivery_id,
            event_id=delivery.event_id,
            subscription_id=delivery.subscription_id,
            attempt=delivery.attempts,
            target=delivery.target,
            workspace_id=delivery.workspace_id,
            handle=delivery.handle,
            url=subscription.url,
            body=delivery.body.encode(),
            keys=self._keys(subscription),
            timeout=self._timeout,
            callback=callback_of(subscription) is not None,
        )

    def _keys(self, subscription: Subscription) -> tuple[bytes, ...]:
        """A key that cannot be opened signs nothing; the adapter then refuses to send unsigned."""
        opened = []
        for sealed in live_keys(subscription, self._now()):
            with suppress(Unusable):
                opened.append(self._unseal(sealed))
        return tuple(opened)
