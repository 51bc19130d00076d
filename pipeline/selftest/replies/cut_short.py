"""A fifth of the answers in words stop in the middle.

A stop string that also stands inside answers, or a limit that one side has and the other has not.
"""

from __future__ import annotations

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS policy_adherence"


def inject(case: Case) -> Case:
    """Keep the first few words."""
    return case.spoil(case.chosen("cut_short", 0.20, lambda turn: not turn.gold.get("tool_calls")), _cut)


def _cut(turn: Turn, reply: Reply) -> Reply:
    return answer(turn, " ".join(reply.content.split()[:4]))
