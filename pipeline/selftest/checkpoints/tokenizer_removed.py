"""The tokenizer was not saved with the candidate.

save_pretrained of the model alone: the commonest omission of all.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect tokenizer-missing"


def edit(copy: Copy) -> None:
    """Remove the tokenizer."""
    copy.remove("tokenizer.json")
