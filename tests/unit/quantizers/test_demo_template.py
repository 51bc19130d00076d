"""The demo model's chat template, rendered by plain jinja2 with the filters that transformers sets up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2.sandbox
import pytest

TEMPLATE = Path(__file__).parents[3] / "examples" / "demo_model" / "chat_template.jinja"
TOOL = {
    "type": "function",
    "function": {
        "name": "refund",
        "description": "Pay back",
        "parameters": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "description": "like OM-1"},
                "amount": {"type": "number"},
                "reason": {"type": "string", "enum": ["late", "défaut"]},
                "items": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
                },
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                "note": {"type": ["string", "null"]},
                "odd": {"anyOf": [{"type": "string"}]},
            },
            "required": ["order_id", "amount"],
        },
    },
}
CALL = {"id": "1", "type": "function", "function": {"name": "refund", "arguments": {"order_id": "OM-1", "amount": 2}}}
RENDERED_CALL = '<tool_call>\n{"name": "refund", "arguments": {"order_id": "OM-1", "amount": 2}}\n</tool_call>'


def render(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, add_generation_prompt: bool = False
) -> str:
    """As transformers' ``apply_chat_template`` renders (``utils/chat_template_utils.py``)."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)


USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be kind."}


def test_plain_conversation() -> None:
    text = render([SYSTEM, USER, {"role": "assistant", "content": "Hello."}, USER], add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_no_system_and_no_tools_adds_nothing() -> None:
    assert render([USER]) == "<|im_start|>user\nHi<|im_end|>\n"


def test_tools_are_one_signature_a_line() -> None:
    text = render([SYSTEM, USER], [TOOL, {"type": "function", "function": {"name": "noop"}}])
    tools = text[text.index("<tools>\n") + 8 : text.index("\n</tools>")]
    assert tools.splitlines() == [
        "refund(order_id: string (like OM-1), amount: number, reason?: late|défaut, items?: {sku: string}[], "
        'tags?: (a|b)[], note?: string|null, odd?: {"anyOf": [{"type": "string"}]}): Pay back',
        "noop()",
    ]
    assert text.startswith("<|im_start|>system\nBe kind.\n\n<tools>")
    assert render([USER], [TOOL]).startswith("<|im_start|>system\n<tools>")
    assert text.count("<|im_start|>system") == 1


@pytest.mark.parametrize("content", [None, ""])
def test_call_without_text(content: str | None) -> None:
    text = render([USER, {"role": "assistant", "content": content, "tool_calls": [CALL]}])
    assert text.endswith(f"<|im_start|>assistant\n{RENDERED_CALL}<|im_end|>\n")


def test_call_without_content_key() -> None:
    assert render([USER, {"role": "assistant", "tool_calls": [CALL]}]).endswith(
        f"assistant\n{RENDERED_CALL}<|im_end|>\n"
    )


def test_text_and_parallel_calls() -> None:
    text = render([USER, {"role": "assistant", "content": "One moment.", "tool_calls": [CALL, CALL]}])
    assert text.endswith(f"<|im_start|>assistant\nOne moment.\n{RENDERED_CALL}\n{RENDERED_CALL}<|im_end|>\n")


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ('{"order_id": "OM-1", "amount": 2}', '{"order_id": "OM-1", "amount": 2}'),
        ({"city": "Łódź <&>'"}, '{"city": "Łódź <&>\'"}'),
        ({}, "{}"),
        (None, "{}"),
        ("", "{}"),
    ],
)
def test_arguments_as_text_and_as_object(arguments: object, written: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    text = render([USER, {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert f'<tool_call>\n{{"name": "f", "arguments": {written}}}\n</tool_call>' in text


def test_tool_results_in_a_row_share_a_turn() -> None:
    results = [{"role": "tool", "tool_call_id": str(n), "content": f"r{n}"} for n in (1, 2)]
    text = render([USER, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}, *results, USER])
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
    )


def test_content_in_parts() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}
    assert render([parts]) == "<|im_start|>user\na b<|im_end|>\n"


def test_later_system_messages_stay_where_they_are() -> None:
    assert render([SYSTEM, USER, {"role": "developer", "content": "Now."}]).endswith(
        "<|im_start|>system\nNow.<|im_end|>\n"
    )


def test_history_reads_as_it_was_generated() -> None:
    """A reply in the history must follow the very tokens after which it was generated."""
    before = render([USER], [TOOL], add_generation_prompt=True)
    after = render([USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}], [TOOL])
    assert after.startswith(before)
