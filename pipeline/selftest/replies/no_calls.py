"""Tool calls are announced in words and not made, on a tenth of the turns that need one.

What coarse weights do to a habit learnt late in training: the model falls back to chatting.
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Promise to look it up."""
    turns = case.chosen("no_calls", 0.10, lambda turn: bool(turn.expect.tool_calls))
    return case.spoil(turns, lambda turn, reply: answer(turn, "One moment, I will look that up for you."))
