"""The rules about parts of the golden set, which an average over all turns would hide.

Slices (proved losses, Holm-adjusted), critical turns (none may be lost) and scenarios (none may be wiped out).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import pdtrc

from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.advice import listed, percent
from pipeline.statistics.exact import clopper_pearson_upper
from pipeline.statistics.facts import CriticalResult, Reason, ReasonCode, SliceResult
from pipeline.statistics.limits import PairedCounts, least
from pipeline.statistics.multiple import holm
from pipeline.statistics.study import Study, whole

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
    raw = [rows[i][3].loss_p(rows[i][2].margin) for i in tested]
    adjusted = dict(zip(tested, holm(raw), strict=True))
    results = []
    for i, (name, metric, rule, counts, before, after) in enumerate(rows):
        limits, p = counts.limits(policy.alpha), adjusted.get(i)
        flagged = p is not None and p < policy.alpha
        results.append(
            SliceResult(
                slice=name,
                metric=metric,
                n=int(counts.n),
                b=whole(counts.b),
                c=whole(counts.c),
                baseline_passed=before,
                candidate_passed=after,
                lower=limits.lower,
                upper=limits.upper,
                p_adjusted=p,
                flagged=flagged,
                fewer=_fewer(counts, rule.margin, raw, tested.index(i), policy.alpha) if flagged else None,
            )
        )
    return results


def _fewer(counts: PairedCounts, margin: float, p_values: Sequence[float], at: int, alpha: float) -> int | None:
    """Fewer losses in the slice at position ``at`` that would lift its flag, all other p-values being as they are."""

    def lifted(losses: int) -> bool:
        p = counts.shifted(-losses).loss_p(margin)
        return holm([*p_values[:at], p, *p_values[at + 1 :]])[at] >= alpha

    return least(int(counts.n - counts.c), lifted)


def slice_reasons(slices: Sequence[SliceResult], policy: GateSettings) -> list[Reason]:
    """A reason for every flagged slice."""
    return [
        Reason(
            ReasonCode.SLICE_LOSS,
            Verdict.REJECT,
            f"slice {row.slice}, {row.metric}: a true loss of more than {percent(policy.metrics[row.metric].margin)} "
            f"is proved ({row.b:.4g} lost, {row.c:.4g} gained of {row.n} turns), all slices allowed for.",
            row.metric,
            {
                "slice": row.slice,
                "p_adjusted": row.p_adjusted or 0.0,
                "b": row.b,
                "c": row.c,
                "n": row.n,
                "fewer": row.fewer or 0,
            },
        )
        for row in slices
        if row.flagged
    ]


def critical_result(study: Study, whole: Study) -> CriticalResult:
    """Critical turns, over all gating metrics of a turn together.

    The replays of a near tie pass and fail by turns. Were the candidate the baseline once more, its replay would be
    one like the others, and would as often be the only one to fail as any of the baseline's. So with r repeats the
    share of turns that just one of the r + 1 baseline replays fails, over r + 1, times the critical turns, is (a
    little more than) what chance alone loses. Where turns are sampled k times on each side, chance gives a turn with k
    passes in all the pattern "all of the baseline's, none of the candidate's" with probability 1 / C(2k, k).

    :param whole: the comparison over the whole set where ``study`` is a part of it, else ``study``. What chance loses
        is reckoned for the whole, so that a look rejects nothing that the end would not.
    """
    critical, passed, by_chance = study.index.critical, study.baseline_passes(), _lost_by_chance(whole)
    lost = study.turn_ids(critical & passed & study.candidate_fails())
    proved = int(np.count_nonzero(critical & passed))
    return CriticalResult(
        turns=int(np.count_nonzero(critical)),
        passed_by_baseline=proved,
        failed=lost,
        unstable=study.turn_ids(critical & study.baseline.passes_all(study.gating) & ~passed),
        upper_limit=clopper_pearson_upper(len(lost), proved, study.policy.alpha),
        by_chance=by_chance,
        rejected_at=next(count for count in itertools.count(1) if _at_least(count, by_chance) <= study.policy.alpha),
        kept=study.turn_ids(critical & passed & study.candidate_passes()),
    )


def _lost_by_chance(study: Study) -> float:
    """Critical turns to expect lost were the candidate the baseline once more; 0 where nothing tells."""
    critical, gating = study.index.critical, study.gating
    replays = [side.passes_all(gating) for side in (study.baseline, *study.repeats)]
    passes = np.sum(replays, axis=0)
    read = study.baseline.passes_all(gating) | study.baseline.fails_any(gating)
    if study.sampled:
        passes += np.sum([side.passes_all(gating) for side in (study.candidate, *study.candidate_repeats)], axis=0)
        samples = len(replays)
        return int(np.count_nonzero(critical & read & (passes == samples))) / math.comb(2 * samples, samples)
    if len(replays) < 2 or not read.any():
        return 0.0
    once = np.count_nonzero(read & (passes == len(replays) - 1))
    share = once / len(replays) / np.count_nonzero(read)
    return float(share * np.count_nonzero(critical & read))


def critical_reasons(critical: CriticalResult) -> list[Reason]:
    """A reason when a critical turn is lost; below REJECT where noise loses as many by itself."""
    lost, proved = critical.failed, critical.passed_by_baseline
    if not lost:
        return []
    text = f"{len(lost)} of {proved} critical turns that the baseline passes fail: {listed(lost)}."
    figures: dict[str, float | int | str] = {
        "failed": len(lost),
        "passed_by_baseline": proved,
        "upper_limit": critical.upper_limit,
        "by_chance": critical.by_chance,
        "rejected_at": critical.rejected_at,
    }
    verdict = Verdict.REJECT if len(lost) >= critical.rejected_at else Verdict.INCONCLUSIVE
    if verdict is Verdict.INCONCLUSIVE:
        text += (
            f" The baseline's own replays differ so often that {critical.by_chance:.2g} would be lost by chance: it "
            f"takes {critical.rejected_at} to convict the candidate."
        )
    return [Reason(ReasonCode.CRITICAL_TURN, verdict, text, figures=figures)]


def scenarios_wiped_out(study: Study) -> tuple[str, ...]:
    """Scenarios that the baseline passes entirely and the candidate fails entirely, beyond chance.

    In a large set a few scenarios of two turns lose both by chance alone. With q the share of turns lost in
    scenarios that were not wiped out, chance wipes out a scenario of m turns with probability q^m; scenarios
    count when their number, among those of their size or larger, is improbable under that (Poisson, level
    alpha shared among the sizes). Without other losses a single scenario is always enough.
    """
    index, passed, failed = study.index, study.baseline_passes(), study.candidate_fails()
    read = study.baseline.passes_all(study.gating) | study.baseline.fails_any(study.gating) | failed
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
