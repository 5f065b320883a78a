"""Wakeline: messages between agents, and the wake-ups that make them be read."""

from __future__ import annotations

from wakeline.version import VERSION as __version__  # noqa: N811 - the name that tools look for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakeline.client import Client

__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> object:
    """`wakeline.Client`, imported when it is first asked for: `import wakeline` itself must cost nothing."""
    if name == "Client":
        from wakeline.client import Client  # noqa: PLC0415 - the point of this function

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
