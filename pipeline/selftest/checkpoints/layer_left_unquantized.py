"""One layer of all was left in BF16.

A pattern of the recipe that matches all names but one: smaller savings, and another kernel for that layer.
"""

from __future__ import annotations

from pipeline.quantizers.checkpoint import WEIGHTS
from pipeline.selftest.copies import Copy, Weights, read_weights

CAUGHT_BY = "inspect scheme-coverage"
MODULE = "model.layers.2.mlp.down_proj"


def edit(copy: Copy) -> None:
    """Put the baseline's weight back."""
    original = read_weights(copy.baseline / WEIGHTS)[f"{MODULE}.weight"]

    def restore(weights: Weights) -> None:
        del weights[f"{MODULE}.weight_scale"]
        weights[f"{MODULE}.weight"] = original

    copy.edit_weights(restore)
