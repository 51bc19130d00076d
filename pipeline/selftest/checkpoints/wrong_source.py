"""The candidate was quantized from the base model instead of the tuned one.

Two directories side by side, and the wrong one in a script. What tuning changed is smaller than what 8-bit rounding
may change, so no comparison of weights can be sure; only the behaviour is gone.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "METRIC_LOSS tool_call_correct"
SOURCE = "demo-raw"


def edit(copy: Copy) -> None:
    """Nothing more: the copy is one of the candidate of :data:`SOURCE`."""
