"""What a decision consists of: reason codes and frozen facts. Rates and differences are shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from evaluators.turn import Outcome
from pipeline.errors import VERDICT_EXIT_CODES, Verdict
from pipeline.statistics.limits import Limits


class ReasonCode(StrEnum):
    """Why a verdict is what it is. Codes are stable: pipelines may branch on them."""

    METRICS_HELD = "METRICS_HELD"
    """ACCEPT: on every gating metric a loss beyond the margin is ruled out."""
    METRIC_LOSS = "METRIC_LOSS"
    """REJECT: on a gating metric a loss beyond the margin is proved."""
    SLICE_LOSS = "SLICE_LOSS"
    """REJECT: in a slice a loss beyond the gating metric's margin is proved, all slices allowed for (Holm)."""
    CRITICAL_TURN = "CRITICAL_TURN"
    """REJECT: the candidate fails critical turns that the baseline passes; INCONCLUSIVE: so few that noise would do."""
    SCENARIO_WIPED_OUT = "SCENARIO_WIPED_OUT"
    """REJECT: scenarios of two or more turns went from all passed to all failed, more than chance explains."""
    NO_BENEFIT = "NO_BENEFIT"
    """REJECT: no resource is better by its threshold, or one is worse beyond its margin: not worth shipping."""
    BENEFIT_UNDECIDED = "BENEFIT_UNDECIDED"
    """INCONCLUSIVE: whether a resource is worse beyond its margin was not decided, or none is known."""
    ARTIFACT_BROKEN = "ARTIFACT_BROKEN"
    """REJECT: the inspection found the candidate's files broken; nothing was replayed."""
    DRIFT = "DRIFT"
    """REJECT: the candidate's next-token distributions are nothing like the baseline's."""
    METRIC_UNDECIDED = "METRIC_UNDECIDED"
    """INCONCLUSIVE: a gating metric's limits lie on both sides of its margin."""
    NOISE_ABOVE_MARGIN = "NOISE_ABOVE_MARGIN"
    """INCONCLUSIVE: the baseline's own flips alone could produce a difference as large as the margin."""
    SET_UNFINISHED = "SET_UNFINISHED"
    """INCONCLUSIVE: a look at a part of the set, which can REJECT but never ACCEPT."""
    UNDERPOWERED = "UNDERPOWERED"
    """INCONCLUSIVE: the golden set is too small to decide a gating metric's margin; nothing was run."""
    EXPLORATORY = "EXPLORATORY"
    """INCONCLUSIVE: the run was asked for with --explore, which cannot ACCEPT."""
    ARTIFACT_DIFFERS = "ARTIFACT_DIFFERS"
    """INVALID: the inspection found that both sides would not be given the same task; nothing was replayed."""
    PROMPTS_DIFFER = "PROMPTS_DIFFER"
    """INVALID: the sides did not read the same tokens, or it is not known whether they did."""
    CONDITIONS_DIFFER = "CONDITIONS_DIFFER"
    """INVALID: something other than the weights differs: requests, sampling, engine, flags, parser."""
    DRIFT_UNKNOWN = "DRIFT_UNKNOWN"
    """INVALID: next-token distributions were to be compared, and could not be on both sides."""
    UNSCORABLE = "UNSCORABLE"
    """INVALID: outcomes that should exist are missing or unscorable."""
    NO_DATA = "NO_DATA"
    """INVALID: no turn feeds a gating metric, or no gating metric reads a critical turn."""
    UNDECLARED_METRIC = "UNDECLARED_METRIC"
    """INVALID: outcomes of a metric that the policy does not name."""
    PAIRS_DIFFER = "PAIRS_DIFFER"
    """INVALID: a metric applies to a turn on one side only."""
    BAD_RECORDS = "BAD_RECORDS"
    """INVALID: a turn or an outcome twice, or an outcome of an unknown turn."""
    BASELINE_BELOW_FLOOR = "BASELINE_BELOW_FLOOR"
    """INVALID: the baseline is too weak on a gating metric to be a yardstick."""
    ANOMALOUS_GAIN = "ANOMALOUS_GAIN"
    """INVALID: a proved gain too large to be true (contamination, other settings); REJECT beside a proved loss."""
    NOISE = "NOISE"
    """INVALID: the baseline disagrees with itself too often."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding. ``verdict`` is what it argues for; ``figures`` are the numbers behind ``text``."""

    code: ReasonCode
    verdict: Verdict
    text: str
    metric: str | None = None
    figures: Mapping[str, float | int | str] | None = None


class ResourceState(StrEnum):
    """What was shown of a resource."""

    BETTER = "better"
    """A gain by the threshold."""
    HELD = "held"
    """Not worse beyond the margin."""
    WORSE = "worse"
    """Worse beyond the margin."""
    UNDECIDED = "undecided"
    IMPOSSIBLE = "impossible"
    """Figures that cannot be."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What serving costs or yields on both sides: once where it does not vary, else in pairs of measurements.

    :ivar declared: stated by the user, not measured.
    :ivar counted: False shows it without letting it decide; ``note`` says why.
    """

    name: str
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    varies: bool = False
    declared: bool = False
    counted: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """A resource, judged. ``change`` is how much better the candidate is, as a share of the baseline.

    :ivar lower: one-sided limit of ``change``; ``upper`` the other one. Equal to it where nothing varies.
    :ivar gain: the lower limit that a gain is judged by, stricter where several resources could show one.
    """

    name: str
    state: ResourceState
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    better: float
    worse: float
    declared: bool
    counted: bool
    note: str
    change: float | None = None
    lower: float | None = None
    upper: float | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class Benefit:
    """Bytes of all weight files of both sides (None: not known), and what else serving costs or yields."""

    baseline_weight_bytes: int | None
    candidate_weight_bytes: int | None
    resources: tuple[Resource, ...] = ()
    weights_declared: bool = False

    def all(self) -> tuple[Resource, ...]:
        """Everything known, the weight bytes first."""
        before, after = self.baseline_weight_bytes, self.candidate_weight_bytes
        if before is None or after is None:
            return self.resources
        weights = Resource("weight_bytes", (float(before),), (float(after),), declared=self.weights_declared)
        return (weights, *self.resources)


@dataclass(frozen=True, slots=True)
class NoiseResult:
    """The baseline against its own repeats, on one metric.

    :ivar compared: outcomes compared, over all repeats.
    :ivar flip_rate: share of them that differ.
    :ivar excess_flips: flips of the candidate beyond what noise alone explains (negative: fewer).
    :ivar reach: loss that noise alone shows once in 1/alpha runs, ``z * sqrt(flip_rate / n)``.
    """

    repeats: int
    compared: int
    flips: int
    flip_rate: float
    excess_flips: float
    reach: float


@dataclass(frozen=True, slots=True)
class LookResult:
    """The test of one metric at one look: a loss beyond the margin is proved where ``p`` is below ``level``.

    :ivar look: number of the look, from 1.
    :ivar fraction: share of the metric's turns seen by then.
    """

    look: int
    n: int
    b: int
    c: int
    fraction: float
    p: float
    level: float

    @property
    def rejects(self) -> bool:
        """Whether a loss beyond the margin is proved."""
        return self.p < self.level


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric over all turns. Rates, difference and limits are None where no pair was scored.

    ``n`` counts pairs scored on both sides; passes and flips are sums of rates where turns are sampled several
    times. Unscorable counts include missing outcomes. ``design_effect`` is the careful one of
    :mod:`pipeline.statistics.clusters`. ``n_to_decide``: pairs that would decide an undecided metric if they
    come out as these did. ``n_planned``: pairs that clear the margin in four runs of five at this flip rate
    when the true loss is zero.
    ``flips_to_change``: more losses (negative: fewer) that would give another verdict.
    ``looks``: its tests at the looks so far, where the policy declares looks.
    """

    metric: str
    gating: bool
    verdict: Verdict
    margin: float
    floor: float
    unscorable_baseline: int
    unscorable_candidate: int
    n: int = 0
    clusters: int = 0
    baseline_passed: float = 0
    candidate_passed: float = 0
    b: float = 0
    c: float = 0
    limits: Limits | None = None
    design_effect: float | None = None
    mcnemar_p: float | None = None
    n_to_decide: int | None = None
    n_planned: int | None = None
    flips_to_change: Mapping[Verdict, int] | None = None
    noise: NoiseResult | None = None
    looks: tuple[LookResult, ...] = ()

    @property
    def baseline_rate(self) -> float | None:
        """Share of pairs that the baseline passes."""
        return self.baseline_passed / self.n if self.n else None

    @property
    def candidate_rate(self) -> float | None:
        """Share of pairs that the candidate passes."""
        return self.candidate_passed / self.n if self.n else None

    @property
    def difference(self) -> float | None:
        """Candidate minus baseline rate."""
        return (self.c - self.b) / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class SliceResult:
    """One metric over the scored pairs of one slice.

    ``p_adjusted``: Holm-adjusted p-value of "no loss beyond the margin"; None for metrics that do not gate.
    ``fewer``: so many losses fewer would lift the flag, the design effect held; None without one.
    """

    slice: str
    metric: str
    n: int
    b: float
    c: float
    baseline_passed: float
    candidate_passed: float
    lower: float
    upper: float
    p_adjusted: float | None
    flagged: bool
    fewer: int | None = None


@dataclass(frozen=True, slots=True)
class CriticalResult:
    """Critical turns.

    :ivar passed_by_baseline: turns on which the baseline passes every gating metric (in every repeat).
    :ivar failed: ids of those on which the candidate fails one.
    :ivar kept: ids of those on which it passes every one; the rest it answered unusably, or passes in some samples.
    :ivar unstable: ids that the baseline passes in some repeats only; they cannot convict the candidate.
    :ivar upper_limit: one-sided Clopper-Pearson limit of the share of such turns that could fail.
    :ivar by_chance: lost turns to expect of a candidate that is the baseline once more, from its replays.
    :ivar rejected_at: lost turns from which that no longer explains them; 1 where nothing is lost by chance.
    """

    turns: int
    passed_by_baseline: int
    failed: tuple[str, ...]
    unstable: tuple[str, ...]
    upper_limit: float
    by_chance: float = 0.0
    rejected_at: int = 1
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flip:
    """A turn where one side passes a metric and the other fails it."""

    turn_id: str
    metric: str
    lost: bool
    critical: bool
    scenario: str
    slices: tuple[str, ...]
    baseline: Outcome
    candidate: Outcome


@dataclass(frozen=True, slots=True)
class WorstFlip:
    """A turn that the candidate lost, with the gating metrics lost on it."""

    turn_id: str
    scenario: str
    critical: bool
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accounting:
    """Turns asked, and turns without any missing or unscorable outcome on each side."""

    turns: int
    baseline_scored: int
    candidate_scored: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and everything behind it. ``reasons`` come in the order of their weight.

    :ivar look: number of the look that the decision was taken at; None: the whole set.
    :ivar to_change: what would have to come out otherwise for another verdict, in a sentence or two.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    next_step: str
    to_change: str
    metrics: tuple[MetricResult, ...]
    slices: tuple[SliceResult, ...]
    critical: CriticalResult
    scenarios_wiped_out: tuple[str, ...]
    accounting: Accounting
    flips: tuple[Flip, ...]
    worst: tuple[WorstFlip, ...]
    resources: tuple[ResourceResult, ...] = ()
    look: int | None = None

    @property
    def exit_code(self) -> int:
        """The process exit code of this verdict."""
        return VERDICT_EXIT_CODES[self.verdict]
