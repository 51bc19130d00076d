"""2 % of the candidate's replies were never written down.

A client that drops what it cannot parse makes the rest look better: the easiest way to a good average.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case, anywhere

CAUGHT_BY = "UNSCORABLE candidate"


def inject(case: Case) -> Case:
    """Leave records out."""
    gone = {turn.id for turn in case.chosen("dropped_replies", 0.02, anywhere)}
    return replace(case, candidate={name: record for name, record in case.candidate.items() if name not in gone})
