"""The candidate is as large as its baseline.

A save that writes the weights unpacked (llm-compressor issue 1533), or a source directory copied and renamed.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "NO_BENEFIT"


def inject(case: Case) -> Case:
    """Give both sides the same weight bytes."""
    return replace(case, weight_bytes=(case.weight_bytes[0], case.weight_bytes[0]))
