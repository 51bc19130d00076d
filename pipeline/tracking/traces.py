"""Flipped turns as MLflow traces: what was asked, both replies side by side, and what the evaluators said.

Each trace hangs below the gate's run. Its feedback carries the metric's name, so that MLflow's table of traces
has a column for each metric, and says whether the *candidate* passed; the rationale tells both sides.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluators.turn import Reply, Turn
from pipeline.tracking.facts import clipped

TRACES = 100
"""Flipped turns logged of one run, the gravest first; all of them are in its table of flips."""
_PREVIEW = 1000
_EVALUATORS = "quant-gate evaluators"


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the evaluators said of one metric on a turn where the sides differ."""

    metric: str
    passed: bool
    """Whether the candidate did."""
    rationale: str
    labels: Mapping[str, str]
    """By side."""


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """One flipped turn as it is logged. Messages are OpenAI chat messages."""

    turn_id: str
    tags: Mapping[str, str]
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    behaviour: str
    replies: Mapping[str, Mapping[str, Any]]
    feedback: Sequence[Feedback]
    id: str = field(default_factory=lambda: f"tr-{uuid.uuid4().hex}")


def turn_traces(
    flips: Iterable[Mapping[str, Any]],
    turns: Mapping[str, Turn],
    baseline: Mapping[str, Reply],
    candidate: Mapping[str, Reply],
) -> list[TurnTrace]:
    """Arrange flips by turn, the gravest first: critical losses, losses, gains.

    :param flips: lines of ``flips.jsonl``.
    """
    by_turn: dict[str, list[Mapping[str, Any]]] = {}
    for flip in flips:
        by_turn.setdefault(flip["turn_id"], []).append(flip)
    order = sorted(by_turn, key=lambda name: (-max(_gravity(flip) for flip in by_turn[name]), name))
    return [_trace(turns[name], by_turn[name], baseline[name], candidate[name]) for name in order[:TRACES]]


def _gravity(flip: Mapping[str, Any]) -> int:
    if flip["direction"] != "pass_to_fail":
        return 0
    return 2 if flip["critical"] else 1


def _trace(turn: Turn, flips: Sequence[Mapping[str, Any]], baseline: Reply, candidate: Reply) -> TurnTrace:
    worse = any(flip["direction"] == "pass_to_fail" for flip in flips)
    return TurnTrace(
        turn_id=turn.id,
        tags={
            "flip": "worse" if worse else "better",
            "critical": str(turn.expect.critical).lower(),
            "scenario": turn.scenario,
            "slices": ", ".join(turn.slices),
            "metrics": ", ".join(flip["metric"] for flip in flips),
        },
        messages=turn.messages,
        tools=turn.tools,
        behaviour=turn.expect.behaviour.value,
        replies={"baseline": _answer(baseline), "candidate": _answer(candidate)},
        feedback=[_feedback(flip) for flip in flips],
    )


def _answer(reply: Reply) -> dict[str, Any]:
    """The body of a chat completion, as far as it was kept; of a failed request, its error."""
    if reply.error is not None:
        return {"error": reply.error}
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(reply.tool_calls)
        ]
    return {"choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}]}


def _feedback(flip: Mapping[str, Any]) -> Feedback:
    passed = flip["direction"] == "fail_to_pass"
    said = []
    for side, good in (("baseline", not passed), ("candidate", passed)):
        evidence = "".join(f"\n- {line}" for line in flip[side]["evidence"])
        said.append(f"{side} {'passed' if good else 'failed'}: {flip[side]['label']}{evidence}")
    labels = {side: flip[side]["label"] for side in ("baseline", "candidate")}
    return Feedback(flip["metric"], passed, "\n".join(said), labels)


# --- the part that needs mlflow ----------------------------------------------------------------


def log_traces(uri: str, experiment_id: str, run_id: str, traces: Sequence[TurnTrace]) -> None:
    """Log the traces below a run. Written at once, not through MLflow's background queue, which hides failures.

    :raises Exception: whatever MLflow raises.
    """
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    now = time.time_ns()
    # MLflow's table begins with the latest: a millisecond apart, they stand in their order
    moments = [now - place * 1_000_000 for place in range(len(traces))]
    for trace, moment in zip(traces, moments, strict=True):
        client.start_trace(_info(trace, experiment_id, run_id, moment))
    spans = [span for trace, moment in zip(traces, moments, strict=True) for span in _spans(trace, moment)]
    for first in range(0, len(spans), 30):  # ten turns: policies of many pages must not add up to one huge request
        client.log_spans(experiment_id, spans[first : first + 30])


def _info(trace: TurnTrace, experiment_id: str, run_id: str, now: int) -> Any:
    from mlflow.entities import (
        AssessmentSource,
        AssessmentSourceType,
        Expectation,
        TraceInfo,
        TraceLocation,
        TraceState,
    )
    from mlflow.entities import Feedback as MlflowFeedback
    from mlflow.tracing.constant import AssessmentMetadataKey, TraceMetadataKey, TraceTagKey

    by_rule = AssessmentSource(AssessmentSourceType.CODE, _EVALUATORS)
    author = AssessmentSource(AssessmentSourceType.HUMAN, "golden set")
    feedback = [
        MlflowFeedback(
            name=each.metric,
            value=each.passed,
            rationale=clipped(each.rationale, 5000),
            source=by_rule,
            trace_id=trace.id,
            metadata={AssessmentMetadataKey.SOURCE_RUN_ID: run_id, **each.labels},
        )
        for each in trace.feedback
    ]
    expected = Expectation(name="behaviour", value=trace.behaviour, source=author, trace_id=trace.id)
    return TraceInfo(
        trace_id=trace.id,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=now // 1_000_000,
        execution_duration=0,
        state=TraceState.OK,
        request_preview=clipped(_last_question(trace), _PREVIEW),
        response_preview=clipped(_in_short(trace), _PREVIEW),
        client_request_id=trace.turn_id,
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        tags={TraceTagKey.TRACE_NAME: trace.turn_id, **{name: clipped(text, 250) for name, text in trace.tags.items()}},
        assessments=[*feedback, expected],
    )


def _last_question(trace: TurnTrace) -> str:
    asked = [message for message in trace.messages if message.get("role") == "user"]
    return str(asked[-1].get("content") or "") if asked else ""


def _in_short(trace: TurnTrace) -> str:
    """Both replies on a line each, the candidate's first: the table cuts what is long."""
    return "\n".join(f"{side}: {_plainly(_said(trace.replies[side]))}" for side in ("candidate", "baseline"))


def _plainly(said: Mapping[str, Any]) -> str:
    calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in said.get("tool_calls", ())]
    return " ".join(part for part in (said.get("error"), said.get("content"), *calls) if part) or "(empty)"


def _said(answer: Mapping[str, Any]) -> Any:
    """What one side said: its message, or why there is none."""
    return answer["choices"][0]["message"] if "choices" in answer else answer


def _spans(trace: TurnTrace, now: int) -> list[Any]:
    from mlflow.entities import SpanType

    question = {"turn": trace.turn_id, "asked": _last_question(trace)}
    answers = {side: _said(answer) for side, answer in trace.replies.items()}
    request = {"messages": list(trace.messages), **({"tools": list(trace.tools)} if trace.tools else {})}
    root = uuid.uuid4().hex[:16]
    spans = [_span(trace, "both replies", SpanType.EVALUATOR, (question, answers), now, root)]
    for side, answer in trace.replies.items():
        own = uuid.uuid4().hex[:16]
        spans.append(_span(trace, side, SpanType.CHAT_MODEL, (request, answer), now, own, root))
    return spans


def _span(
    trace: TurnTrace, name: str, kind: str, values: tuple[Any, Any], now: int, own: str, parent: str | None = None
) -> Any:
    from mlflow.entities import Span
    from mlflow.tracing.constant import SpanAttributeKey

    attributes: dict[str, Any] = {
        SpanAttributeKey.REQUEST_ID: trace.id,
        SpanAttributeKey.SPAN_TYPE: kind,
        SpanAttributeKey.INPUTS: values[0],
        SpanAttributeKey.OUTPUTS: values[1],
    }
    if parent is not None:
        attributes[SpanAttributeKey.MESSAGE_FORMAT] = "openai"  # has the UI show a conversation
    return Span.from_dict(
        {
            "trace_id": trace.id,
            "span_id": own,
            "parent_span_id": parent,
            "name": name,
            "start_time_unix_nano": now,
            "end_time_unix_nano": now,
            "status": {"code": "STATUS_CODE_OK"},
            "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in attributes.items()},
        }
    )
