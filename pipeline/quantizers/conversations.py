"""What a line of calibration text must look like: chat messages that a template can render, and OpenAI function tools.

Looser than the schema of golden transcripts, as logs hold more than is rendered: unknown keys are left alone. What a
template would stumble over, or silently leave out, is a fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool")

Faults = Iterator[tuple[str, str]]
"""Field and message of each."""


def faults(data: Mapping[str, Any]) -> Faults:
    """What is wrong with one conversation."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages", "a list of chat messages is needed"
        return
    for index, message in enumerate(messages):
        yield from _message(f"messages[{index}]", message)
    if not any(isinstance(message, dict) and message.get("role") == "user" for message in messages):
        yield "messages", "no message of a user: nobody asks anything"
    if not isinstance(data.get("policy"), str | None):
        yield "policy", "the name of a policy file is needed"
    yield from _tools(data.get("tools"))


def _message(where: str, message: Any) -> Faults:
    if not isinstance(message, dict):
        yield where, "a chat message is a JSON object"
        return
    if "expect" in message:
        yield f"{where}.expect", "a golden transcript cannot be calibration text"
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in ROLES:
        yield f"{where}.role", f"one of {', '.join(ROLES)} is needed"
    if calls is not None:
        yield from _calls(f"{where}.tool_calls", calls)
    if not isinstance(content, str) and not (content is None and role == "assistant" and calls):
        yield f"{where}.content", "text is needed; only an assistant that calls tools may have none"


def _calls(where: str, calls: Any) -> Faults:
    if not isinstance(calls, list):
        yield where, "a list of tool calls is needed"
        return
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            yield f"{where}[{index}]", 'an OpenAI tool call is needed: {"function": {"name": ..., "arguments": ...}}'
        elif not _is_object(function.get("arguments")):
            yield f"{where}[{index}].function.arguments", "a JSON object is needed, or its text"


def _is_object(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments else {}  # as the engine reads no text
        except (ValueError, RecursionError):
            return False
    return isinstance(arguments, dict)


def _tools(tools: Any) -> Faults:
    if not isinstance(tools, list):
        if not isinstance(tools, str | None):
            yield "tools", "a list of OpenAI function tools is needed, or the name of a tool file"
        return
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            yield f"tools[{index}]", 'an OpenAI function tool is needed: {"type": "function", "function": {...}}'
