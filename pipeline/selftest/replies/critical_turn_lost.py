"""One critical turn of all is lost.

A single answer that must never be wrong: no average and no slice can see it.
"""

from __future__ import annotations

from pipeline.selftest.case import Case, anywhere, wrong_reply

CAUGHT_BY = "CRITICAL_TURN"


def inject(case: Case) -> Case:
    """Answer one critical turn wrongly."""
    turns = case.chosen("critical_turn_lost", 0.0, anywhere, critical=True)
    return case.spoil(turns, lambda turn, reply: wrong_reply(turn))
