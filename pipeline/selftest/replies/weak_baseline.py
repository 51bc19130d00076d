"""The baseline itself answers two turns in five wrongly, and so does the candidate.

A broken template or tool parser on both sides: no loss can be seen where nothing works.
"""

from __future__ import annotations

import random
from dataclasses import replace

from pipeline.selftest.case import SEED, Case, edited, wrong_reply

CAUGHT_BY = "BASELINE_BELOW_FLOOR"


def inject(case: Case) -> Case:
    """Answer the same turns wrongly on every side."""
    turns = random.Random(SEED).sample(case.golden.turns, round(0.4 * len(case.golden.turns)))
    wrong = {turn.id: edited(case.baseline[turn.id], wrong_reply(turn)) for turn in turns}
    sides = (case.baseline, case.repeat, case.candidate)
    baseline, repeat, candidate = ({**side, **wrong} for side in sides)
    return replace(case, baseline=baseline, repeat=repeat, candidate=candidate)
