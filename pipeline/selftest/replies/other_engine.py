"""The candidate was served by another version of the engine.

An upgrade between the replay of the baseline, which is kept, and that of the candidate.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "CONDITIONS_DIFFER candidate version"


def inject(case: Case) -> Case:
    """Name another version."""
    engine = {part: {**facts, "version": "2"} for part, facts in case.engine.items()}
    return replace(case, engine=engine)
