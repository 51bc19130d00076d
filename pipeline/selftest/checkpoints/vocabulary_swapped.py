"""Two tokens of the vocabulary have changed numbers.

A tokenizer rebuilt from a file of another order: almost every text still reads right.
"""

from __future__ import annotations

from typing import Any

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect tokenizer-vocabulary"


def edit(copy: Copy) -> None:
    """Swap the last two entries that are whole words."""
    copy.edit_json("tokenizer.json", _swap)


def _swap(tokenizer: dict[str, Any]) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    first, second = sorted(vocabulary, key=vocabulary.__getitem__)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
