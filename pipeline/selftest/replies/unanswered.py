"""1 % of the requests end in an error of the server, on the longest prompts.

The candidate's engine was started with a shorter context, or its kernel fails at some shapes.
"""

from __future__ import annotations

from dataclasses import replace

from evaluators.turn import Reply
from pipeline.selftest.case import Case, edited

CAUGHT_BY = "UNSCORABLE candidate"


def inject(case: Case) -> Case:
    """Record the server's refusal instead of a reply."""
    turns = sorted(case.golden.turns, key=lambda turn: -len(turn.messages))[: len(case.golden.turns) // 100]
    errors = {
        turn.id: edited(case.candidate[turn.id], Reply(turn.id, error="HTTP 400: maximum context length is 2048"))
        for turn in turns
    }
    return replace(case, candidate={**case.candidate, **errors})
