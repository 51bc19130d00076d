"""The output head is quantized although the scheme leaves it out, and is no longer tied to the embedding.

llm-compressor pull requests 2798 and 2835: quantizing one of two tied tensors leaves a second one in the checkpoint.
"""

from __future__ import annotations

import numpy as np

from pipeline.inspection.decode import float8
from pipeline.selftest.copies import Copy, Weight, Weights

CAUGHT_BY = "inspect tied-embedding"


def edit(copy: Copy) -> None:
    """Add an FP8 copy of the embedding as output head."""
    copy.edit_weights(_add)


def _add(weights: Weights) -> None:
    values = weights["model.embed_tokens.weight"].values
    scale = np.abs(values).max(axis=1, keepdims=True) / 448
    numbers = float8("F8_E4M3")[:127]  # the positive ones, in order
    codes = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, np.abs(values) / scale).astype(np.uint8)
    weights["lm_head.weight"] = Weight("F8_E4M3", codes | (np.signbit(values).astype(np.uint8) << 7))
    weights["lm_head.weight_scale"] = Weight("BF16", np.zeros(scale.shape, "<u2"))
    weights["lm_head.weight_scale"].values = scale
