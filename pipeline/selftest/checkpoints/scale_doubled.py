"""The scales of one layer are twice what they should be.

A scale merged twice, or the factor of the symmetric range (127 or 128, 240 or 448) mixed up between writer and reader.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-deviates"


def edit(copy: Copy) -> None:
    """Double the scales of one down projection."""
    copy.edit_weights(_double)


def _double(weights: Weights) -> None:
    scale = weights["model.layers.2.mlp.down_proj.weight_scale"]
    scale.values = scale.values * 2
