"""3 % of the tool calls lose the closing brace of their arguments.

A parser that drops the last token, or a model that no longer writes it: vLLM issues 22885 and 32152.
"""

from __future__ import annotations

from dataclasses import replace

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_UNDECIDED tool_call_correct"


def inject(case: Case) -> Case:
    """Cut the last character of the arguments."""
    return case.spoil(case.chosen("broken_json", 0.03, lambda turn: bool(turn.expect.tool_calls)), _cut)


def _cut(turn: Turn, reply: Reply) -> Reply:
    calls = tuple(replace(call, arguments=call.arguments[:-1]) for call in reply.tool_calls)
    return replace(reply, tool_calls=calls)
