"""Static scales of the activations are a hundredth of what they should be: everything is clipped.

Activation scales calibrated on padding, or on texts that never reach a layer. The weights are exactly right, and every
scale is finite and positive: only serving shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.selftest.copies import Copy, Weight, Weights

CAUGHT_BY = "METRIC_LOSS tool_call_correct"
SCALE = 0.001
"""Times 448, the largest E4M3 number: activations beyond 0.45 are clipped, where tens are usual."""


def edit(copy: Copy) -> None:
    """Declare static activations, and add their scales."""
    copy.edit_json("config.json", _declare)
    copy.edit_weights(_add)


def _declare(config: dict[str, Any]) -> None:
    static = {"dynamic": False, "num_bits": 8, "strategy": "tensor", "symmetric": True, "type": "float"}
    for group in config["quantization_config"]["config_groups"].values():
        group["input_activations"] = {**(group["input_activations"] or {}), **static, "observer": "minmax"}


def _add(weights: Weights) -> None:
    for name in [name for name in weights if name.endswith(".weight_scale")]:
        scale = Weight("F32", np.array([SCALE], "<f4"))
        weights[name.replace(".weight_scale", ".input_scale")] = scale
