"""Turns and a policy for tests of the self-test."""

from __future__ import annotations

import json

from evaluators.turn import Behaviour, Expectation, ExpectedCall, Turn

TOOL = {
    "type": "function",
    "function": {
        "name": "get_order",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
}
LAYERS = 4
MODULES = [
    f"model.layers.{layer}.{name}"
    for layer in range(LAYERS)
    for name in (
        *(f"self_attn.{part}_proj" for part in "qkvo"),
        *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
    )
]
"""What the recipes quantize of the tiny candidate."""
METRICS = {
    "policy_adherence": {"gating": False, "margin": 0.1},
    "tool_call_correct": {"margin": 0.1, "floor": 0.5},
    "refuses_when_required": {"gating": False, "margin": 0.1},
    "complies_when_allowed": {"gating": False, "margin": 0.1},
    "free_of_degeneration": {"margin": 0.1},
    "tool_call_valid": {"gating": False, "margin": 0.1},
}


def make_turn(number: int, *, critical: bool = False) -> Turn:
    """A turn at which order ``A-<number>`` must be looked up; two turns to a scenario."""
    call = {"name": "get_order", "arguments": json.dumps({"order_id": f"A-{number}"})}
    return Turn(
        id=f"t{number:03}#1",
        transcript_id=f"t{number:03}",
        scenario=f"s{number // 2:03}",
        slices=("orders",),
        messages=({"role": "user", "content": f"where is order A-{number}"},),
        tools=(TOOL,),
        expect=Expectation(
            Behaviour.TOOL_CALL, (ExpectedCall("get_order", {"order_id": (f"A-{number}",)}),), critical=critical
        ),
        gold={"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
    )
