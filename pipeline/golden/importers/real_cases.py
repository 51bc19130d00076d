"""Cases in a form close to ours, one turn each, whose golden reply is described, not written.

Fields: ``id, source, licence, slice, messages, tools, expect, meta``. ``expect`` differs from ours in
names (``optional_arguments, any_value_arguments, unordered_arguments, must_include,
must_not_include``), and has ``partial``: the expected call is only one of many good ones, what is
forbidden is what counts. Such a turn gets an alternative for every call that is not forbidden; when
nothing is forbidden it would check nothing, and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.golden.importers.common import (
    BFCL_IGNORED,
    Draft,
    Dropped,
    Loosely,
    Options,
    any_sound_call,
    expected_call,
    golden_calls,
    identifier,
    rows,
    said,
    slice_name,
)

_SOMETHING = "re:\\S"


def read_real_cases(path: Path, options: Options) -> Iterator[Draft | Dropped]:
    """Convert a file of such cases."""
    for row in rows(path):
        if isinstance(row, Dropped):
            yield row
            continue
        try:
            yield Draft(row.file, row.line, _transcript(row.data, options))
        except _Unusable as reason:
            yield Dropped(row.file, row.line, row.id, str(reason))
        except (KeyError, TypeError, AttributeError) as error:
            yield Dropped(row.file, row.line, row.id, f"not in the expected form: {type(error).__name__}: {error}")


class _Unusable(Exception):
    """The case cannot be a golden turn; says why."""


def _transcript(case: Mapping[str, Any], options: Options) -> dict[str, Any]:
    messages = [_message(message) for message in case["messages"]]
    tools = case.get("tools") or []
    expect = _expect(case, messages)
    gold: dict[str, Any] = {"role": "assistant", "content": None, "expect": expect}
    calls = golden_calls(expect.get("tool_calls", ()))
    if calls:
        gold["tool_calls"] = calls
    data = {
        "id": identifier(case["id"]),
        "scenario": identifier(_scenario(case)),
        "slices": list(dict.fromkeys([slice_name(case["slice"]), *options.slices])),
        "source": options.source or case["source"],
        "licence": options.licence or case["licence"],
        "tools": tools,
        "messages": [*messages, gold],
        "meta": case.get("meta", {}),
    }
    return {key: value for key, value in data.items() if value not in ([], {})}


def _scenario(case: Mapping[str, Any]) -> str:
    """Turns cut from one conversation, and attacks on one task, are one situation."""
    meta = case.get("meta", {})
    parts = [meta.get("repo") or meta.get("package"), meta.get("path"), meta.get("suite"), meta.get("user_task")]
    parts += [re.sub(r" trial \d+$", "", str(meta.get("record", "")))]
    known = [str(part) for part in parts if part]
    return "/".join(known) if meta.get("record") is not None or meta.get("user_task") else str(case["id"])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    known = ("role", "content", "tool_calls", "tool_call_id", "name")
    return {k: v for k, v in message.items() if k in known and not (k == "tool_calls" and not v)}


def _expect(case: Mapping[str, Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
    raw, tools = case["expect"], case.get("tools") or []
    loose = _comparison(case, messages)
    calls = [_call(call, loose) for call in raw["tool_calls"]]
    alternatives = [
        {"behaviour": "tool_call", "tool_calls": [_call(call, loose) for call in other]}
        if isinstance(other, list)
        else other
        for other in raw.get("alternatives", ())
    ]
    forbidden_calls = [
        {key: value for key, value in _call(call, None).items() if key in ("name", "arguments", "acceptable")}
        for call in raw.get("forbidden_calls", ())
    ]
    forbids = raw["forbidden_tools"] or forbidden_calls or raw["must_not_include"]
    if raw.get("partial"):
        if not forbids:
            raise _Unusable("the source calls its expected call only indicative and forbids nothing: checks nothing")
        named = {call["name"] for call in calls}
        other_calls = any_sound_call(tools, raw["forbidden_tools"])
        alternatives = [*alternatives, *other_calls, {"behaviour": "answer", "say": [[_SOMETHING]]}]
        alternatives = [a for a in alternatives if not _is_same(a, calls)] if named else alternatives
    forbidden = list(dict.fromkeys(raw["forbidden_tools"]))
    if raw["behaviour"] == "answer" and tools and not (raw["must_include"] or forbids):
        forbidden = [tool["function"]["name"] for tool in tools]  # the source's point: no call is right here
    expect = {
        "behaviour": raw["behaviour"],
        "tool_calls": calls,
        "order": raw.get("order") if len(calls) > 1 else None,
        "alternatives": alternatives,
        "forbidden_tools": forbidden,
        "forbidden_calls": forbidden_calls,
        "say": [[text] for text in raw["must_include"]],
        "never_say": list(dict.fromkeys(raw["must_not_include"])),
    }
    return {key: value for key, value in expect.items() if value}


def _is_same(alternative: Mapping[str, Any], calls: list[dict[str, Any]]) -> bool:
    return alternative.get("tool_calls") == calls and "say" not in alternative


def _comparison(case: Mapping[str, Any], messages: list[dict[str, Any]]) -> Loosely | None:
    """How the source compares strings, as its cases tell in ``meta.string_match``."""
    rule = str(case.get("meta", {}).get("string_match", ""))
    if not rule:
        return None
    ignored = "" if rule.startswith("case-insensitive") else BFCL_IGNORED
    return Loosely(ignored, said(messages), case.get("tools") or [])


def _call(raw: Mapping[str, Any], loose: Loosely | None) -> dict[str, Any]:
    free = list(raw.get("any_value_arguments", ()))
    acceptable = {n: list(v) for n, v in (raw.get("acceptable") or {}).items() if n not in free}
    for name, value in raw.get("arguments", {}).items():
        if name not in free and not acceptable.get(name):
            acceptable[name] = [value]
    optional = list(raw.get("optional_arguments", ()))
    if loose is not None:
        for name in optional:  # its only answer is to leave it out, or the empty text
            if name not in acceptable and loose.allows(raw["name"], name, ""):
                acceptable[name] = [""]
        acceptable = {name: loose.values(raw["name"], name, values) for name, values in acceptable.items()}
    return expected_call(
        raw["name"],
        acceptable,
        optional=[name for name in optional if name in acceptable],
        free=free,
        unordered=[name for name in raw.get("unordered_arguments", ()) if name in acceptable],
    )
