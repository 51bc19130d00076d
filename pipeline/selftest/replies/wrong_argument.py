"""3 % of the tool calls name another order, line or booking: one digit is changed.

The commonest damage of coarse weights: the call is sound JSON of the right tool, and acts on a stranger's order.
"""

from __future__ import annotations

import re
from dataclasses import replace

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_UNDECIDED tool_call_correct"


def inject(case: Case) -> Case:
    """Change the last digit of the first call's arguments."""
    return case.spoil(case.chosen("wrong_argument", 0.03, _has_number), _change)


def _has_number(turn: Turn) -> bool:
    calls = list(turn.gold.get("tool_calls") or ())
    return bool(calls) and re.search(r"\d", calls[0]["function"]["arguments"]) is not None


def _change(turn: Turn, reply: Reply) -> Reply:
    first, *others = reply.tool_calls
    changed = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), first.arguments)
    return replace(reply, tool_calls=(replace(first, arguments=changed), *others))
