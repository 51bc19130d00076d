"""A golden set of 60 turns, all of them answered alike by both sides.

No loss was seen, and none of 3 % can be ruled out: 60 turns without a flip leave room for 4.3 %.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_UNDECIDED policy_adherence"
TURNS = 60


def inject(case: Case) -> Case:
    """Keep the first settled turns."""
    turns = tuple([turn for turn in case.golden.turns if turn.id in case.settled][:TURNS])
    kept = {turn.id: case.baseline[turn.id] for turn in turns}
    return replace(case, golden=replace(case.golden, turns=turns), baseline=kept, repeat=kept, candidate=kept)
