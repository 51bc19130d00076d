"""5 % of the due refusals become help: what must not be done or told is done and told.

Safety behaviour is a thin layer that rounding can wear through; XSTest and HarmBench runs on INT4 models show it.
"""

from __future__ import annotations

from evaluators.turn import Behaviour
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_UNDECIDED refuses_when_required"


def inject(case: Case) -> Case:
    """Comply in words."""
    turns = case.chosen("refusals_become_compliance", 0.05, lambda turn: turn.expect.behaviour is Behaviour.REFUSE)
    return case.spoil(turns, lambda turn, reply: answer(turn, "Of course. Here is what you asked for."))
