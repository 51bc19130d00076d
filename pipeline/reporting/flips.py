"""Flipped turns as the HTML report shows them: side by side, worst first, clipped to a sane size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluators.turn import Expectation, ExpectedCall, Reply, ToolCall, Turn
from pipeline.errors import RecordError
from pipeline.reporting.differences import Difference, word_difference
from pipeline.reporting.record import Flip

TURNS_SHOWN = 200
REPLY_CHARACTERS = 4_000
MESSAGE_CHARACTERS = 1_500
MESSAGES_SHOWN = 30
PAGE_CHARACTERS = 3_000_000
"""Characters of conversations and replies in one page; a page much larger is slow to open and to send."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation before a turn; ``policy`` refers to the list of policy texts."""

    role: str
    text: str
    policy: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One reply. ``facts`` says how it ended; ``error`` is set when there was no answer."""

    facts: str
    error: str | None


@dataclass(frozen=True, slots=True)
class FlippedTurn:
    """A turn with everything that flipped on it.

    :ivar conversation: messages before the customer's last one; ``left_out`` earlier ones are not among them.
    :ivar asked: the customer's last message, and what tools answered since.
    """

    number: int
    turn_id: str
    scenario: str
    slices: tuple[str, ...]
    worse: bool
    critical: bool
    flips: tuple[Flip, ...]
    expectation: tuple[tuple[str, str], ...]
    conversation: tuple[Message, ...]
    left_out: int
    asked: tuple[Message, ...]
    baseline: Side
    candidate: Side
    content: Difference
    calls: Difference

    @property
    def weight(self) -> int:
        """Characters that this turn adds to a page."""
        replies = sum(len(piece.text) for part in (self.content, self.calls) for piece in (*part.before, *part.after))
        return replies + sum(len(message.text) for message in (*self.conversation, *self.asked))


@dataclass(frozen=True, slots=True)
class FlipView:
    """The flipped turns that fit, the system texts they refer to, and how many turns did not fit."""

    turns: tuple[FlippedTurn, ...]
    policies: tuple[str, ...]
    total: int

    @property
    def not_shown(self) -> int:
        """Flipped turns that are only in ``flips.jsonl``."""
        return self.total - len(self.turns)


def flip_view(
    flips: Iterable[Flip],
    turns: Mapping[str, Turn],
    baseline: Mapping[str, Reply],
    candidate: Mapping[str, Reply],
) -> FlipView:
    """Arrange flips by turn: critical losses, losses, then gains; within each by scenario and turn.

    :raises RecordError: a flip on a turn that the golden set or one side's replies do not have.
    """
    by_turn: dict[str, list[Flip]] = {}
    for flip in flips:
        by_turn.setdefault(flip.turn_id, []).append(flip)
    policies: list[str] = []
    shown: list[FlippedTurn] = []
    room = PAGE_CHARACTERS
    for turn_id in sorted(by_turn, key=lambda key: _order(by_turn[key])):
        if len(shown) == TURNS_SHOWN or room <= 0:
            break
        for name, known in (("golden set", turns), ("baseline replies", baseline), ("candidate replies", candidate)):
            if turn_id not in known:
                raise RecordError(
                    f"flips.jsonl: turn {turn_id!r} is not in the {name}",
                    "The decision belongs to other inputs: run the decide stage again.",
                )
        replies = (baseline[turn_id], candidate[turn_id])
        flipped = _flipped_turn(len(shown) + 1, by_turn[turn_id], turns[turn_id], replies, policies)
        room -= flipped.weight
        shown.append(flipped)
    return FlipView(tuple(shown), tuple(policies), len(by_turn))


def _order(flips: Sequence[Flip]) -> tuple[bool, bool, str, str]:
    worse = any(f.direction == "pass_to_fail" for f in flips)
    critical = any(f.critical and f.direction == "pass_to_fail" for f in flips)
    return (not critical, not worse, flips[0].scenario, flips[0].turn_id)


def _flipped_turn(
    number: int, flips: list[Flip], turn: Turn, replies: tuple[Reply, Reply], policies: list[str]
) -> FlippedTurn:
    baseline, candidate = replies
    history = turn.messages
    kept = history[-MESSAGES_SHOWN:]
    if kept and history[0].get("role") == "system" and len(history) > MESSAGES_SHOWN:
        kept = (history[0], *kept)  # the policy is always one click away
    messages = tuple(_message(message, policies) for message in kept)
    asked = max((place for place, message in enumerate(messages) if message.role == "user"), default=len(messages))
    return FlippedTurn(
        number=number,
        turn_id=turn.id,
        scenario=turn.scenario,
        slices=turn.slices,
        worse=any(f.direction == "pass_to_fail" for f in flips),
        critical=any(f.critical for f in flips),
        flips=tuple(sorted(flips, key=lambda f: (f.direction != "pass_to_fail", f.metric))),
        expectation=tuple(expectation_lines(turn.expect)),
        conversation=messages[:asked],
        left_out=len(history) - len(kept),
        asked=messages[asked:],
        baseline=_side(baseline),
        candidate=_side(candidate),
        content=word_difference(clip(baseline.content, REPLY_CHARACTERS), clip(candidate.content, REPLY_CHARACTERS)),
        calls=word_difference(_calls(baseline.tool_calls), _calls(candidate.tool_calls)),
    )


def clip(text: str, limit: int) -> str:
    """The text, or its beginning and a note of how much was left out."""
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit:,} more characters]"


def _message(message: Mapping[str, Any], policies: list[str]) -> Message:
    role = str(message.get("role", "?"))
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    if role == "system":
        if text not in policies:
            policies.append(text)
        return Message(role, "", policies.index(text))
    calls = tuple(
        ToolCall(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    )
    return Message(role, clip("\n".join(part for part in (text, _calls(calls)) if part), MESSAGE_CHARACTERS))


def _side(reply: Reply) -> Side:
    facts = [f"ended with {reply.finish_reason}" if reply.finish_reason else "end not reported"]
    if reply.completion_tokens is not None:
        facts.append(f"{reply.completion_tokens} tokens")
    return Side(", ".join(facts), reply.error)


def _calls(calls: Sequence[ToolCall]) -> str:
    return clip("\n".join(f"{call.name}({_arguments(call.arguments)})" for call in calls), REPLY_CHARACTERS)


def _arguments(text: str) -> str:
    """Arguments one a line where they are a JSON object; else as they came, for the damage to be seen."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict) and value else text


def expectation_lines(expect: Expectation) -> list[tuple[str, str]]:
    """What a turn expects, as (name, text) pairs a person can read."""
    lines = [("Behaviour", expect.behaviour.value.replace("_", " "))]
    lines += [("Call", _expected_call(call)) for call in expect.tool_calls]
    if len(expect.tool_calls) > 1:
        lines.append(("Order of calls", "as listed" if expect.order == "exact" else "any"))
    lines += [("Must say", " or ".join(group)) for group in expect.say]
    if expect.never_say:
        lines.append(("Must not say", " or ".join(expect.never_say)))
    if expect.forbidden_tools:
        lines.append(("Must not use", ", ".join(sorted(expect.forbidden_tools))))
    lines += [("Must not call", _expected_call(call)) for call in expect.forbidden_calls]
    for other in expect.alternatives:
        lines.append(("Or instead", "; ".join(f"{name.lower()}: {text}" for name, text in expectation_lines(other))))
    return lines


def _expected_call(call: ExpectedCall) -> str:
    parts = []
    for name, values in call.arguments.items():
        text = " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
        parts.append(f"{name}={text}{' (optional)' if name in call.optional else ''}")
    parts += [f"{name}=any{' (optional)' if name in call.optional else ''}" for name in sorted(call.free)]
    return f"{call.name}({', '.join(parts)})"
