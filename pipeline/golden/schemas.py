"""Validation by JSON Schema: transcripts, policy front matter, and the arguments of tool calls."""

from __future__ import annotations

import functools
import json
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from pipeline.golden.complaints import field_path
from pipeline.settings import PROJECT_ROOT

SCHEMAS = PROJECT_ROOT / "golden_sets" / "schema"

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxdict = _short.maxlist = 4
_short.maxlevel = 3


@functools.cache
def schema_validator(name: str, definition: str = "") -> Draft202012Validator:
    """The validator of ``golden_sets/schema/<name>.schema.json``, or of one of its definitions."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    if definition:
        schema = {"$defs": schema["$defs"], "$ref": f"#/$defs/{definition}"}
    return Draft202012Validator(schema)


@functools.cache
def _fast_validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.dumps(schema_validator("transcript").schema))


def transcript_faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Violations of the transcript schema as (field, message).

    Nearly all transcripts of a large set are sound, and jsonschema-rs sees that a hundred times as
    fast; only the others are read again by jsonschema, for its paths and messages.
    """
    fast = _fast_validator()
    if fast.is_valid(data):
        return
    found = list(faults(schema_validator("transcript"), data))
    yield from found or ((field_path(error.instance_path), error.message) for error in fast.iter_errors(data))


def faults(validator: Draft202012Validator, instance: Any) -> Iterator[tuple[str, str]]:
    """All violations as (field, message), the most telling branch of a choice only."""
    for error in validator.iter_errors(instance):
        found = best_match([error]) or error
        yield field_path(found.absolute_path), _message(found)


def _message(error: ValidationError | SchemaError) -> str:
    long = repr(error.instance)
    return str(error.message).replace(long, _short.repr(error.instance)) if len(long) > 100 else str(error.message)


class Toolbox:
    """The tools offered at a turn, with a validator for each tool's arguments.

    ``invalid`` holds (tool index, message) for every tool whose parameters are no valid schema;
    the arguments of such a tool are not checked any further.
    """

    def __init__(self, tools: tuple[Mapping[str, Any], ...]) -> None:
        self.tools = tools
        self.invalid: list[tuple[int, str]] = []
        self._validators: dict[str, Draft202012Validator] = {}
        self._parameters: dict[str, Mapping[str, Any]] = {}
        for index, tool in enumerate(tools):
            function = tool["function"]
            name = function["name"]
            if name in self._parameters:
                self.invalid.append((index, f"tool {name!r} is defined twice"))
                continue
            parameters = function.get("parameters") or {"type": "object", "properties": {}}
            self._parameters[name] = parameters
            fault = _schema_fault(parameters)
            if fault:
                self.invalid.append((index, f"parameters of {name!r} are not a valid JSON Schema: {fault}"))
            else:
                self._validators[name] = _arguments_validator(parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Tool names in the order offered."""
        return tuple(self._parameters)

    def properties(self, name: str) -> Mapping[str, Any]:
        """The declared parameters of a tool, by name."""
        properties = self._parameters[name].get("properties", {})
        return properties if isinstance(properties, Mapping) else {}

    def is_open(self, name: str) -> bool:
        """Whether the tool takes parameters that it does not declare."""
        return self._parameters[name].get("additionalProperties", True) is not False

    def faults(self, name: str, arguments: Mapping[str, Any], absent_ok: frozenset[str] = frozenset()) -> list[str]:
        """What is wrong with a call's arguments; ``absent_ok`` may be missing though required."""
        validator = self._validators.get(name)
        if validator is None:
            return []
        found = []
        for error in validator.iter_errors(dict(arguments)):
            if error.validator == "required" and not error.absolute_path and _missing(error) in absent_ok:
                continue
            where = field_path(error.absolute_path)
            found.append(f"{where}: {_message(error)}" if where else _message(error))
        return list(dict.fromkeys(found))


def _arguments_validator(parameters: Mapping[str, Any]) -> Draft202012Validator:
    """As the evaluators do it: formats are checked, and nothing is fetched for a remote reference."""
    return Draft202012Validator(parameters, registry=Registry(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def _schema_fault(parameters: Any) -> str:
    try:
        Draft202012Validator.check_schema(parameters)
        for reference in _references(parameters):
            _arguments_validator({**parameters, "allOf": [{"$ref": reference}]}).is_valid({})
    except SchemaError as error:
        where = field_path(error.absolute_path)
        return f"{where}: {_message(error)}" if where else _message(error)
    except Unresolvable as error:
        return f"a reference cannot be resolved: {error}"
    except RecursionError:
        return "nested too deeply"
    required, properties = parameters.get("required", []), parameters.get("properties", {})
    lost = [name for name in required if name not in properties]
    if lost and parameters.get("additionalProperties") is False:
        return f"required names {lost}, which properties do not declare: no call can be valid"
    return ""


def _references(schema: Any) -> Iterator[str]:
    """Every ``$ref`` within a schema."""
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _missing(error: ValidationError) -> str:
    """The property that a ``required`` violation is about (jsonschema tells it in words only)."""
    listed = error.validator_value
    names = listed if isinstance(listed, list) else []
    return next((str(p) for p in names if error.message.startswith(repr(p))), "")


@functools.lru_cache(maxsize=512)
def _toolbox_of(text: str) -> Toolbox:
    return Toolbox(tuple(json.loads(text)))


def toolbox(tools: Any) -> Toolbox:
    """The toolbox of a list of OpenAI tools that passed the transcript schema; few are kept in memory."""
    return _toolbox_of(json.dumps(tools, ensure_ascii=False))
