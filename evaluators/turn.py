"""The data model of golden transcripts, model replies and outcomes.

Everything here is a frozen fact with no I/O: the loader in :mod:`pipeline.golden` builds it from
JSON that has already passed ``golden_sets/schema/transcript.schema.json``; evaluators read it.

Vocabulary
----------
transcript   one golden support conversation (OpenAI chat messages)
turn         an assistant message that carries ``expect``: the unit that is generated and scored
reply        what one served model answered to the golden history before a turn
outcome      one metric on one turn for one side
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

JsonObject = Mapping[str, Any]


class Behaviour(StrEnum):
    """What a good assistant does at a turn."""

    TOOL_CALL = "tool_call"
    """Call the expected tool(s)."""
    ANSWER = "answer"
    """Answer from the facts at hand, without a tool call."""
    CLARIFY = "clarify"
    """Ask for the missing piece of information, without a tool call."""
    REFUSE = "refuse"
    """Decline: the request is outside policy or unsafe."""
    COMPLY = "comply"
    """Help with a request that only looks like one to refuse."""
    ESCALATE = "escalate"
    """Hand over to a human, by the escalation tool where one is expected, else in words."""


class Status(StrEnum):
    """How one metric came out on one turn."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not_applicable"
    """The metric does not read this turn; decided by the turn alone, so equal on both sides."""
    UNSCORABLE = "unscorable"
    """The turn should have been read but no usable reply exists. Never a pass, never dropped."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A tool call that a turn expects (or forbids).

    ``arguments`` maps each checked parameter to its acceptable values (any-of, never empty).
    A parameter in ``optional`` may be left out; one in ``free`` must be present with any value
    that its schema allows; one in ``unordered`` holds a list compared without order.
    A parameter named nowhere must not be present.
    """

    name: str
    arguments: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is checked at a turn.

    ``say`` is a sequence of any-of groups: every group needs one match. ``never_say`` needs no
    match at all. A pattern is a phrase (case-insensitive, whitespace-normalised, on word
    boundaries) or, with the prefix ``re:``, a regular expression (case-insensitive).
    ``alternatives`` are other complete answers a good agent may give. A reply is read as one of
    them or as the main one, the same for all metrics: see :func:`evaluators.evaluate`. What is
    forbidden (``forbidden_tools``, ``forbidden_calls``, ``never_say``) in the main expectation
    holds for all.
    """

    behaviour: Behaviour
    tool_calls: tuple[ExpectedCall, ...] = ()
    alternatives: tuple[Expectation, ...] = ()
    order: Literal["any", "exact"] = "any"
    forbidden_tools: frozenset[str] = frozenset()
    forbidden_calls: tuple[ExpectedCall, ...] = ()
    say: tuple[tuple[str, ...], ...] = ()
    never_say: tuple[str, ...] = ()
    critical: bool = False


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One typed rule of a policy file; ``type`` selects the check in ``evaluators/policy.py``.

    ``parameters`` holds the keys that the type needs, validated when the policy is loaded.
    """

    id: str
    type: str
    parameters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy document: ``text`` is sent as the system message, ``rules`` are checked by rule."""

    id: str
    text: str
    rules: tuple[PolicyRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A checkpointed turn: the request to send and what is expected back.

    ``id`` is ``"<transcript id>#<index of the assistant message in the transcript>"``.
    ``messages`` is the golden history before the turn, the system message first where there is
    one; ``tools`` are OpenAI function tools. ``gold`` is the golden assistant message.
    """

    id: str
    transcript_id: str
    scenario: str
    slices: tuple[str, ...]
    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    expect: Expectation
    gold: JsonObject
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the server returned it: ``arguments`` is the raw JSON *text*, unparsed."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What one side answered at one turn.

    ``error`` is set when no answer was obtained (HTTP error, time-out, unreadable body); then the
    other fields mean nothing and every applicable metric is unscorable. ``finish_reason`` is the
    server's (``stop``, ``length``, ``tool_calls``, ...); ``completion_tokens`` counts tokens.
    """

    turn_id: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    completion_tokens: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One metric on one turn for one side. ``label`` names the way it passed or failed."""

    turn_id: str
    metric: str
    status: Status
    label: str
    evidence: tuple[str, ...] = ()


Evaluator = Callable[[Turn, Reply], Sequence[Outcome]]
"""A pure function: same turn and reply, same outcomes. It scores each metric of its module against
``turn.expect``, leaving its alternatives aside, as if each metric applied. Whether one does is decided
from the turn alone, never from the reply, so that both sides of a pair always have the same metrics."""
