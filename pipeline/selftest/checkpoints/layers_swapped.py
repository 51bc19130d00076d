"""Two layers have changed places.

Names sorted as text (10 before 2) while shards are written: every tensor is sound, and in the wrong place.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-deviates"


def edit(copy: Copy) -> None:
    """Swap layers 1 and 3."""
    copy.edit_weights(_swap)


def _swap(weights: Weights) -> None:
    first = "model.layers.1."
    for name in [name for name in weights if name.startswith(first)]:
        other = name.replace(first, "model.layers.3.")
        weights[name], weights[other] = weights[other], weights[name]
