"""A quarter of the turns that ask for something first say that it is done.

The step between question and deed is skipped in words: the customer is told of a refund that nobody made.
"""

from __future__ import annotations

from evaluators.turn import Behaviour
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "SLICE_LOSS clarify policy_adherence"


def inject(case: Case) -> Case:
    """Claim success."""
    turns = case.chosen("claims_before_deeds", 0.25, lambda turn: turn.expect.behaviour is Behaviour.CLARIFY)
    return case.spoil(turns, lambda turn, reply: answer(turn, "Done! Your refund has been issued."))
