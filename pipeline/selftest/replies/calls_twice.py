"""A tenth of the tool calls are made twice.

A loop at the level of calls: the same JSON is generated again instead of the end of the turn.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Repeat the calls of the reply."""
    turns = case.chosen("calls_twice", 0.10, lambda turn: bool(turn.expect.tool_calls))
    return case.spoil(turns, lambda turn, reply: replace(reply, tool_calls=reply.tool_calls * 2))
