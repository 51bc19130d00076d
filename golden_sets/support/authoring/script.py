"""Reads conversations written as scripts and turns them into golden transcripts.

A script is plain text, so that a scenario can be read and reviewed like a chat::

    == retail-refund-clock | refunds | refund_in_window | language=en
    U: the clock from OM-482913 is too loud, money back pls
    C get_order(OM-482913)
      critical
    T: order OM-482913 | delivered 12 | Oak wall clock 45.00
    A clarify: Which email did you order with?
      say: email | e-mail

Header: id | slices | family | options. Options: ``language``, ``policy``, ``tools`` and ``system``; the value
``none`` drops the policy or the tools.

Message lines: ``U:`` customer, ``A:`` assistant, ``A <behaviour>:`` checkpointed assistant, ``C call && call``
checkpointed tool calls (``c`` without a checkpoint), ``T: result`` tool result. A line with a leading ``>`` continues
the message above it. Lines with two leading spaces are attributes of the checkpoint above them: ``say: a | b``,
``never: a | b``, ``amount: 45.00``, ``accept: parameter = a | b``, ``alt-call: call``, ``alt: {JSON}``,
``slices: a, b``, ``unforbid: tool``, ``forbid: tool`` and ``critical``.

Phrases are patterns as in :mod:`evaluators.patterns`, ``re:`` and ``claim:`` included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

CONFIRM_GROUP = [
    r"re:(?<![^.!?;])(?![^.!?;]*\b(any|anything|something|what|how)\b[^.!?;]*\b(else|help|assist|questions)\b)[^.!?;]+\?",
    r"re:\b(shall|should) (i|we)\b[^.!?]*\?",
    r"re:(?<=[^.!?;] )['\"(]?(yes|oui|sí|sì|ja|sim|tak|evet|да)\b",
    r"re:(?<!\bi )(?<!\bi can )(?<!\bhappy to )(?<!\bglad to )\bconfirm(?!ed\b|ation\b)",
    r"re:\b(your|a|for) confirmation\b",
    r"re:\blet me know (if|whether)\b(?![^.!?]*\b(else|help|questions?)\b)",
    r"re:\b(bestätig|bevestig|potwierd|onayl|conferm|подтверд)",
]
"""A request for a yes is a question other than "Anything else?", or asks for the word. A "Yes" that opens the reply
and an "I confirm" do not count: they say that the thing is done."""

MACROS: Mapping[str, tuple[str, list[list[str]]]] = {
    "confirm": ("answer", [CONFIRM_GROUP]),
    "ask-email": ("clarify", [["email", "e-mail", "mail"]]),
    "ask-order": ("clarify", [["order number", "order id", "order no", "re:\\bnumber\\b", "re:\\bOM-"]]),
}
"""Frequent checkpoints: behaviour and ``say`` groups that come with the name."""


class ScriptError(ValueError):
    """A script line that cannot be read; the message names file and line."""


@dataclass(frozen=True, slots=True)
class House:
    """What is particular to one business.

    ``parameters`` lists each tool's parameters in the order in which a script gives them; the last one takes the
    rest of the line. ``numbers`` are parameters that hold a number. ``free`` are parameters whose text is not
    compared. ``write_tools`` are forbidden wherever a checkpoint does not call one of them. ``result`` expands the
    short form of a tool result to its JSON text.
    """

    policy: str
    tools: str
    parameters: Mapping[str, tuple[str, ...]]
    result: Callable[[str], str]
    write_tools: tuple[str, ...]
    escalation_tool: str
    numbers: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    macros: Mapping[str, tuple[str, list[list[str]]]] = field(default_factory=dict)
    """Further :data:`MACROS` of this business."""


@dataclass(slots=True)
class _Reader:
    """State while one conversation is read."""

    house: House
    transcript: Json
    has_tools: bool
    expect: Json | None = None
    pending: list[str] = field(default_factory=list)
    calls: int = 0

    def messages(self) -> list[Json]:
        return self.transcript["messages"]  # type: ignore[no-any-return]


def read_scripts(path: Path, house: House) -> Iterator[Json]:
    """Yield the transcripts of one script file in order.

    :raises ScriptError: a line cannot be read.
    """
    return read_script(path.read_text(encoding="utf-8"), path.name, house)


def read_script(text: str, name: str, house: House) -> Iterator[Json]:
    """Yield the transcripts of one script; ``name`` stands in error messages.

    :raises ScriptError: a line cannot be read.
    """
    reader: _Reader | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            if line.startswith("== "):
                if reader:
                    yield reader.transcript
                reader = _open(line[3:], house)
            elif reader is None:
                raise ScriptError("text before the first '==' header")
            elif line.startswith("> "):
                reader.messages()[-1]["content"] += "\n" + line[2:]
            elif line.startswith("  "):
                _attribute(reader, line.strip())
            else:
                _message(reader, line)
        except (ScriptError, ValueError, KeyError, IndexError) as error:
            raise ScriptError(f"{name}:{number}: {error}") from error
    if reader:
        yield reader.transcript


def _open(header: str, house: House) -> _Reader:
    identity, slices, family, *options = (part.strip() for part in header.split("|"))
    chosen = {key.strip(): value.strip() for key, _, value in (option.partition("=") for option in options)}
    transcript: Json = {
        "id": identity,
        "scenario": identity,
        "slices": [name.strip() for name in slices.split(",") if name.strip()],
    }
    if "language" in chosen:
        transcript["language"] = chosen["language"]
    policy, tools = chosen.get("policy", house.policy), chosen.get("tools", house.tools)
    if policy != "none" and "system" not in chosen:
        transcript["policy"] = policy
    if tools != "none":
        transcript["tools"] = tools
    transcript["messages"] = []
    if "system" in chosen:
        transcript["messages"].append({"role": "system", "content": chosen["system"]})
    transcript["meta"] = {"family": family}
    return _Reader(house, transcript, has_tools=tools != "none")


def _message(reader: _Reader, line: str) -> None:
    marker, _, text = line.partition(":")
    if marker == "U":
        reader.messages().append({"role": "user", "content": text.strip()})
        reader.expect = None
    elif marker == "T":
        result = reader.house.result(text.strip())
        call_id = reader.pending.pop(0)
        reader.messages().append({"role": "tool", "tool_call_id": call_id, "content": result})
        reader.expect = None
    elif line[:2] in ("C ", "c "):
        _call_message(reader, line[2:], checkpoint=line[0] == "C")
    elif marker == "A":
        reader.messages().append({"role": "assistant", "content": text.strip()})
        reader.expect = None
    elif marker.startswith("A "):
        behaviour, groups = {**MACROS, **reader.house.macros}.get(marker[2:], (marker[2:], []))
        reader.expect = {"behaviour": behaviour}
        if groups:
            reader.expect["say"] = [list(group) for group in groups]
        if reader.has_tools:
            reader.expect["forbidden_tools"] = list(reader.house.write_tools)
        reader.messages().append({"role": "assistant", "content": text.strip(), "expect": reader.expect})
    else:
        raise ScriptError(f"unknown marker {marker!r}")


def _call_message(reader: _Reader, text: str, *, checkpoint: bool) -> None:
    calls = [_call(reader.house, part) for part in text.split(" && ")]
    tool_calls = []
    for name, arguments in calls:
        reader.calls += 1
        call_id = f"call_{reader.calls}"
        reader.pending.append(call_id)
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        tool_calls.append({"id": call_id, "type": "function", "function": function})
    message: Json = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    reader.expect = None
    if checkpoint:
        reader.expect = message["expect"] = _expected_calls(reader.house, calls)
    reader.messages().append(message)


def _call(house: House, text: str) -> tuple[str, Json]:
    match = re.fullmatch(r"(\w+)\((.*)\)", text.strip())
    if not match:
        raise ScriptError(f"not a call: {text!r}")
    name, inner = match.groups()
    parameters = house.parameters[name]
    values = [value.strip() for value in inner.split(",", len(parameters) - 1)]
    if len(values) != len(parameters):
        raise ScriptError(f"{name} takes {len(parameters)} arguments: {inner!r}")
    return name, {
        key: _number(value) if key in house.numbers else value for key, value in zip(parameters, values, strict=True)
    }


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _expected_calls(house: House, calls: list[tuple[str, Json]]) -> Json:
    names = [name for name, _ in calls]
    expected = []
    for name, arguments in calls:
        entry: Json = {
            "name": name,
            "arguments": {key: value for key, value in arguments.items() if key not in house.free},
        }
        free = [key for key in arguments if key in house.free]
        if free:
            entry["free"] = free
        expected.append(entry)
    expect: Json = {
        "behaviour": "escalate" if house.escalation_tool in names else "tool_call",
        "tool_calls": expected,
    }
    forbidden = [tool for tool in house.write_tools if tool not in names]
    if forbidden:
        expect["forbidden_tools"] = forbidden
    return expect


def _attribute(reader: _Reader, text: str) -> None:
    if reader.expect is None:
        raise ScriptError("attribute without a checkpoint above it")
    key, _, value = (part.strip() for part in text.partition(":"))
    if key not in _ATTRIBUTES:
        raise ScriptError(f"unknown attribute {key!r} (known: {', '.join(_ATTRIBUTES)})")
    _ATTRIBUTES[key](reader.house, reader.expect, value)


def _critical(_house: House, expect: Json, _value: str) -> None:
    expect["critical"] = True


def _say(_house: House, expect: Json, value: str) -> None:
    expect.setdefault("say", []).append(_phrases(value))


def _amount(_house: House, expect: Json, value: str) -> None:
    expect.setdefault("say", []).append(amount_group(value))


def _never(_house: House, expect: Json, value: str) -> None:
    expect.setdefault("never_say", []).extend(_phrases(value))


def _slices(_house: House, expect: Json, value: str) -> None:
    expect.setdefault("slices", []).extend(name.strip() for name in value.split(","))


def _forbid(_house: House, expect: Json, value: str) -> None:
    forbidden = expect.setdefault("forbidden_tools", [])
    if value in forbidden:
        raise ScriptError(f"{value} is forbidden already")
    forbidden.append(value)


def _unforbid(_house: House, expect: Json, value: str) -> None:
    expect["forbidden_tools"].remove(value)


def _accept(_house: House, expect: Json, value: str) -> None:
    parameter, _, values = (part.strip() for part in value.partition("="))
    for call in expect["tool_calls"]:
        if parameter in call["arguments"]:
            call.setdefault("acceptable", {})[parameter] = _phrases(values)


def _alternative_call(house: House, expect: Json, value: str) -> None:
    alternative = _expected_calls(house, [_call(house, part) for part in value.split(" && ")])
    alternative.pop("forbidden_tools", None)
    expect.setdefault("alternatives", []).append(alternative)


def _alternative(_house: House, expect: Json, value: str) -> None:
    expect.setdefault("alternatives", []).append(json.loads(value))


_ATTRIBUTES: Mapping[str, Callable[[House, Json, str], None]] = {
    "critical": _critical,
    "say": _say,
    "amount": _amount,
    "never": _never,
    "slices": _slices,
    "forbid": _forbid,
    "unforbid": _unforbid,
    "accept": _accept,
    "alt-call": _alternative_call,
    "alt": _alternative,
}


def _phrases(text: str) -> list[str]:
    return [phrase.strip() for phrase in text.split(" | ")]


def read_articles(path: Path) -> dict[str, dict[str, str]]:
    """Read a business's articles: ``key | title`` on one line, the text on the next ones, an empty line between."""
    articles: dict[str, dict[str, str]] = {}
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = block.splitlines()
        key, _, title = (part.strip() for part in head.partition("|"))
        articles[key] = {"title": title, "text": " ".join(lines)}
    return articles


def amount_group(amount: str) -> list[str]:
    """The ways to write an amount: with point or comma and, when it is whole, without decimals."""
    whole, _, cents = amount.partition(".")
    group = [amount, f"{whole},{cents}"]
    if cents == "00":
        group.append(rf"re:(?<![\d.,]){whole}(?![\d.,]*\d)")
    return group


def write_jsonl(transcripts: list[Json], path: Path) -> None:
    """Write one transcript a line, UTF-8, with a final newline."""
    lines = (json.dumps(transcript, ensure_ascii=False) + "\n" for transcript in transcripts)
    path.write_text("".join(lines), encoding="utf-8")
