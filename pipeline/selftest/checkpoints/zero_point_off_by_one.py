"""Every INT4 weight of one projection is a step too small.

GPTQ files of version 1 store zero points less one and those of version 2 do not; a reader that takes one for the other
shifts every weight by a step.
"""

from __future__ import annotations

import numpy as np

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-deviates"
RECIPE = "int4-rtn"


def edit(copy: Copy) -> None:
    """Take one from every packed value that has one."""
    copy.edit_weights(_shift)


def _shift(weights: Weights) -> None:
    packed = weights["model.layers.2.mlp.gate_proj.weight_packed"]
    low, high = packed.raw.view(np.uint8) & 15, packed.raw.view(np.uint8) >> 4
    shifted = (low - (low > 0)) | ((high - (high > 0)) << 4)
    packed.raw = shifted.astype(np.uint8).view(packed.raw.dtype)
