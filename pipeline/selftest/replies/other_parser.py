"""The candidate's tool calls were read by another parser.

Both parsers read most calls; the few that one of them cannot read are counted against the weights.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "CONDITIONS_DIFFER candidate flags"


def inject(case: Case) -> Case:
    """Name another parser among the flags."""
    identity = {**case.engine["identity"], "flags": ["--tool-call-parser", "llama3_json"]}
    return replace(case, engine={**case.engine, "identity": identity})
