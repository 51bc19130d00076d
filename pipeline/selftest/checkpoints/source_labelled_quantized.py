"""The source's weights under a config that says they are quantized.

llm-compressor issue 1533: a save that did not compress; or a script that copies the wrong directory.
"""

from __future__ import annotations

from pipeline.quantizers.checkpoint import WEIGHTS
from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect scheme-coverage"


def edit(copy: Copy) -> None:
    """Take the baseline's weight file."""
    copy.edit_bytes(WEIGHTS, lambda _: (copy.baseline / WEIGHTS).read_bytes())
