"""OpenAI-style chat logs: what people record, one JSON object a line.

Three shapes are read: ``{"messages": [...], "tools": [...]}`` (fine-tuning files and most loggers),
``{"request": {...}, "response": {...}}`` (request and completion), and either of them with the older
``functions`` and ``function_call``.

A log tells what an assistant did, not what was right. So a turn is made only where the record itself
decides it: a tool call is expected as it was made, a message with ``refusal`` is expected to refuse,
and an ``expect`` that somebody wrote into the log is kept. Read the result before trusting it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pipeline.digests import canonical_json
from pipeline.golden.importers.common import Draft, Dropped, Options, expected_call, identifier, rows
from pipeline.golden.reading import strict_json


def read_openai(path: Path, options: Options) -> Iterator[Draft | Dropped]:
    """Convert a log. Of a conversation logged again and again as it grows, each turn is taken once."""
    seen: dict[bytes, str] = {}
    for row in rows(path):
        if isinstance(row, Dropped):
            yield row
            continue
        name = identifier(row.id or f"{path.stem}-{row.line}")
        try:
            yield Draft(row.file, row.line, _transcript(row.data, name, options, seen))
        except _Unusable as reason:
            yield Dropped(row.file, row.line, name, str(reason))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            yield Dropped(row.file, row.line, name, f"not an OpenAI chat record: {type(error).__name__}: {error}")


class _Unusable(Exception):
    """The conversation cannot be a golden transcript; says why."""


def _transcript(data: Mapping[str, Any], name: str, options: Options, seen: dict[bytes, str]) -> dict[str, Any]:
    request = data.get("request", data)
    if "messages" not in request:
        raise _Unusable("has no messages")
    raw = list(request["messages"])
    if "response" in data:
        raw.append(data["response"]["choices"][0]["message"])
    tools = _tools(request) or [dict(tool) for tool in options.tools]
    messages = _messages(raw)
    if options.system and messages and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": options.system})
    _add_expectations(messages)
    scenario = _drop_seen(messages, tools, name, seen)
    if not any("expect" in message for message in messages):
        raise _Unusable(
            "no reply that the record itself decides: only tool calls, refusals and written 'expect' can be turns"
        )
    while "expect" not in messages[-1]:
        messages.pop()
    metadata = data.get("metadata") or {}
    transcript: dict[str, Any] = {
        "id": name,
        "scenario": identifier(str(data.get("scenario") or metadata.get("scenario") or scenario)),
        "slices": list(dict.fromkeys([*data.get("slices", ()), *options.slices])),
        "source": options.source or str(data.get("source") or "OpenAI-style log"),
        "messages": messages,
    }
    licence = options.licence or data.get("licence")
    if licence:
        transcript["licence"] = licence
    if tools:
        transcript["tools"] = tools
    return transcript


def _tools(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = [tool["function"] for tool in request.get("tools") or () if tool.get("type") == "function"]
    listed += request.get("functions") or ()
    known = ("name", "description", "parameters", "strict")
    return [{"type": "function", "function": {k: f[k] for k in known if k in f}} for f in listed]


def _messages(raw: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, message in enumerate(raw):
        role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
        result: dict[str, Any] = {"role": role, "content": _text(message.get("content"))}
        if role == "tool":
            result["tool_call_id"] = message.get("tool_call_id") or f"call_{number - 1}"
            result["content"] = result["content"] or ""
        elif role == "assistant":
            calls = _calls(message, number)
            if calls:
                result["tool_calls"] = calls
            if message.get("refusal"):
                result["content"] = message["refusal"]
                result["expect"] = {"behaviour": "refuse"}
            if "expect" in message:
                result["expect"] = message["expect"]
        messages.append(result)
    return messages


def _text(content: Any) -> str | None:
    if not isinstance(content, list):
        return content or None
    kinds = {part.get("type") for part in content} - {"text", "input_text", "output_text"}
    if kinds:
        raise _Unusable(f"holds content that is not text: {', '.join(sorted(map(str, kinds)))}")
    return "\n".join(part["text"] for part in content) or None


def _calls(message: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    listed = list(message.get("tool_calls") or ())
    if message.get("function_call"):
        listed.append({"id": f"call_{number}", "type": "function", "function": message["function_call"]})
    calls = []
    for call in listed:
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else canonical_json(arguments)
        calls.append(
            {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": text or "{}"}}
        )
    return calls


def _add_expectations(messages: Sequence[dict[str, Any]]) -> None:
    for index, message in enumerate(messages):
        after = index > 0 and messages[index - 1]["role"] in ("user", "tool")
        if "expect" in message or not message.get("tool_calls") or not after:
            continue
        calls = []
        for call in message["tool_calls"]:
            try:
                arguments = strict_json(call["function"]["arguments"])
            except ValueError as error:
                raise _Unusable(f"messages[{index}]: a call's arguments are not JSON: {error}") from error
            calls.append(expected_call(call["function"]["name"], {n: [v] for n, v in arguments.items()}))
        message["expect"] = {"behaviour": "tool_call", "tool_calls": calls}


def _drop_seen(
    messages: Sequence[dict[str, Any]], tools: Sequence[Mapping[str, Any]], name: str, seen: dict[bytes, str]
) -> str:
    """Take away turns that an earlier line has; the name of that conversation is the scenario."""
    scenario, repeated = name, False
    for index, message in enumerate(messages):
        if "expect" not in message:
            continue
        history = [{k: v for k, v in m.items() if k != "expect"} for m in messages[:index]]
        key = blake2b(canonical_json([history, tools]).encode(), digest_size=16).digest()
        owner = seen.setdefault(key, name)
        if owner != name:
            scenario, repeated = seen[key], True
            del message["expect"]
    if repeated and not any("expect" in message for message in messages):
        raise _Unusable(f"all its turns stand in {scenario} already")
    return scenario
