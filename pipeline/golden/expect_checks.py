"""Checks of what a turn expects: decidable, satisfiable, and worth something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluators.alternatives import describes_something
from evaluators.patterns import compile_pattern, pattern_complaints
from evaluators.turn import Behaviour, Expectation, ExpectedCall
from evaluators.values import same
from pipeline.digests import canonical_json
from pipeline.golden.building import expectation_of
from pipeline.golden.complaints import Complaint
from pipeline.golden.history_checks import unknown_tool
from pipeline.golden.reading import Record
from pipeline.golden.schemas import Toolbox

_SILENT = (Behaviour.ANSWER, Behaviour.CLARIFY)
"""Behaviours of which no evaluator knows anything but what the expectation itself says."""


def check_expectations(record: Record, tools: Toolbox) -> Iterator[Complaint]:
    """Complain about every ``expect`` of a transcript that passed the transcript schema."""
    for index, message in enumerate(record.data["messages"]):
        if "expect" not in message:
            continue
        raw, field = message["expect"], f"messages[{index}].expect"
        main = expectation_of(raw)
        yield from _answer(record, field, main, main, tools)
        for position, other in enumerate(main.alternatives):
            yield from _answer(record, f"{field}.alternatives[{position}]", other, main, tools)
        yield from _alternatives(record, field, raw)
        yield from _forbidden(record, field, main, tools)


def _answer(record: Record, field: str, expect: Expectation, main: Expectation, tools: Toolbox) -> Iterator[Complaint]:
    """One acceptable answer (the main one or an alternative) beside what ``main`` forbids."""
    yield from _worth(record, field, expect, main)
    yield from _patterns(record, field, expect, main)
    for position, call in enumerate(expect.tool_calls):
        place = f"{field}.tool_calls[{position}]"
        if call.name not in tools:
            yield record.complain(f"{place}.name", unknown_tool(call.name, tools))
            continue
        yield from _arguments(record, place, call, tools)
        if call.name in main.forbidden_tools:
            yield record.complain(f"{place}.name", f"{call.name} is expected and stands in forbidden_tools")
        for number, forbidden in enumerate(main.forbidden_calls):
            if _overlap(call, forbidden):
                yield record.complain(place, f"this call is expected and also matches forbidden_calls[{number}]")


def _worth(record: Record, field: str, expect: Expectation, main: Expectation) -> Iterator[Complaint]:
    """Complain when the expectation checks nothing, or its parts do not fit its behaviour."""
    behaviour, calls = expect.behaviour, expect.tool_calls
    if expect is not main and not describes_something(expect):
        yield record.complain(field, "checks nothing: an alternative needs tool_calls or 'say' of its own")
        return
    if behaviour is Behaviour.TOOL_CALL and not calls:
        yield record.complain(field, "checks nothing: behaviour tool_call without tool_calls")
    if behaviour in (*_SILENT, Behaviour.REFUSE) and calls:
        yield record.complain(
            f"{field}.tool_calls",
            f"behaviour {behaviour} means a reply without a call; use tool_call or escalate, or an alternative",
        )
    if behaviour in _SILENT and not (expect.say or main.forbidden_tools or main.forbidden_calls):
        yield record.complain(
            field, f"checks nothing: behaviour {behaviour} needs 'say' (or forbidden_tools, if that is the point)"
        )
    if behaviour is Behaviour.ESCALATE and not (calls or expect.say):
        yield record.complain(field, "checks nothing: behaviour escalate needs the hand-over call, or 'say'")
    if expect.order == "exact" and len(calls) < 2:
        yield record.complain(f"{field}.order", "'exact' needs at least two tool_calls")


def _patterns(record: Record, field: str, expect: Expectation, main: Expectation) -> Iterator[Complaint]:
    never = dict.fromkeys((*expect.never_say, *main.never_say))
    for name, patterns in (("never_say", expect.never_say), *((f"say[{i}]", g) for i, g in enumerate(expect.say))):
        for position, text in enumerate(patterns):
            for fault in pattern_complaints(text):
                yield record.complain(f"{field}.{name}[{position}]", fault)
    usable = {text: compile_pattern(text) for text in never if not pattern_complaints(text)}
    for number, group in enumerate(expect.say):
        for position, text in enumerate(group):
            for other, pattern in usable.items():
                if text == other or (not text.startswith(("re:", "claim:")) and pattern.search(text) is not None):
                    yield record.complain(
                        f"{field}.say[{number}][{position}]", f"can never count: never_say {other!r} matches it"
                    )


# --- calls -------------------------------------------------------------------------------------


def _arguments(record: Record, place: str, call: ExpectedCall, tools: Toolbox) -> Iterator[Complaint]:
    """Check that calls within the expectation are valid for the tool.

    Values are tried one by one in an otherwise first-choice call: a sum of the acceptable values,
    not their product, which finds every value that its own schema forbids.
    """
    yield from _names(record, place, call, tools)
    first = {name: values[0] for name, values in call.arguments.items()}
    for fault in tools.faults(call.name, first, call.free):
        yield record.complain(f"{place}.arguments", f"breaks the schema of {call.name}: {fault}")
        return
    least = {name: value for name, value in first.items() if name not in call.optional}
    for fault in tools.faults(call.name, least, call.free - call.optional):
        yield record.complain(
            f"{place}.optional", f"with the optional parameters left out, the call breaks the schema: {fault}"
        )
    for name, values in call.arguments.items():
        for value in values[1:]:
            for fault in tools.faults(call.name, {**first, name: value}, call.free):
                yield record.complain(
                    f"{place}.acceptable.{name}", f"{value!r} breaks the schema of {call.name}: {fault}"
                )


def _names(record: Record, place: str, call: ExpectedCall, tools: Toolbox) -> Iterator[Complaint]:
    known, is_open = tools.properties(call.name), tools.is_open(call.name)
    for name in sorted(call.free & call.arguments.keys()):
        yield record.complain(f"{place}.free", f"{name!r} is free and also has values in arguments or acceptable")
    for name in sorted(call.optional - call.arguments.keys() - call.free):
        yield record.complain(f"{place}.optional", f"{name!r} has no values: give them, or add it to free")
    for name in sorted(call.unordered):
        values = call.arguments.get(name)
        if values is None or not all(isinstance(value, list) for value in values):
            yield record.complain(f"{place}.unordered", f"{name!r} must have a list as its value")
    for name in sorted((call.free | call.arguments.keys()) - known.keys()):
        if not is_open or name in call.free:
            yield record.complain(place, f"{call.name} has no parameter {name!r}; it has: {', '.join(known) or 'none'}")


def _forbidden(record: Record, field: str, expect: Expectation, tools: Toolbox) -> Iterator[Complaint]:
    for name in sorted(expect.forbidden_tools):
        if name not in tools:
            yield record.complain(f"{field}.forbidden_tools", f"checks nothing: {unknown_tool(name, tools)}")
    for position, call in enumerate(expect.forbidden_calls):
        place = f"{field}.forbidden_calls[{position}]"
        if call.name not in tools:
            yield record.complain(f"{place}.name", f"checks nothing: {unknown_tool(call.name, tools)}")
            continue
        if call.name in expect.forbidden_tools:
            yield record.complain(place, f"adds nothing: all of {call.name} is in forbidden_tools")
        if not (call.arguments or call.free):
            yield record.complain(place, "names no arguments: put the tool into forbidden_tools instead")
        yield from _names(record, place, call, tools)


def _overlap(expected: ExpectedCall, forbidden: ExpectedCall) -> bool:
    """Whether some call fits both: same tool, and a common value for every forbidden argument.

    An argument that is free has other values left, so it is no contradiction to forbid some.
    """
    if expected.name != forbidden.name:
        return False
    for name, values in forbidden.arguments.items():
        accepted = expected.arguments.get(name, ())
        absent = name in forbidden.optional and (name in expected.optional or not accepted)
        if not absent and not any(same(a, b) for a in accepted for b in values):
            return False
    return True


def _alternatives(record: Record, field: str, raw: Mapping[str, Any]) -> Iterator[Complaint]:
    main = {key: value for key, value in raw.items() if key in ("behaviour", "tool_calls", "order", "say", "never_say")}
    seen = {canonical_json(main)}
    for position, other in enumerate(raw.get("alternatives", ())):
        text = canonical_json(other)
        if text in seen:
            yield record.complain(f"{field}.alternatives[{position}]", "repeats an answer that is already there")
        seen.add(text)
