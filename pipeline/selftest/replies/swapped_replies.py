"""8 % of the replies belong to another conversation.

A race in a client or a proxy, or a prefix cache keyed too shortly: right answers to the wrong customers.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case, anywhere, edited

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Pass each reply on to the next of the chosen turns."""
    turns = case.chosen("swapped_replies", 0.08, anywhere)
    givers = [*turns[1:], turns[0]]
    swapped = {
        turn.id: edited(case.candidate[turn.id], replace(case.candidate[giver.id].reply, turn_id=turn.id))
        for turn, giver in zip(turns, givers, strict=True)
    }
    return replace(case, candidate={**case.candidate, **swapped})
