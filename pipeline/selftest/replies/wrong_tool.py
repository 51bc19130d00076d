"""A tenth of the tool calls go to another tool on offer, with the same arguments.

Tool names that share their first tokens are the first to be confused by coarse weights.
"""

from __future__ import annotations

from dataclasses import replace

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Call the next tool of the list instead."""
    return case.spoil(case.chosen("wrong_tool", 0.10, lambda turn: bool(turn.expect.tool_calls)), _next_tool)


def _next_tool(turn: Turn, reply: Reply) -> Reply:
    names = [tool["function"]["name"] for tool in turn.tools]
    first, *others = reply.tool_calls
    other = names[(names.index(first.name) + 1) % len(names)]
    return replace(reply, tool_calls=(replace(first, name=other), *others))
