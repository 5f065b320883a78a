"""How a log row reads on the wire when it is published to many: the same for everybody who may see it."""

from __future__ import annotations

from wakeline import wire
from wakeline.service import views
from wakeline.service.listeners import Published


def event_view(published: Published) -> wire.EventView:
    """As of the moment it was written: the frame is shared, so it cannot depend on who reads it or when."""
    return views.event(published.entry, published.epoch, published.entry.log.created_at)
