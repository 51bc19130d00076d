"""1 % of the replies repeat their last words until the limit cuts them off.

Greedy decoding falls into loops, and rounding makes the way out less likely (Holtzman et al. 2020).
"""

from __future__ import annotations

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer, anywhere

CAUGHT_BY = "METRIC_UNDECIDED free_of_degeneration"


def inject(case: Case) -> Case:
    """Repeat a phrase."""
    return case.spoil(case.chosen("loops", 0.01, anywhere), _loop)


def _loop(turn: Turn, reply: Reply) -> Reply:
    words = (reply.content or "I will look into it for you.").split()[-6:]
    return answer(turn, " ".join(words * 20), finish_reason="length")
