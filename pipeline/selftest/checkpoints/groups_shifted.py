"""The scales of INT4 groups belong to the group before.

An off-by-one in the group index, as when activation order (g_idx) is written and not read.
"""

from __future__ import annotations

import numpy as np

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-deviates"
RECIPE = "int4-rtn"


def edit(copy: Copy) -> None:
    """Roll the scales of one projection by a group."""
    copy.edit_weights(_shift)


def _shift(weights: Weights) -> None:
    scale = weights["model.layers.2.mlp.gate_proj.weight_scale"]
    scale.raw = np.roll(scale.raw, 1, axis=1)
