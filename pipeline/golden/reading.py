"""Reading the files of a golden set: transcripts line by line, policies, tool files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evaluators.policy import validate_rule
from evaluators.turn import Policy, PolicyRule
from pipeline.golden.complaints import Complaint, field_path
from pipeline.golden.schemas import faults, schema_validator, toolbox
from pipeline.yaml_nodes import compose, line_of, values


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a transcript file and where it stands."""

    file: str
    line: int
    data: dict[str, Any]

    @property
    def id(self) -> str:
        """The transcript's id, or empty."""
        value = self.data.get("id")
        return value if isinstance(value, str) else ""

    def complain(self, field: str, message: str) -> Complaint:
        """An error about this record."""
        return Complaint(self.file, self.line, self.id, field, message)


@dataclass(frozen=True, slots=True)
class Library:
    """The policies and tool files of a set, by id."""

    policies: Mapping[str, Policy]
    tools: Mapping[str, tuple[dict[str, Any], ...]]


class _RepeatedKey(ValueError):
    """A JSON object names a key twice; readers would silently keep the last."""


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKey(f"key {next(n for n in names if names.count(n) > 1)!r} is given twice in one object")
    return data


def _no_constant(name: str) -> Any:
    raise _RepeatedKey(f"{name} is not JSON")


def strict_json(text: str) -> Any:
    """Parse JSON; repeated keys, NaN, infinity and half a surrogate pair are errors too.

    :raises ValueError: with the line and column where they are known.
    """
    value = json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("a string holds half a surrogate pair: it cannot be sent as UTF-8") from None
    return value


def read_jsonl(path: Path, shown: str | None = None) -> Iterator[Record | Complaint]:
    """Yield each line's object, or a complaint about the line. Blank lines are skipped.

    Lines end at a line feed only: other Unicode line ends may stand inside a string.
    """
    name = shown or path.as_posix()
    try:
        with path.open("rb") as lines:
            for number, raw in enumerate(lines, start=1):
                if raw.strip():
                    yield parse_line(name, number, raw)
    except OSError as error:
        yield Complaint(name, 0, "", "", f"cannot read: {error.strerror or error}")


def parse_line(name: str, number: int, raw: bytes) -> Record | Complaint:
    """One line of a JSON-lines file."""
    try:
        data = strict_json(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return Complaint(name, number, "", "", f"not UTF-8: byte {error.start + 1}: {error.reason}")
    except json.JSONDecodeError as error:
        hint = " (one transcript must stand on one line)" if raw.strip() in (b"{", b"[") else ""
        return Complaint(name, number, "", "", f"not JSON: column {error.colno}: {error.msg}{hint}")
    except RecursionError:
        return Complaint(name, number, "", "", "JSON is nested too deeply")
    except ValueError as error:
        return Complaint(name, number, "", "", str(error))
    if not isinstance(data, dict):
        return Complaint(name, number, "", "", f"a transcript is a JSON object, this is {type(data).__name__}")
    return Record(name, number, data)


# --- policies and tools ------------------------------------------------------------------------


def read_library(root: Path, shown: str | None = None) -> tuple[Library, list[Complaint]]:
    """Read ``policies/*.md`` and ``tools/*.json`` below ``root``; absent folders are empty."""
    name = shown or root.as_posix()
    complaints: list[Complaint] = []
    policies: dict[str, Policy] = {}
    for path in sorted((root / "policies").glob("*.md")):
        policy = _read_policy(path, f"{name}/policies/{path.name}", complaints)
        if policy is not None:
            policies[path.stem] = policy
    tools: dict[str, tuple[dict[str, Any], ...]] = {}
    for path in sorted((root / "tools").glob("*.json")):
        listed = _read_tools(path, f"{name}/tools/{path.name}", complaints)
        if listed is not None:
            tools[path.stem] = listed
    return Library(policies, tools), complaints


def _read_text(path: Path, shown: str, complaints: list[Complaint]) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        complaints.append(Complaint(shown, 0, path.stem, "", f"cannot read: {error}"))
        return None


def _read_policy(path: Path, shown: str, complaints: list[Complaint]) -> Policy | None:
    text = _read_text(path, shown, complaints)
    if text is None:
        return None

    def complain(line: int, field: str, message: str) -> None:
        complaints.append(Complaint(shown, line, path.stem, field, message))

    lines = text.split("\n")
    ends = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    if len(ends) < 2 or ends[0] != 0:
        complain(1, "", "a policy starts with YAML between two '---' lines: at least 'id: " + path.stem + "'")
        return None
    front, body = "\n".join(lines[1 : ends[1]]), "\n".join(lines[ends[1] + 1 :]).strip()
    try:
        node = compose(front)
        data = values(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        complain(line, "", f"front matter is not valid YAML: {error.problem}")
        return None
    except yaml.YAMLError as error:
        complain(1, "", f"front matter is not valid YAML: {error}")
        return None
    found = list(faults(schema_validator("policy"), data))
    if not found and data["id"] != path.stem:
        found.append(("id", f"is {data['id']!r}, but the file is named {path.stem!r}"))
    if not body:
        found.append(("", "the policy has no text after its front matter"))
    for field, message in found:
        complain(_line(node, field), field, message)
    if found:
        return None
    rules, seen = [], set()
    for index, entry in enumerate(data.get("rules", [])):
        rule = PolicyRule(entry["id"], entry["type"], {k: v for k, v in entry.items() if k not in ("id", "type")})
        field = f"rules[{index}]"
        messages = validate_rule(rule)
        if rule.id in seen:
            messages.append(f"rule id {rule.id!r} is used twice")
        seen.add(rule.id)
        for message in messages:
            complain(_line(node, field), field, f"rule {rule.id}: {message}")
        if not messages:
            rules.append(rule)
    return Policy(path.stem, body, tuple(rules))


def _line(node: yaml.Node | None, field: str) -> int:
    """The line in the policy file of a front-matter field; the fence is line 1."""
    parts = field.replace("]", "").replace("[", ".").split(".")
    return 1 + line_of(node, tuple(int(part) if part.isdigit() else part for part in parts))


def _read_tools(path: Path, shown: str, complaints: list[Complaint]) -> tuple[dict[str, Any], ...] | None:
    text = _read_text(path, shown, complaints)
    if text is None:
        return None
    try:
        data = strict_json(text)
    except json.JSONDecodeError as error:
        complaints.append(Complaint(shown, error.lineno, path.stem, "", f"not JSON: column {error.colno}: {error.msg}"))
        return None
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        complaints.append(Complaint(shown, 0, path.stem, "", "JSON is nested too deeply" if deep else str(error)))
        return None
    found = list(faults(schema_validator("transcript", "tool_list"), data))
    found = found or [
        (field_path([index, "function", "parameters"]), message) for index, message in toolbox(data).invalid
    ]
    for field, message in found:
        complaints.append(Complaint(shown, 1, path.stem, field, message))
    return None if found else tuple(data)
