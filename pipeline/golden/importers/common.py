"""What importers share: their result, and small conversions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, UnknownType
from referencing import Registry
from referencing.exceptions import Unresolvable

from pipeline.digests import canonical_json
from pipeline.errors import InputError
from pipeline.golden.complaints import Complaint
from pipeline.golden.reading import Record, read_jsonl


@dataclass(frozen=True, slots=True)
class Draft:
    """A transcript as an importer makes it, before it is checked, and the place it comes from."""

    file: str
    line: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A case that was not imported, and why."""

    file: str
    line: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the user adds to an import: provenance, and what the format itself lacks."""

    source: str = ""
    licence: str = ""
    slices: tuple[str, ...] = ()
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = field(default=())


def rows(path: Path) -> Iterator[Record | Dropped]:
    """The objects of a JSON-lines file; an unreadable line is dropped with its reason."""
    for record in read_jsonl(path):
        if isinstance(record, Complaint):
            yield Dropped(record.file, record.line, "", record.message)
        else:
            yield record


def read_json(path: Path) -> Any:
    """A whole JSON file.

    :raises InputError: unreadable, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}", "Check the path and the file.") from error


def identifier(text: str) -> str:
    """``text`` as a transcript id: only letters, digits and ``. _ : / -``."""
    cleaned = re.sub(r"[^A-Za-z0-9._:/-]+", "-", text).strip("-._:/")
    return cleaned[:200] or "unnamed"


def slice_name(text: str) -> str:
    """``text`` as a slice name."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"s_{name}"


def history_call(identity: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A golden call in the OpenAI form."""
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def golden_calls(expected: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The expected calls as the golden reply, or None where a value is left open."""
    calls = []
    for number, call in enumerate(expected):
        if call.get("free"):
            return None
        arguments = dict(call.get("arguments", {}))
        for name, values in call.get("acceptable", {}).items():
            arguments.setdefault(name, values[0])
        calls.append(history_call(f"golden_{number}", call["name"], arguments))
    return calls or None


def expected_call(
    name: str,
    acceptable: Mapping[str, Sequence[Any]],
    optional: Sequence[str] = (),
    free: Sequence[str] = (),
    unordered: Sequence[str] = (),
) -> dict[str, Any]:
    """An expected call as a transcript writes it, without empty parts."""
    call: dict[str, Any] = {
        "name": name,
        "arguments": {n: values[0] for n, values in acceptable.items() if len(values) == 1},
        "acceptable": {n: list(values) for n, values in acceptable.items() if len(values) > 1},
        "optional": list(optional),
        "free": list(free),
        "unordered": list(unordered),
    }
    return {key: value for key, value in call.items() if value}


def any_sound_call(tools: Sequence[Mapping[str, Any]], forbidden: Sequence[str]) -> list[dict[str, Any]]:
    """One alternative per tool that is not forbidden: a single call, with any valid arguments."""
    alternatives = []
    for tool in tools:
        function = tool["function"]
        if function["name"] in forbidden:
            continue
        parameters = function.get("parameters") or {}
        names, required = list(parameters.get("properties") or {}), parameters.get("required") or []
        call: dict[str, Any] = {"name": function["name"]}
        if names:
            call["free"] = names
        if set(names) - set(required):
            call["optional"] = [name for name in names if name not in required]
        alternatives.append({"behaviour": "tool_call", "tool_calls": [call]})
    return alternatives


# --- sources that compare strings loosely ------------------------------------------------------


class Loosely:
    """How a source compares strings, and how that is carried over.

    We compare strings exactly, so the infinitely many strings that such a source takes as equal cannot
    all be listed. Listed are those that a model is likely to write: the value itself, the value as it
    stands in the conversation (letter case and ignored characters may differ there), and the usual
    letter cases; of these only what the tool's own schema allows.
    """

    def __init__(self, ignored: str, conversation: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._gap = f"[{re.escape(ignored)}]*" if ignored else ""
        self._ignored = re.compile(f"[{re.escape(ignored)}]") if ignored else None
        self._conversation = conversation
        self._parameters = {t["function"]["name"]: t["function"].get("parameters") or {} for t in tools}

    def values(self, tool: str, parameter: str, values: Sequence[Any]) -> list[Any]:
        """``values`` and what counts as equal to them, without repeats."""
        listed: dict[str, Any] = {canonical_json(value): value for value in values}
        for value in values:
            for form in self._forms(value) if isinstance(value, str) else ():
                if self.allows(tool, parameter, form):
                    listed.setdefault(canonical_json(form), form)
        return list(listed.values())

    def allows(self, tool: str, parameter: str, value: Any) -> bool:
        """Whether a parameter's own schema allows a value; one that cannot be used allows nothing new."""
        properties = self._parameters.get(tool, {}).get("properties")
        schema = properties.get(parameter, {}) if isinstance(properties, Mapping) else {}
        try:
            return bool(Draft202012Validator(schema, registry=Registry()).is_valid(value))
        except (SchemaError, UnknownType, Unresolvable):
            return False

    def _forms(self, value: str) -> Iterator[str]:
        key = self._ignored.sub("", value) if self._ignored else value
        if key:
            pattern = self._gap.join(re.escape(character) for character in key)
            for found in re.finditer(pattern, self._conversation, re.IGNORECASE):
                yield found.group(0)
        yield from (value.lower(), value.capitalize(), value.title(), value.upper())


BFCL_IGNORED = " ,./-_*^"
"""What BFCL's string comparison leaves out (``standardize_string`` in its ``ast_checker.py``)."""


def said(messages: Sequence[Mapping[str, Any]]) -> str:
    """All text of a conversation that a model can copy from."""
    return "\n".join(m["content"] for m in messages if isinstance(m.get("content"), str))
