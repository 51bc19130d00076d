"""From a transcript that passed the checks to the turns that are sent and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.turn import Behaviour, Expectation, ExpectedCall, Policy, Turn
from pipeline.digests import canonical_json
from pipeline.golden.reading import Library, Record

LONG_HISTORY = 20
"""Messages before a turn (system excluded) from which it belongs to the slice ``long_history``."""

BEHAVIOUR_SLICES = {
    Behaviour.TOOL_CALL: "tool_calls",
    Behaviour.REFUSE: "must_refuse",
    Behaviour.COMPLY: "must_not_refuse",
    Behaviour.CLARIFY: "clarify",
    Behaviour.ESCALATE: "escalation",
}
DERIVED_SLICES = (*BEHAVIOUR_SLICES.values(), "long_history")
"""Slices that follow from the turns; a set declares others beside them."""


def tools_of(data: Mapping[str, Any], library: Library) -> tuple[Mapping[str, Any], ...]:
    """The tools offered in a transcript, resolved."""
    tools = data.get("tools")
    return library.tools[tools] if isinstance(tools, str) else tuple(tools or ())


def policy_of(data: Mapping[str, Any], library: Library) -> Policy | None:
    """The policy that a transcript names, resolved."""
    return library.policies[data["policy"]] if "policy" in data else None


def sent_messages(messages: Sequence[Mapping[str, Any]], policy: Policy | None) -> tuple[dict[str, Any], ...]:
    """Messages as they are sent: the policy's text first, and never an ``expect``."""
    sent = [{key: value for key, value in message.items() if key != "expect"} for message in messages]
    system = [{"role": "system", "content": policy.text}] if policy else []
    return (*system, *sent)


def turns_of(record: Record, library: Library) -> tuple[Turn, ...]:
    """The checkpointed turns of one transcript, in order."""
    data = record.data
    policy, tools = policy_of(data, library), tools_of(data, library)
    turns = []
    for index, message in enumerate(data["messages"]):
        if "expect" not in message:
            continue
        expect = expectation_of(message["expect"])
        history = sent_messages(data["messages"][:index], policy)
        turns.append(
            Turn(
                id=f"{data['id']}#{index}",
                transcript_id=data["id"],
                scenario=data["scenario"],
                slices=_slices(data, message["expect"], expect, history),
                messages=history,
                tools=tools,
                expect=expect,
                gold=sent_messages([message], None)[0],
                policy=policy,
            )
        )
    return tuple(turns)


def _slices(
    data: Mapping[str, Any],
    raw: Mapping[str, Any],
    expect: Expectation,
    history: Sequence[Mapping[str, Any]],
) -> tuple[str, ...]:
    names = {*data["slices"], *raw.get("slices", ())}
    if expect.behaviour in BEHAVIOUR_SLICES:
        names.add(BEHAVIOUR_SLICES[expect.behaviour])
    if sum(message["role"] != "system" for message in history) >= LONG_HISTORY:
        names.add("long_history")
    return tuple(sorted(names))


def expectation_of(raw: Mapping[str, Any]) -> Expectation:
    """An ``expect`` object (or one of its alternatives) as facts."""
    return Expectation(
        behaviour=Behaviour(raw["behaviour"]),
        tool_calls=tuple(expected_call(call) for call in raw.get("tool_calls", ())),
        alternatives=tuple(expectation_of(other) for other in raw.get("alternatives", ())),
        order=raw.get("order", "any"),
        forbidden_tools=frozenset(raw.get("forbidden_tools", ())),
        forbidden_calls=tuple(expected_call(call) for call in raw.get("forbidden_calls", ())),
        say=tuple(tuple(group) for group in raw.get("say", ())),
        never_say=tuple(raw.get("never_say", ())),
        critical=raw.get("critical", False),
    )


def expected_call(raw: Mapping[str, Any]) -> ExpectedCall:
    """A call with, per parameter, its ``arguments`` value first and then what else is acceptable."""
    values: dict[str, list[Any]] = {name: [value] for name, value in raw.get("arguments", {}).items()}
    for name, acceptable in raw.get("acceptable", {}).items():
        values.setdefault(name, []).extend(acceptable)
    return ExpectedCall(
        name=raw["name"],
        arguments={name: _distinct(listed) for name, listed in values.items()},
        optional=frozenset(raw.get("optional", ())),
        free=frozenset(raw.get("free", ())),
        unordered=frozenset(raw.get("unordered", ())),
    )


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    """Without repeats, told apart as JSON does (1 and true differ)."""
    first: dict[str, Any] = {}
    for value in values:
        first.setdefault(canonical_json(value), value)
    return tuple(first.values())
