"""Policy adherence: what a turn or its policy file says must, or must not, be said and done.

Labels of ``policy_adherence``, the first that holds:

``empty``             no text and no call: nothing that could adhere
*a rule's type*       a rule of the policy file is broken (:data:`RULE_TYPES`)
``said_forbidden``    a ``never_say`` pattern of the turn matches
``not_said``          a ``say`` group has no match
``adhered``           none of these

A rule speaks only about what a reply does: one about writes holds for a reply that writes nothing.
A ``never_say`` rule for some behaviours reads the behaviour of the answer that the reply is read as.
``claim_needs_result`` asks for an earlier result of one of its tools: a call in the same reply has none yet.

Limits: rules read words and arguments, not intent. A promise in words that no pattern foresees is
not seen, and one earlier success of a tool backs every later claim about it. ``grounded_amounts``
takes a number that the model worked out itself as not grounded, and any equal number in the conversation
as its ground, whatever it counts there ("30 EUR" beside "within 30 days"): where an amount must be that of a
result, the turn says so with ``say``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from evaluators.alternatives import expectations
from evaluators.grounding import readings, ungrounded_amounts, ungrounded_ids
from evaluators.patterns import compile_pattern, first_match, normalise, pattern_complaints
from evaluators.results import failed, passed, quote, shown, text_of
from evaluators.turn import Behaviour, Expectation, Outcome, PolicyRule, Reply, Turn
from evaluators.values import MalformedArguments, parse_arguments

METRIC = "policy_adherence"

Check = Callable[[PolicyRule, Turn, Reply], list[str]]
"""Evidence of each breach of a rule."""


# --- rules -------------------------------------------------------------------------------------


def _never_say(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    behaviours = rule.parameters.get("behaviours")
    if behaviours is not None and turn.expect.behaviour not in behaviours:
        return []
    found = first_match(rule.parameters["patterns"], reply.content)
    return [f"said {quote(found[1])}"] if found else []


def _writes(rule: PolicyRule, reply: Reply) -> list[str]:
    names = [call.name for call in reply.tool_calls if call.name in rule.parameters["write_tools"]]
    return list(dict.fromkeys(names))


def _identity_before_write(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    verify = rule.parameters["verify_tool"]
    if any(_succeeded(result) for result in _results_of(verify, turn.messages)):
        return []
    return [f"{name} called without an earlier successful {verify}" for name in _writes(rule, reply)]


def _results_of(tool: str, messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Texts of the results of all calls to ``tool`` in the history."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and names.get(message.get("tool_call_id", "")) == tool:
            yield text_of(message)


def _succeeded(result: str) -> bool:
    """A JSON object without an "error" key. Anything else shows no success."""
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "error" not in value


_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")

_SUPPOSED = re.compile(
    r"\b(?:if|once|when|whenever|unless|until|after|before|as soon as|as if|whether|shall|should|would|could|will have"
    r"|to have|wenn|falls|sobald|nachdem|lorsque|quand|une fois|d[eè]s que|cuando|una vez|quando|una volta|dopo)\b"
    r"|^(?:do|does|did|has|have|had|is|are|was|were|can|may) [^?]*\?$",
    re.IGNORECASE,
)
"""In a sentence, makes of "it is cancelled" a supposition or a question: "If you agree, it is cancelled"."""


def _claim_needs_result(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    results = (result for tool in rule.parameters["tools"] for result in _results_of(tool, turn.messages))
    if any(_succeeded(result) for result in results):
        return []
    sentences = (s for s in _SENTENCE_END.split(normalise(reply.content)) if not _SUPPOSED.search(s))
    claims = (first_match(rule.parameters["patterns"], sentence) for sentence in sentences)
    tools = ", ".join(rule.parameters["tools"])
    return [f"claims {quote(found[1])} without a successful {tools} before" for found in claims if found]


def _confirmation_before_write(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    writes = _writes(rule, reply)
    last = next((text_of(m) for m in reversed(turn.messages) if m["role"] == "user"), "")
    if not writes or compile_pattern(rule.parameters["confirmation"]).search(last) is not None:
        return []
    return [f"{name} called, but the last customer message is no confirmation: {quote(last)}" for name in writes]


def _argument_limit(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    argument, maximum = rule.parameters["argument"], Decimal(str(rule.parameters["maximum"]))
    faults = []
    for call in reply.tool_calls:
        if call.name != rule.parameters["tool"]:
            continue
        try:
            arguments = parse_arguments(call.arguments, may_be_empty=True)
        except MalformedArguments as error:
            faults.append(f"{call.name}: {argument} cannot be read: {error}")
            continue
        if argument in arguments and not _within(arguments[argument], maximum):
            faults.append(f"{call.name}: {argument} is {shown(arguments[argument])}, at most {maximum} is allowed")
    return faults


def _within(value: Any, maximum: Decimal) -> bool:
    """Whether a number, also one written as text, is within the limit. What is no number is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        if not digits or not set(digits) <= set("0123456789.,' "):
            return False
        try:
            values = readings(digits)
        except ArithmeticError:
            return False
        return max(values) <= maximum or value.strip().startswith("-")
    return Decimal(str(value)) <= maximum


def _grounded_amounts(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    pieces = ungrounded_amounts(compile_pattern(rule.parameters["pattern"]), reply.content, turn)
    return [f"{quote(piece)} is nowhere in the conversation" for piece in pieces]


def _grounded_ids(rule: PolicyRule, turn: Turn, reply: Reply) -> list[str]:
    texts = [reply.content, *(_readable(call.arguments) for call in reply.tool_calls)]
    pieces = ungrounded_ids(compile_pattern(rule.parameters["pattern"]), texts, turn)
    return [f"{quote(piece)} is nowhere in the conversation" for piece in pieces]


def _readable(arguments: str) -> str:
    """Argument text with JSON escapes resolved where it can be read, else as it is."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


# --- parameters of rules -----------------------------------------------------------------------


def _is_name(value: Any) -> list[str]:
    return [] if isinstance(value, str) and value.strip() else ["must be a name"]


def _are_names(value: Any) -> list[str]:
    good = isinstance(value, list) and value and all(not _is_name(item) for item in value)
    return [] if good else ["must be a list of one or more names"]


def _are_behaviours(value: Any) -> list[str]:
    known = ", ".join(Behaviour)
    if not isinstance(value, list) or not value:
        return [f"must be a list of one or more of: {known}"]
    return [f"{item!r} is not a behaviour (known: {known})" for item in value if item not in list(Behaviour)]


def _are_patterns(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        return ["must be a list of one or more patterns"]
    return [complaint for item in value for complaint in pattern_complaints(item)]


def _is_number(value: Any) -> list[str]:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return [] if good else ["must be a number"]


@dataclass(frozen=True, slots=True)
class RuleType:
    """How one type of rule is checked, and what its parameters must be."""

    check: Check
    required: Mapping[str, Callable[[Any], list[str]]]
    optional: Mapping[str, Callable[[Any], list[str]]]


RULE_TYPES: Mapping[str, RuleType] = {
    "never_say": RuleType(_never_say, {"patterns": _are_patterns}, {"behaviours": _are_behaviours}),
    "identity_before_write": RuleType(_identity_before_write, {"verify_tool": _is_name, "write_tools": _are_names}, {}),
    "confirmation_before_write": RuleType(
        _confirmation_before_write, {"write_tools": _are_names, "confirmation": pattern_complaints}, {}
    ),
    "claim_needs_result": RuleType(_claim_needs_result, {"patterns": _are_patterns, "tools": _are_names}, {}),
    "argument_limit": RuleType(_argument_limit, {"tool": _is_name, "argument": _is_name, "maximum": _is_number}, {}),
    "grounded_amounts": RuleType(_grounded_amounts, {"pattern": pattern_complaints}, {}),
    "grounded_ids": RuleType(_grounded_ids, {"pattern": pattern_complaints}, {}),
}


def validate_rule(rule: PolicyRule) -> list[str]:
    """What is wrong with a rule's type and parameters; empty when it can be checked."""
    kind = RULE_TYPES.get(rule.type)
    if kind is None:
        return [f"unknown rule type {rule.type!r} (known: {', '.join(RULE_TYPES)})"]
    known = {**kind.required, **kind.optional}
    complaints = [f"{name} is missing" for name in kind.required if name not in rule.parameters]
    for name, value in rule.parameters.items():
        if name not in known:
            complaints.append(f"unknown parameter {name!r} (known: {', '.join(known)})")
        else:
            complaints.extend(f"{name}: {complaint}" for complaint in known[name](value))
    return complaints


# --- the metric --------------------------------------------------------------------------------


def applies(turn: Turn) -> bool:
    """Whether the turn or its policy says anything to adhere to."""
    stated = any(expectation.say or expectation.never_say for expectation in expectations(turn))
    return stated or (turn.policy is not None and bool(turn.policy.rules))


METRICS = {METRIC: applies}


def evaluate(turn: Turn, reply: Reply) -> tuple[Outcome, ...]:
    """Score ``policy_adherence``.

    :raises ValueError: an unusable pattern, rule or tool schema.
    :raises KeyError: a rule of an unknown type, or without a parameter it needs.
    """
    if not reply.content.strip() and not reply.tool_calls:
        return (failed(turn, METRIC, "empty", ("the reply has neither text nor a call",)),)
    breaches: list[tuple[str, str]] = []
    for rule in turn.policy.rules if turn.policy else ():
        breaches += [(rule.type, f"rule {rule.id}: {e}") for e in RULE_TYPES[rule.type].check(rule, turn, reply)]
    breaches += [("said_forbidden", text) for text in forbidden_words(turn.expect, reply)]
    breaches += [("not_said", text) for text in unmet_groups(turn.expect, reply)]
    if breaches:
        return (failed(turn, METRIC, breaches[0][0], [text for _, text in breaches]),)
    return (passed(turn, METRIC, "adhered"),)


def forbidden_words(expectation: Expectation, reply: Reply) -> list[str]:
    """Evidence for each ``never_say`` pattern of ``expectation`` that the reply's text matches."""
    found = ((pattern, first_match([pattern], reply.content)) for pattern in expectation.never_say)
    return [f"said {quote(match[1])}, forbidden by {pattern!r}" for pattern, match in found if match]


def unmet_groups(expectation: Expectation, reply: Reply) -> list[str]:
    """Evidence for each ``say`` group of ``expectation`` without a match in the reply's text."""
    return [
        f"said none of: {', '.join(map(repr, group))}"
        for group in expectation.say
        if first_match(group, reply.content) is None
    ]
