"""Checks of the golden conversation itself: could it have happened, and can it be sent?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipeline.golden.complaints import Complaint
from pipeline.golden.reading import Record, strict_json
from pipeline.golden.schemas import Toolbox


def check_history(record: Record, tools: Toolbox) -> Iterator[Complaint]:
    """Complain about messages that cannot be sent or do not fit together."""
    messages = record.data["messages"]
    if not any("expect" in message for message in messages):
        yield record.complain("messages", "no assistant message carries 'expect': nothing would be scored")
    open_calls: dict[str, str] = {}
    for index, message in enumerate(messages):
        field, role = f"messages[{index}]", message["role"]
        if role == "system":
            yield from _system(record, index, field)
        if role == "tool":
            yield from _result(record, field, message, open_calls)
        elif open_calls:
            yield record.complain(field, f"tool call {', '.join(open_calls)} has no result before this message")
            open_calls = {}
        if role == "assistant":
            yield from _assistant(record, index, field)
            for position, call in enumerate(message.get("tool_calls", ())):
                place = f"{field}.tool_calls[{position}]"
                if call["id"] in open_calls:
                    yield record.complain(f"{place}.id", f"call id {call['id']!r} is used twice in one message")
                open_calls[call["id"]] = call["function"]["name"]
                yield from _call(record, place, call["function"], tools)


def _system(record: Record, index: int, field: str) -> Iterator[Complaint]:
    if index:
        yield record.complain(field, "a system message may only come first")
    elif "policy" in record.data:
        yield record.complain(field, "the policy's text is the system message; leave this one out, or 'policy'")


def _result(record: Record, field: str, message: dict[str, Any], open_calls: dict[str, str]) -> Iterator[Complaint]:
    called = open_calls.pop(message["tool_call_id"], None)
    if called is None:
        yield record.complain(
            f"{field}.tool_call_id",
            f"{message['tool_call_id']!r} answers no open call of the assistant message before it",
        )
    elif message.get("name", called) != called:
        yield record.complain(f"{field}.name", f"is {message['name']!r}, but the call was to {called!r}")


def _assistant(record: Record, index: int, field: str) -> Iterator[Complaint]:
    messages = record.data["messages"]
    message = messages[index]
    scored = "expect" in message
    if not message.get("content") and not message.get("tool_calls"):
        if not scored:
            yield record.complain(field, "has neither content nor tool_calls")
        elif index != len(messages) - 1:
            yield record.complain(field, "a turn without a golden reply must be the last message")
    if scored and (index == 0 or messages[index - 1]["role"] not in ("user", "tool")):
        yield record.complain(field, "a turn with 'expect' must follow a user message or a tool result")


def _call(record: Record, place: str, function: dict[str, Any], tools: Toolbox) -> Iterator[Complaint]:
    name = function["name"]
    if name not in tools:
        yield record.complain(f"{place}.function.name", unknown_tool(name, tools))
        return
    field = f"{place}.function.arguments"
    try:
        arguments = strict_json(function["arguments"])
    except json.JSONDecodeError as error:
        yield record.complain(field, f"not JSON: column {error.colno}: {error.msg}")
        return
    except (ValueError, RecursionError) as error:
        yield record.complain(field, f"not JSON: {error}")
        return
    if not isinstance(arguments, dict):
        yield record.complain(field, "arguments must be the text of a JSON object")
        return
    for fault in tools.faults(name, arguments):
        yield record.complain(field, f"golden call breaks the schema of {name}: {fault}")


def unknown_tool(name: str, tools: Toolbox) -> str:
    """The message for a tool name that is not offered."""
    return f"unknown tool {name!r}; offered: {', '.join(tools.names) or 'none'}"
