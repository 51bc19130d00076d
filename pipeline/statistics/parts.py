"""The rules about parts of the golden set, which an average over all turns would hide.

Slices (proved losses, Holm-adjusted), critical turns (none may be lost) and scenarios (none may be wiped out).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import pdtrc

from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.advice import listed, percent
from pipeline.statistics.exact import clopper_pearson_upper
from pipeline.statistics.facts import CriticalResult, Reason, ReasonCode, SliceResult
from pipeline.statistics.multiple import holm
from pipeline.statistics.pairing import Mask
from pipeline.statistics.study import Study

SCENARIO_MIN_TURNS = 2
"""Turns that a scenario needs before losing all of them is more than losing one."""


def slice_results(study: Study) -> list[SliceResult]:
    """Every metric over every slice; gating ones tested for a loss beyond the margin, Holm-adjusted together."""
    policy = study.policy
    rows = []
    for name, members in study.index.slices.items():
        for metric, rule in policy.metrics.items():
            found = study.counts(metric, members)
            if found is not None:
                rows.append((name, metric, rule, *found))
    tested = [i for i, row in enumerate(rows) if row[2].gating]
    adjusted = dict(zip(tested, holm([rows[i][3].loss_p(rows[i][2].margin) for i in tested]), strict=True))
    results = []
    for i, (name, metric, _, counts, before, after) in enumerate(rows):
        limits, p = counts.limits(policy.alpha), adjusted.get(i)
        results.append(
            SliceResult(
                slice=name,
                metric=metric,
                n=int(counts.n),
                b=int(counts.b),
                c=int(counts.c),
                baseline_passed=before,
                candidate_passed=after,
                lower=limits.lower,
                upper=limits.upper,
                p_adjusted=p,
                flagged=p is not None and p < policy.alpha,
            )
        )
    return results


def slice_reasons(slices: Sequence[SliceResult], policy: GateSettings) -> list[Reason]:
    """A reason for every flagged slice."""
    return [
        Reason(
            ReasonCode.SLICE_LOSS,
            Verdict.REJECT,
            f"slice {row.slice}, {row.metric}: a true loss of more than {percent(policy.metrics[row.metric].margin)} "
            f"is proved ({row.b} lost, {row.c} gained of {row.n} turns), all slices allowed for.",
            row.metric,
            {"slice": row.slice, "p_adjusted": row.p_adjusted or 0.0, "b": row.b, "c": row.c, "n": row.n},
        )
        for row in slices
        if row.flagged
    ]


def critical_result(study: Study) -> CriticalResult:
    """Critical turns, over all gating metrics of a turn together."""
    critical, passed = study.index.critical, _passed(study)
    lost = study.turn_ids(critical & passed & study.candidate.fails_any(study.gating))
    proved = int(np.count_nonzero(critical & passed))
    return CriticalResult(
        turns=int(np.count_nonzero(critical)),
        passed_by_baseline=proved,
        failed=lost,
        unstable=study.turn_ids(critical & study.baseline.passes_all(study.gating) & ~passed),
        upper_limit=clopper_pearson_upper(len(lost), proved, study.policy.alpha),
    )


def critical_reasons(critical: CriticalResult) -> list[Reason]:
    """A reason when a critical turn is lost."""
    lost, proved = critical.failed, critical.passed_by_baseline
    if not lost:
        return []
    text = f"{len(lost)} of {proved} critical turns that the baseline passes fail: {listed(lost)}."
    figures = {"failed": len(lost), "passed_by_baseline": proved, "upper_limit": critical.upper_limit}
    return [Reason(ReasonCode.CRITICAL_TURN, Verdict.REJECT, text, figures=figures)]


def scenarios_wiped_out(study: Study) -> tuple[str, ...]:
    """Scenarios that the baseline passes entirely and the candidate fails entirely, beyond chance.

    In a large set a few scenarios of two turns lose both by chance alone. With q the share of turns lost in
    scenarios that were not wiped out, chance wipes out a scenario of m turns with probability q^m; scenarios
    count when their number, among those of their size or larger, is improbable under that (Poisson, level
    alpha shared among the sizes). Without other losses a single scenario is always enough.
    """
    index, passed = study.index, _passed(study)
    failed = study.candidate.fails_any(study.gating)
    read = passed | study.baseline.fails_any(study.gating) | failed
    sizes, passes, losses = (
        np.bincount(index.scenario[mask], minlength=len(index.scenarios))
        for mask in (read, read & passed, read & passed & failed)
    )
    eligible = (sizes >= SCENARIO_MIN_TURNS) & (passes == sizes)
    wiped_out = eligible & (losses == sizes)
    others = int(passes[~wiped_out].sum())
    chance = losses[~wiped_out].sum() / others if others else 0.0
    alpha = study.policy.alpha / max(len(np.unique(sizes[eligible])), 1)
    counted = np.zeros_like(wiped_out)
    for size in np.unique(sizes[wiped_out]):
        larger = sizes >= size
        expected = float((chance ** sizes[eligible & larger].astype(np.float64)).sum())
        if _at_least(int(np.count_nonzero(wiped_out & larger)), expected) <= alpha:
            counted |= wiped_out & larger
    return tuple(sorted(index.scenarios[int(i)] for i in np.flatnonzero(counted)))


def _at_least(seen: int, expected: float) -> float:
    """Probability of ``seen`` (at least 1) or more events where ``expected`` are expected (Poisson)."""
    return float(pdtrc(seen - 1, expected)) if expected > 0 else 0.0


def scenario_reasons(wiped_out: Sequence[str]) -> list[Reason]:
    """A reason when scenarios are wiped out."""
    if not wiped_out:
        return []
    text = f"{len(wiped_out)} scenario(s) went from every turn passed to every turn failed: {listed(wiped_out)}."
    figures = {"scenarios": len(wiped_out)}
    return [Reason(ReasonCode.SCENARIO_WIPED_OUT, Verdict.REJECT, text, figures=figures)]


def _passed(study: Study) -> Mask:
    """Turns that the baseline passes on every gating metric, in every repeat."""
    passed = study.baseline.passes_all(study.gating)
    for repeat in study.repeats:
        passed = passed & repeat.passes_all(study.gating)
    return passed
