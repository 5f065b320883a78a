"""What crosses between two processes of one server with every post."""

from __future__ import annotations

import msgspec


class Packed(msgspec.Struct, frozen=True):
    """Goes to the writer, or comes from it, so often that it is packed whole, by its own types.

    They must tell all of it: what is unpacked is equal to what was packed.
    """
