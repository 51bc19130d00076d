"""What a golden set can decide under a policy, before anything is spent.

Pure arithmetic on counts of turns and on the flip rate that the policy assumes. A measured noise floor
replaces the assumption where it is higher: a candidate hardly flips less often than the baseline against itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import evaluators
from evaluators.turn import Status, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.advice import percent
from pipeline.statistics.exact import clopper_pearson_upper
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.statistics.power import minimum_detectable_effect

_MOST = 10**8
"""Turns beyond which a margin counts as out of reach."""


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """What the set can decide about one metric.

    :ivar turns, scenarios: those that the metric reads.
    :ivar flip_rate: share of turns on which the sides are assumed to differ.
    :ivar detectable: smallest margin that the turns clear in four runs of five when nothing is lost.
    :ivar needed: turns of such scenarios that the metric's own margin needs; None where no number is enough (0).
    """

    metric: str
    gating: bool
    margin: float
    turns: int
    scenarios: int
    flip_rate: float
    detectable: float
    needed: int | None

    @property
    def adequate(self) -> bool:
        """Whether the set can decide the metric's margin."""
        return self.detectable <= self.margin


@dataclass(frozen=True, slots=True)
class CriticalPlan:
    """A group of critical turns, and the share of such turns that could fail although all of these pass."""

    group: str
    turns: int
    upper_limit: float


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """What a golden set can decide: metrics in the order of the policy, critical turns in all and by slice."""

    metrics: tuple[MetricPlan, ...]
    critical: tuple[CriticalPlan, ...]

    @property
    def underpowered(self) -> tuple[MetricPlan, ...]:
        """Gating metrics whose margin the set cannot decide."""
        return tuple(plan for plan in self.metrics if plan.gating and not plan.adequate)


def plan_power(turns: Sequence[Turn], policy: GateSettings, noise: Mapping[str, float] | None = None) -> PowerPlan:
    """Plan all metrics of a policy on the turns of a golden set.

    :param noise: flip rate of the baseline against itself by metric, where it was measured.
    """
    read, measured = turns_read(turns, policy.metrics), noise or {}
    metrics = tuple(
        plan_metric(name, read[name], policy, max(policy.power.flip_rate, measured.get(name, 0.0)))
        for name in policy.metrics
    )
    critical = [turn for turn in turns if turn.expect.critical]
    slices = Counter(name for turn in critical for name in dict.fromkeys(turn.slices))
    groups = {"all": len(critical), **dict(sorted(slices.items()))}
    return PowerPlan(
        metrics, tuple(CriticalPlan(name, n, clopper_pearson_upper(0, n, policy.alpha)) for name, n in groups.items())
    )


def turns_read(turns: Iterable[Turn], metrics: Iterable[str]) -> dict[str, list[Turn]]:
    """The turns that each metric reads. Whether it does is decided by the turn alone, so no reply is needed."""
    read: dict[str, list[Turn]] = {metric: [] for metric in metrics}
    for turn in turns:
        for outcome in evaluators.evaluate(turn, None):
            if outcome.status is not Status.NOT_APPLICABLE and outcome.metric in read:
                read[outcome.metric].append(turn)
    return read


def plan_metric(metric: str, turns: Sequence[Turn], policy: GateSettings, flip_rate: float) -> MetricPlan:
    """Plan one metric on the turns that it reads."""
    return _plan(metric, Counter(turn.scenario for turn in turns).values(), policy, flip_rate)


def plan_items(items: Mapping[str, int], rules: GateSettings) -> tuple[MetricPlan, ...]:
    """Plan tasks of general ability, whose items are scenarios of their own.

    :param items: their number by metric.
    :param rules: what is demanded of the tasks, see :func:`pipeline.general.suite.general_metrics`.
    """
    return tuple(_plan(metric, [1] * n, rules, rules.power.flip_rate) for metric, n in items.items())


def _plan(metric: str, sizes: Collection[int], policy: GateSettings, flip_rate: float) -> MetricPlan:
    """Plan one metric on scenarios of these sizes."""
    rule, n = policy.metrics[metric], sum(sizes)
    worst = sum(size * size for size in sizes) / n if n else 1.0

    def clears(count: int) -> bool:
        return _detectable(count, flip_rate, worst, policy.alpha) <= rule.margin

    return MetricPlan(
        metric=metric,
        gating=rule.gating,
        margin=rule.margin,
        turns=n,
        scenarios=len(sizes),
        flip_rate=flip_rate,
        detectable=_detectable(n, flip_rate, worst, policy.alpha),
        needed=bisect_left(range(_MOST), True, key=clears) if clears(_MOST) else None,
    )


def _detectable(n: int, flip_rate: float, worst: float, alpha: float) -> float:
    """Smallest margin that n turns clear in four runs of five when nothing is lost.

    The design effect is the one that the decision will use (:mod:`pipeline.statistics.clusters`) where flips fall
    on turns independently: with K of them expected, ``(K + worst) / (K + 1)``, ``worst = sum m^2 / sum m`` over
    scenario sizes m. A run without any flip is provided for as well; there the decision uses the worst one.
    """
    expected = n * flip_rate
    effect = (expected + worst) / (expected + 1)
    return max(
        minimum_detectable_effect(n, flip_rate, alpha, design_effect=effect),
        minimum_detectable_effect(n, 0.0, alpha, design_effect=worst),
    )


def underpowered_reasons(plan: PowerPlan) -> list[Reason]:
    """A reason for every gating metric that the set cannot decide."""
    reasons = []
    for row in plan.underpowered:
        needed = f"{row.needed} turns are needed" if row.needed else "no number of turns clears that"
        text = (
            f"{row.metric}: with {row.turns} turns in {row.scenarios} scenarios, of which {percent(row.flip_rate)} are "
            f"assumed to flip, no loss below {percent(row.detectable)} can be ruled out; the margin is "
            f"{percent(row.margin)}: {needed}."
        )
        figures: dict[str, float | int | str] = {
            "turns": row.turns,
            "scenarios": row.scenarios,
            "flip_rate": row.flip_rate,
            "detectable": row.detectable,
            "margin": row.margin,
        }
        if row.needed:
            figures["needed"] = row.needed
        reasons.append(Reason(ReasonCode.UNDERPOWERED, Verdict.INCONCLUSIVE, text, row.metric, figures))
    return reasons


def exploratory_reason(plan: PowerPlan) -> Reason:
    """Why a run that was asked for with ``--explore`` cannot ACCEPT."""
    lacking = [row.metric for row in plan.underpowered]
    text = "the run was made with --explore, so it may reject, but not accept"
    text += f"; the golden set is too small to decide {', '.join(lacking)}." if lacking else "."
    figures: dict[str, float | int | str] = {"underpowered": ", ".join(lacking)}
    return Reason(ReasonCode.EXPLORATORY, Verdict.INCONCLUSIVE, text, figures=figures)
