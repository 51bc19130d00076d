"""A quantized weight has lost its scales.

Engines allocate scales before loading and do not always notice that none came (vLLM pull request 52501).
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect scheme-dtype"


def edit(copy: Copy) -> None:
    """Drop the scales of one projection."""
    copy.edit_weights(_drop)


def _drop(weights: Weights) -> None:
    del weights["model.layers.3.mlp.up_proj.weight_scale"]
