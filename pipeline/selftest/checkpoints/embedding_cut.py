"""The embedding has lost its last 64 rows: the added tokens.

A resize to the tokenizer's vocabulary, or padding for tensor parallelism undone once too often.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy, Weights

CAUGHT_BY = "inspect tensor-shape"


def edit(copy: Copy) -> None:
    """Cut the embedding."""
    copy.edit_weights(_cut)


def _cut(weights: Weights) -> None:
    embedding = weights["model.embed_tokens.weight"]
    embedding.raw = embedding.raw[:-64]
