"""The candidate's config asks for an FP8 KV cache that the recipe does not declare.

The engine obeys the checkpoint: one side keeps its context in 8 bits, the other in 16, and the weights get the blame.
"""

from __future__ import annotations

from typing import Any

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect recipe-kv-cache"


def edit(copy: Copy) -> None:
    """Declare an FP8 scheme for the KV cache, without scales."""
    copy.edit_json("config.json", _declare)


def _declare(config: dict[str, Any]) -> None:
    config["quantization_config"]["kv_cache_scheme"] = {
        "dynamic": False,
        "num_bits": 8,
        "strategy": "tensor",
        "symmetric": True,
        "type": "float",
    }
