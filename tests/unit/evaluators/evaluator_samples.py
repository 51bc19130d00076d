"""Makers of small turns and replies for the tests of evaluators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import evaluators
from evaluators.turn import Behaviour, Expectation, ExpectedCall, Outcome, Policy, Reply, ToolCall, Turn

ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
REFUND = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number", "minimum": 0},
        "items": {"type": "array", "items": {"type": "string"}},
        "express": {"type": "boolean"},
        "note": {"type": "string"},
        "address": {"type": "object"},
    },
    "required": ["order_id"],
    "additionalProperties": False,
}


def tool(name: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "description": name}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


TOOLS = (tool("get_order", ORDER), tool("refund", REFUND), tool("list_orders", None))


def expected(name: str, /, **values: Any) -> ExpectedCall:
    """An expected call; a tuple gives several acceptable values."""
    return ExpectedCall(name, {key: v if isinstance(v, tuple) else (v,) for key, v in values.items()})


def expect(behaviour: str = "tool_call", *calls: ExpectedCall, **fields: Any) -> Expectation:
    return Expectation(Behaviour(behaviour), calls, **fields)


def turn(
    expectation: Expectation,
    *,
    tools: Sequence[Mapping[str, Any]] = TOOLS,
    messages: Iterable[Mapping[str, Any]] = ({"role": "user", "content": "Hello"},),
    policy: Policy | None = None,
) -> Turn:
    return Turn(
        "t#1", "t", "scenario", ("slice",), tuple(messages), tuple(tools), expectation, {"role": "assistant"}, policy
    )


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


def reply(content: str = "", *calls: ToolCall, finish_reason: str = "stop") -> Reply:
    return Reply("t#1", content, calls, finish_reason, 10)


def outcome(metric: str, a_turn: Turn, a_reply: Reply | None) -> Outcome:
    return next(o for o in evaluators.evaluate(a_turn, a_reply) if o.metric == metric)


def result(metric: str, a_turn: Turn, a_reply: Reply | None) -> tuple[str, str]:
    """Status and label of one metric."""
    found = outcome(metric, a_turn, a_reply)
    return found.status.value, found.label
