"""One scale is not a number.

compressed-tensors issue 832: scales that were never written hold whatever was in memory, and are saved.
"""

from __future__ import annotations

import numpy as np

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect scale-value"


def edit(copy: Copy) -> None:
    """Make one scale NaN."""
    copy.edit_weights(_spoil)


def _spoil(weights: Weights) -> None:
    scale = weights["model.layers.1.mlp.gate_proj.weight_scale"]
    values = scale.values.copy()
    values.reshape(-1)[5] = np.nan
    scale.values = values
