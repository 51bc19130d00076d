"""Served again, the baseline answers one turn in ten differently.

Batched engines are not repeatable (vLLM issues 5898 and 23138); at this rate no comparison means anything.
"""

from __future__ import annotations

import random
from dataclasses import replace

from pipeline.selftest.case import SEED, Case, edited, wrong_reply

CAUGHT_BY = "NOISE"


def inject(case: Case) -> Case:
    """Answer turns of the repeat wrongly."""
    turns = random.Random(SEED).sample(case.golden.turns, round(0.1 * len(case.golden.turns)))
    wrong = {turn.id: edited(case.repeat[turn.id], wrong_reply(turn)) for turn in turns}
    return replace(case, repeat={**case.repeat, **wrong})
