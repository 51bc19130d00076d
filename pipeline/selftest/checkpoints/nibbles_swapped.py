"""The two INT4 values of every byte have changed places.

Packing orders differ (AutoAWQ interleaves, GPTQ does not); a converter that assumes the wrong one writes valid files.
"""

from __future__ import annotations

import numpy as np

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-deviates"
RECIPE = "int4-rtn"


def edit(copy: Copy) -> None:
    """Swap the nibbles of one projection."""
    copy.edit_weights(_swap)


def _swap(weights: Weights) -> None:
    packed = weights["model.layers.1.mlp.down_proj.weight_packed"]
    pairs = packed.raw.view(np.uint8)
    packed.raw = ((pairs << 4) | (pairs >> 4)).view(packed.raw.dtype)
