"""The same flags on both sides, and yet the candidate's KV cache is kept in 8 bits.

"auto" obeys the checkpoint: a kv_cache_scheme in its config changes more than the weights.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "CONDITIONS_DIFFER candidate kv_cache_dtype"


def inject(case: Case) -> Case:
    """Report another KV cache type in effect."""
    running = case.engine["running"]
    settings = {**running["settings"], "kv_cache_dtype": "fp8_e4m3"}
    return replace(case, engine={**case.engine, "running": {**running, "settings": settings}})
