from __future__ import annotations

import logging
import os
import random

import pytest


@pytest.fixture
def dice() -> random.Random:
    """Seeded; the seed is shown when the test fails, and `WAKELINE_CHAOS_SEED` brings it back."""
    seed = int(os.environ.get("WAKELINE_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    logging.getLogger(__name__).warning("repeat with WAKELINE_CHAOS_SEED=%d", seed)
    return random.Random(seed)
