"""The decision record and its flips, as the reports read them.

Reading is strict about what a report shows (a missing or non-finite figure is an error, never a blank)
and ignores parts that it does not know, so a record may grow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evaluators.turn import Reply, ToolCall
from pipeline.errors import RecordError, Verdict

_REMEDY = "The record is damaged or comes from another version: run the decide stage again."

Finite = Annotated[float, Field(allow_inf_nan=False)]
Flips = int | Annotated[Finite, AfterValidator(lambda rates: round(rates, 1))]
"""A count of turns; where each turn is sampled several times a sum of rates, with a digit for people."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reason(_Part):
    """Why the verdict is what it is; ``text`` is plain language."""

    code: str
    verdict: Verdict
    metric: str | None = None
    text: str


class Baseline(_Part):
    """The unquantized side."""

    source: str
    revision: str | None = None
    digest: str
    weight_bytes: int | None


class Candidate(_Part):
    """The quantized side; digest and bytes are None where none was made."""

    digest: str | None
    weight_bytes: int | None
    recipe: dict[str, Any]


class Engine(_Part):
    """What served both sides."""

    name: str
    version: str
    device: str
    flags: tuple[str, ...]
    environment: dict[str, Any]
    speed_representative: bool
    notes: tuple[str, ...] = ()


class GoldenFacts(_Part):
    """What was asked. ``slices`` counts turns by slice."""

    name: str
    digest: str
    transcripts: int
    scenarios: int
    turns: int
    slices: dict[str, int]


class Noise(_Part):
    """The baseline against its own repeats: how often it differs, and the candidate's flips beyond that."""

    repeats: int
    compared: int
    flips: int
    flip_rate: Finite
    excess_flips: Finite


class MetricRow(_Part):
    """One metric over all turns. Rates and differences are shares; None where no turn was scored."""

    metric: str
    gating: bool
    verdict: Verdict | None
    n: int
    clusters: int | None = None
    baseline_passed: Flips
    candidate_passed: Flips
    baseline_rate: Finite | None
    candidate_rate: Finite | None
    difference: Finite | None
    lower: Finite | None
    upper: Finite | None
    margin: Finite
    floor: Finite | None
    b: Flips
    c: Flips
    unscorable_baseline: int
    unscorable_candidate: int
    n_to_decide: int | None = None
    noise: Noise | None = None


class SliceRow(_Part):
    """One metric over the turns of one slice.

    ``flagged``: a loss beyond the margin is proved, all slices allowed for.
    """

    slice: str
    metric: str
    n: int
    b: Flips
    c: Flips
    baseline_rate: Finite | None
    candidate_rate: Finite | None
    difference: Finite | None
    lower: Finite | None
    upper: Finite | None
    flagged: bool


class Critical(_Part):
    """Turns where one failure is too many. ``upper_limit``: share of such turns that could still fail.

    ``kept``: turns that both sides pass; ``unstable``: turns that the baseline passes in some repeats only, so that
    they prove nothing.
    """

    turns: int
    passed_by_baseline: int
    failed: tuple[str, ...]
    kept: tuple[str, ...]
    unstable: tuple[str, ...]
    upper_limit: Finite | None


class Accounting(_Part):
    """How many turns were asked, and how many of them each side answered usably."""

    turns: int
    baseline_scored: int
    candidate_scored: int


class FlipCounts(_Part):
    """Flips over all metrics."""

    pass_to_fail: int
    fail_to_pass: int


class WorstFlip(_Part):
    """A lost turn to read first, with the gating metrics lost on it."""

    turn_id: str
    critical: bool
    metrics: tuple[str, ...]


class Finding(_Part):
    """What the inspection of the candidate's files, or a server's log, showed."""

    check: str
    severity: Literal["fatal", "parity", "warning", "note"]
    where: str
    text: str
    remedy: str


class ResourceRow(_Part):
    """What serving costs or yields: figures of both sides, and how much better the candidate is (shares).

    ``counted`` is False where it is shown only; ``note`` says why, or where the figures come from.
    """

    name: str
    state: Literal["better", "held", "worse", "undecided", "impossible"]
    baseline: tuple[Finite, ...]
    candidate: tuple[Finite, ...]
    better: Finite
    worse: Finite
    declared: bool
    counted: bool
    note: str
    change: Finite | None
    lower: Finite | None
    upper: Finite | None


class DriftRow(_Part):
    """Next-token distributions over some tokens of golden replies: divergences in nats, changes as shares.

    ``error``: by how much the mean divergence may be too low; intervals are None for tokens of a single scenario.
    """

    group: Literal["all", "role", "position", "context", "slice"]
    name: str
    tokens: int
    mean: Finite
    mean_interval: tuple[Finite, Finite] | None
    median: Finite
    p90: Finite
    p95: Finite
    p99: Finite
    p999: Finite
    maximum: Finite
    error: Finite
    same_top: Finite
    mean_change: Finite
    rms_change: Finite
    perplexity_baseline: Finite
    perplexity_candidate: Finite
    perplexity_ratio: Finite
    perplexity_ratio_interval: tuple[Finite, Finite] | None


class Drift(_Part):
    """How far the candidate's next-token distributions lie from the baseline's. ``unread``: why, by turn.

    ``turn_means``: mean divergence of each reply that was compared.

    ``rows`` begin with the one over all tokens; there are none where no turn could be compared.
    """

    turns: int
    compared: int
    top_k: int
    unread: dict[str, str]
    rows: tuple[DriftRow, ...]
    turn_means: dict[str, Finite]


class LostItem(_Part):
    """An item of a general task that the baseline passes and the candidate fails; texts are clipped."""

    id: str
    metric: str
    target: str
    question: str
    baseline: str
    candidate: str


class General(_Part):
    """General ability by the tasks of a suite. ``tasks``: facts of each by its name in the suite."""

    suite: str
    items: int
    tasks: dict[str, dict[str, Any]]
    metrics: tuple[MetricRow, ...]
    lost: tuple[LostItem, ...]


class DecisionRecord(_Part):
    """``decision.json``, as far as reports read it."""

    schema_version: Literal[1]
    verdict: Verdict
    exit_code: int
    reasons: tuple[Reason, ...]
    next_step: str
    to_change: str
    baseline: Baseline
    candidate: Candidate
    engine: Engine
    golden_set: GoldenFacts
    policy: dict[str, Any]
    metrics: tuple[MetricRow, ...]
    slices: tuple[SliceRow, ...]
    critical: Critical
    scenarios_wiped_out: tuple[str, ...]
    accounting: Accounting
    flips: FlipCounts
    worst_flips: tuple[WorstFlip, ...]
    inputs: dict[str, Any]
    findings: tuple[Finding, ...] = ()
    drift: Drift | None = None
    general: General | None = None
    resources: tuple[ResourceRow, ...] = ()
    conditions: tuple[str, ...] = ()
    load: dict[str, Any] | None = None
    times: dict[str, Any] = {}

    @property
    def replayed(self) -> bool:
        """Whether anything was asked; a run can be settled before."""
        return self.accounting.turns > 0

    @property
    def confidence(self) -> float:
        """Confidence level of each one-sided limit, as a share."""
        return 1 - float(self.policy["alpha"])


class FlipSide(_Part):
    """What the evaluator said about one side."""

    label: str
    evidence: tuple[str, ...]


class Flip(_Part):
    """One metric on one turn where one side passes and the other fails."""

    turn_id: str
    metric: str
    direction: Literal["pass_to_fail", "fail_to_pass"]
    critical: bool
    scenario: str
    slices: tuple[str, ...]
    baseline: FlipSide
    candidate: FlipSide


def read_record(decision: Mapping[str, Any]) -> DecisionRecord:
    """Read a loaded ``decision.json``.

    :raises RecordError: a field is missing or has a value that no report could show.
    """
    try:
        record = DecisionRecord.model_validate(decision)
        if not 0 < record.confidence < 1:
            raise ValueError("policy.alpha: not between 0 and 1")
    except ValidationError as error:
        faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise RecordError("decision record: " + "; ".join(faults), _REMEDY) from error
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"decision record: policy.alpha: {error}", _REMEDY) from error
    return record


def load_flips(path: Path) -> list[Flip]:
    """Load ``flips.jsonl``.

    :raises RecordError: a broken line, named by file and number.
    """
    flips = []
    for number, value in _lines(path):
        try:
            flips.append(Flip.model_validate(value))
        except ValidationError as error:
            raise RecordError(f"{path}:{number}: not a flip: {error}", _REMEDY) from error
    return flips


def load_replies(path: Path, wanted: frozenset[str]) -> dict[str, Reply]:
    """Load the replies to the ``wanted`` turns from ``replies.jsonl``; of several, the last counts.

    :raises RecordError: a broken line, named by file and number.
    """
    replies: dict[str, Reply] = {}
    for number, value in _lines(path):
        try:
            turn_id = value["turn_id"]
            if turn_id not in wanted:
                continue
            reply = value.get("reply") or {}
            replies[turn_id] = Reply(
                turn_id=turn_id,
                content=reply.get("content") or "",
                tool_calls=tuple(ToolCall(c["name"], c["arguments"]) for c in reply.get("tool_calls") or ()),
                finish_reason=reply.get("finish_reason"),
                completion_tokens=reply.get("completion_tokens"),
                error=value.get("error"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"{path}:{number}: not a reply: {error!r}", "Run the replay stage again.") from error
    return replies


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with path.open(encoding="utf-8") as handle:
            for number, line in enumerate(handle, 1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except ValueError as error:
                        raise RecordError(f"{path}:{number}: not JSON: {error}", _REMEDY) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot read: {error}", _REMEDY) from error
