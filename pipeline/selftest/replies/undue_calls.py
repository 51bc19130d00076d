"""On a tenth of the turns that call for words, a tool is called as well.

A model that has learnt to call tools and lost when not to: the commonest complaint about small quantized agents.
"""

from __future__ import annotations

import json
from dataclasses import replace

from evaluators.turn import Reply, ToolCall, Turn
from pipeline.selftest.case import Case

CAUGHT_BY = "METRIC_LOSS tool_call_correct"


def inject(case: Case) -> Case:
    """Add a call of the first tool, every text argument being what the customer said."""
    return case.spoil(case.chosen("undue_calls", 0.10, _words_only), _call_too)


def _words_only(turn: Turn) -> bool:
    return bool(turn.tools) and not turn.gold.get("tool_calls")


def _call_too(turn: Turn, reply: Reply) -> Reply:
    function = turn.tools[0]["function"]
    arguments = dict.fromkeys(function["parameters"]["required"], str(turn.messages[-1]["content"])[:40])
    return replace(reply, tool_calls=(ToolCall(function["name"], json.dumps(arguments)),), finish_reason="tool_calls")
