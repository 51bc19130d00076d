"""The Berkeley Function-Calling Leaderboard's own files (``BFCL_v*_<category>.json``).

A question file is given; its answers are in ``possible_answer/<same name>`` beside it. Taken are the
categories that are scored by comparing calls (simple, multiple, parallel, live) and irrelevance (no
call is right). The rest needs the benchmark's own simulated services or another language's literals.

BFCL's checker (``ast_checker.py``) fixes what its answers mean: a list of acceptable values per
parameter; ``""`` in it: the parameter may be left out; in objects each key has such a list again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.golden.importers.common import (
    BFCL_IGNORED,
    Draft,
    Dropped,
    Loosely,
    Options,
    expected_call,
    golden_calls,
    identifier,
    rows,
    said,
)

_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_OTHER = ("multi_turn", "memory", "web_search", "java", "javascript", "rest", "exec", "relevance", "chatable", "sql")
_MOST_FORMS = 64
"""Most combinations of acceptable values inside one object before a case counts as too open."""


def read_bfcl(path: Path, options: Options) -> Iterator[Draft | Dropped]:
    """Convert a question file.

    :raises InputError: its answers are missing.
    """
    category = path.stem.partition("_v")[2].partition("_")[2] or path.stem
    irrelevance = category.endswith("irrelevance")
    answers: dict[str, Any] = {}
    if not irrelevance and not any(word in category for word in _OTHER):
        answers = _answers(path)
    for row in rows(path):
        if isinstance(row, Dropped):
            yield row
            continue
        try:
            if not irrelevance and any(word in category for word in _OTHER):
                raise _Unusable(f"category {category}: needs BFCL's own environment or another language to score")
            yield Draft(row.file, row.line, _transcript(row.data, category, answers, options))
        except _Unusable as reason:
            yield Dropped(row.file, row.line, row.id, str(reason))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            yield Dropped(row.file, row.line, row.id, f"not in BFCL's form: {type(error).__name__}: {error}")


class _Unusable(Exception):
    """The case cannot be a golden turn; says why."""


def _answers(path: Path) -> dict[str, Any]:
    place = path.parent / "possible_answer" / path.name
    if not place.is_file():
        raise InputError(
            f"{path}: its answers {place} are missing", "Keep BFCL's folder layout, and give the question file."
        )
    return {row.id: row.data["ground_truth"] for row in rows(place) if not isinstance(row, Dropped)}


def _transcript(case: Mapping[str, Any], category: str, answers: Mapping[str, Any], options: Options) -> dict[str, Any]:
    if len(case["question"]) != 1:
        raise _Unusable("more than one round of questions: only single-turn cases are taken")
    messages = [{"role": m["role"], "content": m["content"]} for m in case["question"][0]]
    tools = [_tool(function) for function in case["function"]]
    if category.endswith("irrelevance"):
        names = [tool["function"]["name"] for tool in tools]
        expect: dict[str, Any] = {"behaviour": "answer", "forbidden_tools": list(dict.fromkeys(names))}
    else:
        if case["id"] not in answers:
            raise _Unusable("no answer with this id in possible_answer")
        loose = Loosely(BFCL_IGNORED, said(messages), tools)
        calls = [_call(name, values, loose) for call in answers[case["id"]] for name, values in call.items()]
        expect = {"behaviour": "tool_call", "tool_calls": calls}
    gold: dict[str, Any] = {"role": "assistant", "content": None, "expect": expect}
    calls_made = golden_calls(expect.get("tool_calls", ()))
    if calls_made:
        gold["tool_calls"] = calls_made
    data: dict[str, Any] = {
        "id": identifier(f"bfcl-{case['id']}"),
        "scenario": identifier(f"bfcl-{case['id']}"),
        "slices": list(options.slices),
        "source": options.source or "BFCL",
        "licence": options.licence or "Apache-2.0",
        "messages": [*messages, gold],
        "meta": {"category": category, "record": case["id"]},
    }
    if tools:
        data["tools"] = tools
    return data


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": _name(function["name"]),
            "description": function.get("description", ""),
            "parameters": _schema(function["parameters"]),
        },
    }


def _name(name: str) -> str:
    """Servers take no dots in tool names; BFCL itself writes them as underscores for such models."""
    return name.replace(".", "_")


def _schema(schema: Any) -> Any:
    """BFCL's parameter description as JSON Schema."""
    if isinstance(schema, list):
        return [_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: value for key, value in schema.items() if key not in ("optional", "type", "properties")}
    result: dict[str, Any] = {k: _schema(v) if k in ("items", "additionalProperties") else v for k, v in plain.items()}
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "any":
        result["type"] = _TYPES.get(kind, kind)
    if isinstance(schema.get("properties"), Mapping):
        result["properties"] = {name: _schema(part) for name, part in schema["properties"].items()}
    return result


def _call(name: str, answers: Mapping[str, Sequence[Any]], loose: Loosely) -> dict[str, Any]:
    acceptable: dict[str, Sequence[Any]] = {}
    optional = []
    for parameter, values in answers.items():
        forms = [form for value in values if value != "" for form in _forms(value)]
        if "" in values:
            optional.append(parameter)
            if loose.allows(_name(name), parameter, ""):
                forms.append("")  # BFCL's checker also takes the empty text itself
        if forms:
            acceptable[parameter] = loose.values(_name(name), parameter, forms)
    # A parameter whose only answer is "" must be left out: it is then simply not named.
    return expected_call(_name(name), acceptable, optional=[p for p in optional if p in acceptable])


def _forms(value: Any) -> list[Any]:
    """All values that one entry of an answer stands for: in objects, each key has a list of its own."""
    if isinstance(value, Mapping):
        choices = []
        for key, options in value.items():
            given = [(key, form) for option in options if option != "" for form in _forms(option)]
            choices.append(given + ([None] if "" in options else []))
        return [dict(filter(None, picked)) for picked in _product(choices)]
    if isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        return [list(picked) for picked in _product([_forms(part) for part in value])]
    return [value]


def _product(choices: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST_FORMS:
        raise _Unusable(f"an object with {count} acceptable forms: too many to list")
    return list(itertools.product(*choices))
