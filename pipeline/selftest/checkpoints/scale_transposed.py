"""Scales lie along the wrong dimension: [1, out] instead of [out, 1].

Layouts differ between quantizers (AWQ and GPTQ keep [groups, out]); a converter that forgets one transposes it.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect scale-shape"


def edit(copy: Copy) -> None:
    """Transpose the scales of one projection."""
    copy.edit_weights(_transpose)


def _transpose(weights: Weights) -> None:
    scale = weights["model.layers.0.self_attn.q_proj.weight_scale"]
    scale.raw = scale.raw.reshape(1, -1)
