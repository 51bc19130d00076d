"""A few scales are zero: whole output channels are silent.

compressed-tensors checkpoints with scales of 0 for what calibration never reached (TensorRT-LLM pull request 16447,
GPTQModel issue 1529).
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect scale-value"


def edit(copy: Copy) -> None:
    """Zero the first four scales of one projection."""
    copy.edit_weights(_zero)


def _zero(weights: Weights) -> None:
    weights["model.layers.3.self_attn.o_proj.weight_scale"].raw[:4] = 0
