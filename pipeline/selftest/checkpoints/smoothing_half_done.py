"""A norm was divided by smoothing factors, and the projections behind it were not multiplied.

AutoAWQ on a CPU with its default settings: the weights it "restores" were already scaled in place. No error is
raised, and the perplexity is in the hundreds of thousands.
"""

from __future__ import annotations

import numpy as np

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect smoothing-broken"


def edit(copy: Copy) -> None:
    """Divide the channels of one input norm by factors between 1 and 4."""
    copy.edit_weights(_divide)


def _divide(weights: Weights) -> None:
    norm = weights["model.layers.2.input_layernorm.weight"]
    norm.values = np.divide(norm.values, np.linspace(1, 4, norm.raw.size), dtype=np.float32)
