"""Tool calls: was the right call made (``tool_call_correct``), and was it a sound one (``tool_call_valid``).

Labels of ``tool_call_correct``, the first that holds:

``forbidden_call``   a call that the turn forbids, whatever else the reply holds
``malformed``        a call left unread in the text, or arguments that are not one JSON object
``unknown_tool``     a tool that was not offered
``schema_invalid``   arguments that break the tool's own parameter schema
``not_due``          a call where none was due
``no_call``          no call where one was due
``wrong_tool``, ``wrong_arguments``, ``missing_call``, ``extra_call``   against the expected calls
``correct``          all expected calls and no other; or none where none was due

Expected and actual calls are matched one to one, so that as many as possible agree. A forbidden call
(``forbidden_calls``) needs to agree in the arguments it names only. ``format`` in a schema is checked.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from evaluators.alternatives import expectations
from evaluators.raw_calls import find_raw_call
from evaluators.results import clip, failed, passed, quote, shown
from evaluators.turn import Behaviour, Expectation, ExpectedCall, Outcome, Reply, ToolCall, Turn
from evaluators.values import MalformedArguments, parse_arguments, same

CORRECT = "tool_call_correct"
VALID = "tool_call_valid"

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

Verdict = tuple[str, tuple[str, ...]]
"""A label and its evidence."""


def applies(turn: Turn, metric: str) -> bool:
    """Whether the metric reads this turn."""
    due = any(expectation.tool_calls for expectation in expectations(turn))
    return bool(turn.tools) or (metric == CORRECT and due)


METRICS = {CORRECT: functools.partial(applies, metric=CORRECT), VALID: functools.partial(applies, metric=VALID)}


def evaluate(turn: Turn, reply: Reply) -> tuple[Outcome, ...]:
    """Score both metrics.

    :raises ValueError: an offered tool has an invalid schema, or a turn expects calls but names none.
    """
    calls = read_calls(turn, reply)
    unsound = _unsound(turn, reply, calls)
    label, evidence = _correctness(turn, reply, calls, unsound)
    correct = (passed if label == "correct" else failed)(turn, CORRECT, label, evidence)
    if unsound is None and not calls and turn.expect.tool_calls:
        unsound = ("no_call", ("a call was due, the reply has none",))
    valid = failed(turn, VALID, *unsound) if unsound else passed(turn, VALID, "valid" if calls else "none_due")
    return correct, valid


# --- the tools offered -------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _validator(name: str, schema: str) -> Draft202012Validator:
    parameters = json.loads(schema)
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as error:
        raise ValueError(f"tool {name!r}: invalid parameter schema at {error.json_path}: {error.message}") from error
    # An empty registry: a reference to a remote schema must not be fetched.
    return Draft202012Validator(parameters, registry=Registry(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def toolbox(turn: Turn) -> dict[str, Draft202012Validator]:
    """A validator for the arguments of each offered tool.

    :raises ValueError: a tool whose parameter schema is invalid, or two tools of one name.
    """
    tools: dict[str, Draft202012Validator] = {}
    for tool in turn.tools:
        function = tool["function"]
        name = function["name"]
        if name in tools:
            raise ValueError(f"tool {name!r} is offered twice")
        schema = function.get("parameters") or _NO_PARAMETERS
        tools[name] = _validator(name, json.dumps(schema, sort_keys=True))
    return tools


# --- the calls made ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call of a reply, read: ``arguments`` is None when its text is malformed.

    ``fault`` is the label and evidence of an unsound call, None for a sound one.
    """

    name: str
    arguments: Mapping[str, Any] | None
    fault: Verdict | None = None

    def __str__(self) -> str:
        return clip(f"{self.name}({'…' if self.arguments is None else shown(self.arguments)})")


def read_calls(turn: Turn, reply: Reply) -> tuple[ReadCall, ...]:
    """The calls that the server read out of the reply, checked against the tools offered.

    :raises ValueError: see :func:`toolbox`.
    """
    tools = toolbox(turn)
    return tuple(_read(call, tools.get(call.name)) for call in reply.tool_calls)


def _read(call: ToolCall, validator: Draft202012Validator | None) -> ReadCall:
    schema = validator.schema if validator is not None else {}
    required = isinstance(schema, Mapping) and bool(schema.get("required"))
    try:
        arguments = parse_arguments(call.arguments, may_be_empty=not required)
    except MalformedArguments as error:
        text = f"{call.name}: arguments are malformed: {error}: {quote(call.arguments)}"
        return ReadCall(call.name, None, ("malformed", (text,)))
    if validator is None:
        return ReadCall(call.name, arguments, ("unknown_tool", (f"{call.name!r} is not among the tools offered",)))
    try:
        violation = best_match(validator.iter_errors(arguments))
    except Unresolvable as unresolvable:
        raise ValueError(f"tool {call.name!r}: schema reference cannot be resolved: {unresolvable}") from unresolvable
    if violation is None:
        return ReadCall(call.name, arguments)
    text = f"{call.name}: {violation.json_path}: {clip(violation.message)}"
    return ReadCall(call.name, arguments, ("schema_invalid", (text,)))


def _unsound(turn: Turn, reply: Reply, calls: Sequence[ReadCall]) -> Verdict | None:
    """The gravest fault in the form of the reply's calls, or None."""
    raw = find_raw_call(reply.content, [tool["function"]["name"] for tool in turn.tools])
    faults = [call.fault for call in calls if call.fault]
    if raw is not None:
        faults.insert(0, ("malformed", (f"a call was left unread in the text: {quote(raw)}",)))
    for label in ("malformed", "unknown_tool", "schema_invalid"):
        evidence = [line for fault in faults if fault[0] == label for line in fault[1]]
        if evidence:
            return label, tuple(evidence)
    return None


# --- against the expectation -------------------------------------------------------------------


def forbidden(expectation: Expectation, calls: Sequence[ReadCall]) -> tuple[str, ...]:
    """Evidence for every call that ``expectation`` forbids."""
    found = []
    for call in calls:
        if call.name in expectation.forbidden_tools:
            found.append(f"forbidden tool called: {call}")
        elif any(_is_forbidden(banned, call) for banned in expectation.forbidden_calls):
            found.append(f"forbidden call made: {call}")
    return tuple(found)


def _is_forbidden(banned: ExpectedCall, call: ReadCall) -> bool:
    if banned.name != call.name or call.arguments is None:
        return False
    given = call.arguments
    for name, values in banned.arguments.items():
        if name not in given:
            if name not in banned.optional:
                return False
        elif not any(same(value, given[name], unordered=name in banned.unordered) for value in values):
            return False
    return all(name in given or name in banned.optional for name in banned.free)


def argument_faults(expected: ExpectedCall, arguments: Mapping[str, Any]) -> list[str]:
    """How ``arguments`` differ from what is expected; empty when they agree."""
    faults = []
    for name, values in expected.arguments.items():
        if name not in arguments:
            if name not in expected.optional:
                faults.append(f"{name}: expected {_any_of(values)}, missing")
        elif not any(same(value, arguments[name], unordered=name in expected.unordered) for value in values):
            faults.append(f"{name}: expected {_any_of(values)}, got {shown(arguments[name])}")
    for name in sorted(expected.free - expected.optional - arguments.keys()):
        faults.append(f"{name}: expected some value, missing")
    for name in sorted(arguments.keys() - expected.arguments.keys() - expected.free - expected.optional):
        faults.append(f"{name}: not expected, got {shown(arguments[name])}")
    return faults


def _any_of(values: Sequence[Any]) -> str:
    return " or ".join(shown(value) for value in values)


def _described(expected: ExpectedCall) -> str:
    return clip(f"{expected.name}({', '.join(f'{n}={_any_of(v)}' for n, v in expected.arguments.items())})")


def compare(expectation: Expectation, calls: Sequence[ReadCall]) -> Verdict:
    """Label and evidence of sound, permitted calls against an expectation.

    :raises ValueError: the behaviour is ``tool_call`` but no call is named.
    """
    wanted = expectation.tool_calls
    if expectation.behaviour is Behaviour.TOOL_CALL and not wanted:
        raise ValueError("behaviour is tool_call, but no expected call is given")
    if not wanted:
        return ("not_due", tuple(f"no call was due, got {call}" for call in calls)) if calls else ("correct", ())
    if not calls:
        return "no_call", tuple(f"expected {_described(call)}, got no call" for call in wanted)
    verdict = _matched(wanted, calls)
    if verdict[0] == "correct" and expectation.order == "exact":
        return _in_sequence(wanted, calls)
    return verdict


def _faults(expected: ExpectedCall, call: ReadCall) -> list[str] | None:
    """Differences of a pair; None when the tools differ."""
    return argument_faults(expected, call.arguments or {}) if expected.name == call.name else None


def _matched(wanted: Sequence[ExpectedCall], calls: Sequence[ReadCall]) -> Verdict:
    """Match one to one: as many exact pairs as possible, then as many right tools."""
    faults = [[_faults(expected, call) for call in calls] for expected in wanted]
    pairs = [(0, 0)] if len(wanted) == len(calls) == 1 else _assigned(faults)
    wrong_tools: list[str] = []
    wrong_arguments: list[str] = []
    for i, j in pairs:
        found = faults[i][j]
        if found is None:
            wrong_tools.append(f"expected {_described(wanted[i])}, got {calls[j]}")
        elif found:
            wrong_arguments.extend(f"{wanted[i].name}: {fault}" for fault in found)
    missing = [f"expected {_described(w)}, not called" for i, w in enumerate(wanted) if i not in {p[0] for p in pairs}]
    extra = [f"not expected: {call}" for j, call in enumerate(calls) if j not in {p[1] for p in pairs}]
    evidence = (*wrong_tools, *wrong_arguments, *missing, *extra)
    for label, found_of_label in (
        ("wrong_tool", wrong_tools),
        ("wrong_arguments", wrong_arguments),
        ("missing_call", missing),
        ("extra_call", extra),
    ):
        if found_of_label:
            return label, evidence
    return "correct", ()


def _assigned(faults: Sequence[Sequence[list[str] | None]]) -> list[tuple[int, int]]:
    from scipy.optimize import linear_sum_assignment  # costs every start of the command line otherwise

    exact = 2 * len(faults) + 1  # one exact pair outweighs any number of pairs of the right tool
    worth = [[exact if f == [] else 0 if f is None else 1 + 1 / (1 + len(f)) for f in row] for row in faults]
    return [(int(i), int(j)) for i, j in zip(*linear_sum_assignment(worth, maximize=True), strict=True)]


def _in_sequence(wanted: Sequence[ExpectedCall], calls: Sequence[ReadCall]) -> Verdict:
    """The right calls, compared place by place."""
    for number, (expected, call) in enumerate(zip(wanted, calls, strict=True), start=1):
        faults = _faults(expected, call)
        if faults != []:
            label = "wrong_tool" if faults is None else "wrong_arguments"
            return label, (f"right calls in another order: call {number} should be {_described(expected)}, is {call}",)
    return "correct", ()


def _correctness(turn: Turn, reply: Reply, calls: Sequence[ReadCall], unsound: Verdict | None) -> Verdict:
    banned = forbidden(turn.expect, calls)
    if banned:
        return "forbidden_call", banned
    if unsound:
        return unsound
    label, evidence = compare(turn.expect, calls)
    if label == "no_call" and reply.content.strip():
        evidence = (*evidence, f"said instead: {quote(reply.content)}")
    return label, evidence


def calls_fit(turn: Turn, reply: Reply) -> bool:
    """Whether the reply's calls are sound, permitted and exactly the expected ones.

    :raises ValueError: see :func:`evaluate`.
    """
    calls = read_calls(turn, reply)
    return _correctness(turn, reply, calls, _unsound(turn, reply, calls))[0] == "correct"
