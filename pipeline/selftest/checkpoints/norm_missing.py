"""A norm's weight was not saved.

Engines fill what is missing with ones or with what lies in memory, and some say nothing.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect tensor-missing"


def edit(copy: Copy) -> None:
    """Drop one norm."""
    copy.edit_weights(_drop)


def _drop(weights: Weights) -> None:
    del weights["model.layers.1.post_attention_layernorm.weight"]
