"""The candidate is 8 points better than its baseline.

Rounding teaches nothing: golden turns were in the calibration text, or something other than the weights changed.
"""

from __future__ import annotations

import random
from dataclasses import replace

from pipeline.selftest.case import SEED, Case, edited, golden_reply

CAUGHT_BY = "ANOMALOUS_GAIN"
GAIN = 0.08


def inject(case: Case) -> Case:
    """Answer turns rightly that the baseline answers wrongly."""
    unsettled = [turn for turn in case.golden.turns if turn.id not in case.settled]
    turns = random.Random(SEED).sample(unsettled, round(GAIN * len(case.golden.turns)))
    right = {turn.id: edited(case.candidate[turn.id], golden_reply(turn)) for turn in turns}
    return replace(case, candidate={**case.candidate, **right})
