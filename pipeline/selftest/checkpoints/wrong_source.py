"""The candidate was quantized from the base model instead of the tuned one.

Two directories side by side, and the wrong one in a script. Every tensor is sound, and the loss would be blamed on the
quantizer. Tuning moved the weights by 13 % where rounding to FP8 moves them by 3 %.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect weight-deviates"
SOURCE = "demo-raw"


def edit(copy: Copy) -> None:
    """Nothing more: the copy is one of the candidate of :data:`SOURCE`."""
