"""A readable golden conversation for the terminal. All text is shown as text, never as markup."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from evaluators.turn import Expectation, ExpectedCall, Turn
from pipeline.errors import GoldenSetError
from pipeline.golden.load import GoldenSet

_STYLES = {"system": "dim", "user": "bold cyan", "assistant": "bold green", "tool": "magenta"}


def show(golden: GoldenSet, name: str) -> RenderableType:
    """One transcript by its id (or the id of one of its turns): messages, and what each turn expects.

    :raises GoldenSetError: no transcript has this id; the nearest ids are named.
    """
    wanted = name.partition("#")[0]
    turns = sorted((turn for turn in golden.turns if turn.transcript_id == wanted), key=lambda turn: len(turn.messages))
    if not turns:
        known = sorted({turn.transcript_id for turn in golden.turns})
        like = [other for other in known if wanted.lower() in other.lower()] or known
        raise GoldenSetError(f"golden set {golden.name}: no transcript {wanted!r}", f"There are: {_some(like)}.")
    last = turns[-1]
    expected = {len(turn.messages): turn for turn in turns}
    parts: list[RenderableType] = [
        Text(wanted, "bold"),
        Text(f"scenario {last.scenario}; policy {last.policy.id if last.policy else 'none'}"),
        Text(f"tools: {', '.join(tool['function']['name'] for tool in last.tools) or 'none'}"),
        Text(),
    ]
    for index, message in enumerate((*last.messages, last.gold)):
        parts += _message(message)
        if index in expected:
            parts += _expectation(expected[index])
    return Group(*parts)


def _some(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _message(message: Mapping[str, Any]) -> Iterable[Text]:
    role, content = message["role"], message.get("content")
    if content:
        text = content if role != "system" else _clip(content)
        yield Text.assemble((f"{role}: ", _STYLES[role]), text)
    for call in message.get("tool_calls", ()):
        function = call["function"]
        yield Text.assemble((f"{role} calls ", _STYLES[role]), f"{function['name']}({function['arguments']})")
    if not content and not message.get("tool_calls"):
        yield Text.assemble((f"{role}: ", _STYLES[role]), ("(no golden reply on record)", "dim"))


def _clip(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _expectation(turn: Turn) -> Iterable[Text]:
    expect = turn.expect
    mark = " CRITICAL" if expect.critical else ""
    yield Text(f"  └ turn {turn.id}{mark}: {', '.join(turn.slices)}", "yellow")
    for line in _answer(expect):
        yield Text(f"    expects {line}", "yellow")
    for other in expect.alternatives:
        for line in _answer(other):
            yield Text(f"    or      {line}", "yellow")
    if expect.forbidden_tools:
        yield Text(f"    must not call {', '.join(sorted(expect.forbidden_tools))}", "yellow")
    for call in expect.forbidden_calls:
        yield Text(f"    must not call {_call(call)}", "yellow")


def _answer(expect: Expectation) -> Iterable[str]:
    yield str(expect.behaviour) + (" (calls in this order)" if expect.order == "exact" else "")
    for call in expect.tool_calls:
        yield f"  call {_call(call)}"
    for group in expect.say:
        yield "  say " + " | ".join(group)
    if expect.never_say:
        yield "  never say " + " | ".join(expect.never_say)


def _call(call: ExpectedCall) -> str:
    parts = []
    for name, values in call.arguments.items():
        listed = " | ".join(json.dumps(value, ensure_ascii=False) for value in values)
        notes = [note for note, names in (("optional", call.optional), ("any order", call.unordered)) if name in names]
        parts.append(f"{name}={listed}" + (f" [{', '.join(notes)}]" if notes else ""))
    parts += [f"{name}=*{' [optional]' if name in call.optional else ''}" for name in sorted(call.free)]
    return f"{call.name}({', '.join(parts)})"
