"""A small golden set on disk that tests bend out of shape."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

POLICY = """---
id: shop
rules:
  - {id: limit, type: argument_limit, tool: refund, argument: amount, maximum: 200}
  - {id: no_promise, type: never_say, patterns: ["we guarantee"]}
---
You are the assistant of a shop. Refund up to 200.00 EUR.
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_order",
            "parameters": {
                "type": "object",
                "properties": {"order_id": {"type": "string"}, "verbose": {"type": "boolean"}},
                "required": ["order_id"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "refund",
            "parameters": {
                "type": "object",
                "properties": {
                    "order_id": {"type": "string"},
                    "amount": {"type": "number", "exclusiveMinimum": 0},
                    "reason": {"type": "string", "enum": ["lost", "broken"]},
                    "items": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["order_id", "amount"],
                "additionalProperties": False,
            },
        },
    },
]

TRANSCRIPT: dict[str, Any] = {
    "id": "broken-vase",
    "scenario": "broken-vase",
    "slices": ["refunds"],
    "policy": "shop",
    "tools": "shop",
    "messages": [
        {"role": "user", "content": "hello, the vase of order A-1 arrived broken, can I have my money back"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_order", "arguments": '{"order_id": "A-1"}'},
                }
            ],
            "expect": {
                "behaviour": "tool_call",
                "tool_calls": [{"name": "get_order", "arguments": {"order_id": "A-1"}}],
                "forbidden_tools": ["refund"],
            },
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"order_id": "A-1", "total": "20.00"}'},
        {
            "role": "assistant",
            "content": "Shall I pay back 20.00 EUR?",
            "expect": {"behaviour": "answer", "say": [["20.00", "20,00"]], "critical": True, "slices": ["amounts"]},
        },
    ],
}


class SetWriter:
    """Writes golden sets below a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("transcripts", "policies", "tools"):
            (root / folder).mkdir(parents=True)
        (root / "policies" / "shop.md").write_text(POLICY, encoding="utf-8")
        self.write_tools(TOOLS)

    @property
    def file(self) -> Path:
        return self.root / "transcripts" / "shop.jsonl"

    def transcript(self, **changes: Any) -> dict[str, Any]:
        """A sound transcript, with some top-level keys replaced (None removes one)."""
        data = {**copy.deepcopy(TRANSCRIPT), **changes}
        return {key: value for key, value in data.items() if value is not None}

    def write(self, *transcripts: dict[str, Any]) -> Path:
        self.file.write_text("".join(json.dumps(data) + "\n" for data in transcripts), encoding="utf-8")
        return self.root

    def write_tools(self, tools: Any) -> None:
        (self.root / "tools" / "shop.json").write_text(json.dumps(tools), encoding="utf-8")

    def expecting(self, expect: dict[str, Any], **changes: Any) -> dict[str, Any]:
        """A transcript of one turn without a golden reply: only its expectation is up for judgement."""
        messages = [{"role": "user", "content": "refund order A-1"}, {"role": "assistant", "expect": expect}]
        return self.transcript(messages=messages, **changes)


@pytest.fixture
def shop(tmp_path: Path) -> SetWriter:
    return SetWriter(tmp_path / "shop")
