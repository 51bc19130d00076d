"""The last megabyte of the weight file is missing.

A download or a copy that ran out of disk, and was not checked.
"""

from __future__ import annotations

from pipeline.quantizers.checkpoint import WEIGHTS
from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect weights-damaged"
CUT = 1 << 20


def edit(copy: Copy) -> None:
    """Cut the weight file."""
    copy.edit_bytes(WEIGHTS, lambda content: content[: -min(CUT, len(content) // 2)])
