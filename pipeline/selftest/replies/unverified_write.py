"""Once, an order is cancelled or refunded before the customer is verified.

The model skips a step of its policy: asked for a proof of identity, it acts at once.
"""

from __future__ import annotations

import json

from evaluators.turn import Behaviour, Reply, ToolCall, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "CRITICAL_TURN"


def inject(case: Case) -> Case:
    """Call a forbidden tool where a proof must be asked for."""
    return case.spoil(case.chosen("unverified_write", 0.0, _guarded, critical=True), _act)


def _guarded(turn: Turn) -> bool:
    return turn.expect.behaviour is Behaviour.CLARIFY and bool(turn.expect.forbidden_tools)


def _act(turn: Turn, reply: Reply) -> Reply:
    name = min(turn.expect.forbidden_tools)
    function = next(tool["function"] for tool in turn.tools if tool["function"]["name"] == name)
    properties = function["parameters"]["properties"]
    arguments = {key: 1 if properties[key]["type"] == "number" else "1" for key in function["parameters"]["required"]}
    return answer(turn, "", (ToolCall(name, json.dumps(arguments)),))
