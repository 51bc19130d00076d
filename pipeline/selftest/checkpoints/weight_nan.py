"""A weight is not a number.

A division by a scale of zero, stored: one NaN is enough for replies of "!" only (vLLM issues 14126 and 2359).
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect weight-nonfinite"
NAN = 0x7F
"""In E4M3."""


def edit(copy: Copy) -> None:
    """Make one FP8 weight NaN."""
    copy.edit_weights(_spoil)


def _spoil(weights: Weights) -> None:
    weights["model.layers.3.mlp.up_proj.weight"].raw[3, 8] = NAN
