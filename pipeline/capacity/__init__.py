"""Will it fit, and for how many? Memory and concurrency of a model's builds on the cards of ``configs/hardware.yaml``.

Pure arithmetic on a checkpoint's config and headers: nothing is loaded, served or fetched.
"""

from __future__ import annotations

from pipeline.capacity.plan import (
    DEFAULT_RECIPES,
    MemoryPlan,
    choose_cards,
    load_of,
    plan_memory,
)
from pipeline.capacity.traffic import Traffic

__all__ = ["DEFAULT_RECIPES", "MemoryPlan", "Traffic", "choose_cards", "load_of", "plan_memory"]
