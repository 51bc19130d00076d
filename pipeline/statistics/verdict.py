"""The decision: every rule of ``docs/statistics.md`` applied to two replays of the same turns.

Pure: no I/O, no clock, no randomness. The verdict is the gravest that any rule argues for, in the order
INVALID > REJECT > INCONCLUSIVE > ACCEPT: a measurement that cannot be trusted convicts nobody, and ACCEPT
needs every rule to agree. One exception is stated at :func:`pipeline.statistics.metrics.gain_reasons`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluators.turn import Outcome, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.advice import at_most, next_step, percent
from pipeline.statistics.benefit import benefit_reasons, resource_results
from pipeline.statistics.changes import what_would_change
from pipeline.statistics.facts import (
    Accounting,
    Benefit,
    CriticalResult,
    Decision,
    MetricResult,
    Reason,
    ReasonCode,
)
from pipeline.statistics.flips import all_flips, worst_flips
from pipeline.statistics.integrity import integrity
from pipeline.statistics.looks import LookPlan
from pipeline.statistics.metrics import gain_reasons, metric_reasons, metric_result
from pipeline.statistics.pairing import TurnIndex
from pipeline.statistics.parts import (
    critical_reasons,
    critical_result,
    scenario_reasons,
    scenarios_wiped_out,
    slice_reasons,
    slice_results,
)
from pipeline.statistics.study import Study

_GRAVITY = {Verdict.INVALID: 0, Verdict.REJECT: 1, Verdict.INCONCLUSIVE: 2, Verdict.ACCEPT: 3}


def decide(
    turns: Sequence[Turn],
    baseline: Sequence[Outcome],
    candidate: Sequence[Outcome],
    policy: GateSettings,
    *,
    benefit: Benefit | None = None,
    repeats: Sequence[Sequence[Outcome]] = (),
    candidate_repeats: Sequence[Sequence[Outcome]] = (),
    findings: Sequence[Reason] = (),
    look: int | None = None,
) -> Decision:
    """Decide whether the candidate may replace the baseline.

    Each side needs exactly one outcome for every turn and every metric of the policy (``not_applicable``
    included); anything missing, repeated or unknown makes the decision INVALID, never an exception and
    never a silently smaller sample.

    :param turns: all turns of the golden set, unique ids.
    :param baseline: outcomes of the baseline.
    :param candidate: outcomes of the candidate.
    :param benefit: what both sides cost and yield; None leaves the benefit rule out, for comparisons that are
        not about shipping (a model against itself). A gate run always gives it.
    :param repeats: outcomes of further replays of the baseline, for the noise floor. Critical turns and
        scenarios then count as passed by the baseline only where every repeat passes them as well. Where the
        policy samples each turn several times, they are the baseline's other samples.
    :param candidate_repeats: the candidate's other samples. A turn then has a pass rate on each side; the candidate
        fails a critical turn, or a turn of a scenario, where it fails it in every sample.
    :param findings: reasons from outside the outcomes, such as sides that were not served alike. They weigh like
        the others, so one that argues for INCONCLUSIVE is enough to rule out ACCEPT.
    :param look: decide at this look of the policy's (from 1), from the turns up to it: the candidate's outcomes
        need not go further. Such a decision never ACCEPTs. None: the whole set, earlier looks tested as well.
    :raises ValueError: the policy has no such look.
    """
    looks = LookPlan.of(turns, baseline, policy, look)
    whole = study = Study.of(turns, baseline, candidate, policy, repeats, candidate_repeats)
    if looks.at is not None:
        turns, baseline, candidate = looks.at.turns, looks.part(baseline), looks.part(candidate)
        study = Study.of(turns, baseline, candidate, policy, [looks.part(repeat) for repeat in repeats])
    metrics = tuple(metric_result(study, name, looks) for name in policy.metrics)
    slices = tuple(slice_results(study))
    critical = critical_result(study, whole)
    wiped_out = scenarios_wiped_out(study)

    reasons = [*findings, *integrity(study), *looks.reasons()]
    for result in metrics:
        if result.gating:
            reasons += metric_reasons(result, policy)
    reasons += gain_reasons(metrics, policy)
    reasons += critical_reasons(critical)
    if looks.at is None:  # what these rules may reject by chance is reckoned for one test, of the whole set
        reasons += scenario_reasons(wiped_out)
        reasons += slice_reasons(slices, policy)
    resources = resource_results(benefit, policy.benefit, policy.alpha) if benefit else ()
    if benefit:
        reasons += benefit_reasons(resources)
    if not reasons:
        reasons.append(_held(metrics, critical, policy))
    reasons = _gravest_first(reasons)

    flips = all_flips(study, baseline, candidate)
    return Decision(
        verdict=reasons[0].verdict,
        reasons=tuple(reasons),
        next_step=next_step(reasons, metrics),
        to_change=what_would_change(reasons, metrics, critical),
        metrics=metrics,
        slices=slices,
        critical=critical,
        scenarios_wiped_out=wiped_out,
        accounting=_accounting(study),
        flips=flips,
        worst=worst_flips(flips, study.gating),
        resources=resources,
        look=look,
    )


def decide_without_replay(
    turns: Sequence[Turn], policy: GateSettings, reasons: Sequence[Reason], *, benefit: Benefit | None = None
) -> Decision:
    """A decision that is clear before anything is replayed. No turn counts as asked, and no metric has figures.

    :param reasons: at least one, none for ACCEPT.
    :raises ValueError: no reason, or one for ACCEPT, which only replays can prove.
    """
    if not reasons or any(reason.verdict is Verdict.ACCEPT for reason in reasons):
        raise ValueError("a decision without replay needs reasons, none of them for ACCEPT")
    reasons = _gravest_first(reasons)
    metrics = tuple(
        MetricResult(name, rule.gating, Verdict.INCONCLUSIVE, rule.margin, rule.floor, 0, 0)
        for name, rule in policy.metrics.items()
    )
    critical = CriticalResult(int(np.count_nonzero(TurnIndex.of(turns).critical)), 0, (), (), 1.0)
    return Decision(
        verdict=reasons[0].verdict,
        reasons=tuple(reasons),
        next_step=next_step(reasons, metrics),
        to_change=what_would_change(reasons, metrics, critical),
        metrics=metrics,
        slices=(),
        critical=critical,
        scenarios_wiped_out=(),
        accounting=Accounting(0, 0, 0),
        flips=(),
        worst=(),
        resources=resource_results(benefit, policy.benefit, policy.alpha) if benefit else (),
    )


def _gravest_first(reasons: Sequence[Reason]) -> list[Reason]:
    return sorted(reasons, key=lambda reason: _GRAVITY[reason.verdict])


def _accounting(study: Study) -> Accounting:
    turns = len(study.index.turns)
    masks = zip(*((pair.lacking_first, pair.lacking_second) for pair in study.pairs.values()), strict=True)
    first, second = (turns - int(np.count_nonzero(np.logical_or.reduce(side))) for side in masks)
    return Accounting(turns, first, second)


def _at_worst(lower: float) -> str:
    """What a lower limit rules out, in words."""
    return f"loses at most {percent(-lower)}" if lower < 0 else f"gains at least {percent(lower)}"


def _held(metrics: Sequence[MetricResult], critical: CriticalResult, policy: GateSettings) -> Reason:
    held = ", ".join(
        f"{m.metric} {_at_worst(m.limits.lower)} (margin {percent(m.margin)})"
        for m in metrics
        if m.gating and m.limits is not None
    )
    text = f"on every gating metric a loss beyond the margin is ruled out at {percent(1 - policy.alpha)}: {held}."
    if critical.passed_by_baseline:
        text += (
            f" No critical turn that the baseline passes failed; {critical.passed_by_baseline} without a failure prove "
            f"{at_most(critical.upper_limit)} failing."
        )
    figures: dict[str, float | int | str] = {
        f"lower.{m.metric}": m.limits.lower for m in metrics if m.gating and m.limits is not None
    }
    figures |= {"critical_turns": critical.passed_by_baseline, "critical_upper_limit": critical.upper_limit}
    return Reason(ReasonCode.METRICS_HELD, Verdict.ACCEPT, text, figures=figures)
