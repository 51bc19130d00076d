"""The rules about one metric over all turns: margin, floor, noise and gains too large to be true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtri

from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.advice import percent
from pipeline.statistics.exact import mcnemar_midp
from pipeline.statistics.facts import MetricResult, NoiseResult, Reason, ReasonCode
from pipeline.statistics.limits import PairedCounts
from pipeline.statistics.looks import LookPlan
from pipeline.statistics.power import required_n
from pipeline.statistics.study import Study, whole


def metric_result(study: Study, name: str, looks: LookPlan) -> MetricResult:
    """Everything about one metric over all turns of the set, or of the look that ``looks`` is at."""
    rule, pair, alpha = study.policy.metrics[name], study.pairs[name], study.policy.alpha
    lacking = [int(np.count_nonzero(mask)) for mask in (pair.lacking_first, pair.lacking_second)]
    found = study.counts(name)
    if found is None:
        verdict = Verdict.INVALID if rule.gating or any(lacking) else Verdict.INCONCLUSIVE
        return MetricResult(
            metric=name,
            gating=rule.gating,
            verdict=verdict,
            margin=rule.margin,
            floor=rule.floor,
            unscorable_baseline=lacking[0],
            unscorable_candidate=lacking[1],
        )
    counts, before, after = found
    b, c, n = whole(counts.b), whole(counts.c), int(counts.n)
    level, tests = looks.level(name, alpha), looks.results(study, name)
    verdict = counts.verdict(rule.margin, alpha, level)
    changes = counts.flips_to_change(rule.margin, alpha, level)
    if any(test.rejects for test in tests):
        verdict = Verdict.REJECT
    if looks.at is not None:  # a part of the set accepts nothing
        verdict = Verdict.INCONCLUSIVE if verdict is Verdict.ACCEPT else verdict
        changes.pop(Verdict.ACCEPT, None)
    undecided = verdict is Verdict.INCONCLUSIVE
    weak = rule.gating and _too_weak(before / n, rule.floor, rule.margin)
    return MetricResult(
        metric=name,
        gating=rule.gating,
        verdict=Verdict.INVALID if weak or any(lacking) or pair.mismatched.any() else verdict,
        margin=rule.margin,
        floor=rule.floor,
        n=n,
        clusters=int(counts.clusters),
        baseline_passed=before,
        candidate_passed=after,
        b=b,
        c=c,
        unscorable_baseline=lacking[0],
        unscorable_candidate=lacking[1],
        limits=counts.limits(alpha, level),
        design_effect=counts.careful_effect,
        mcnemar_p=None if study.sampled else mcnemar_midp(int(b), int(c)),
        n_to_decide=counts.n_to_decide(rule.margin, alpha, level) if undecided else None,
        n_planned=_planned(counts, rule.margin, alpha),
        flips_to_change=changes,
        noise=_noise(study, name, b + c, n) if study.repeats and not study.sampled else None,
        looks=tests,
    )


def _too_weak(baseline_rate: float, floor: float, margin: float) -> bool:
    """Whether the baseline cannot show a loss: below its floor, or without more than the margin to lose."""
    return baseline_rate < floor or baseline_rate <= margin


def _planned(counts: PairedCounts, margin: float, alpha: float) -> int | None:
    if not margin:
        return None
    flip_rate = (counts.b + counts.c) / counts.n
    return required_n(margin, flip_rate, alpha, design_effect=counts.careful_effect)


def _noise(study: Study, name: str, flips: float, n: int) -> NoiseResult:
    again = [pairs[name] for pairs in study.repeat_pairs]
    compared = sum(int(np.count_nonzero(pair.scored)) for pair in again)
    own = sum(int(np.count_nonzero(pair.lost) + np.count_nonzero(pair.gained)) for pair in again)
    rate = own / compared if compared else 1.0  # nothing compared: nothing known, so the worst
    reach = float(-ndtri(study.policy.alpha)) * float(np.sqrt(rate / n))
    return NoiseResult(len(again), compared, own, rate, flips - rate * n, reach)


def metric_reasons(result: MetricResult, policy: GateSettings) -> Iterator[Reason]:
    """Findings about one gating metric. Missing data is reported by :mod:`pipeline.statistics.integrity`."""
    name, limits, noise = result.metric, result.limits, result.noise
    if limits is None or result.baseline_rate is None or result.difference is None:
        return
    margin = percent(result.margin)
    if _too_weak(result.baseline_rate, result.floor, result.margin):
        low = result.baseline_rate < result.floor
        bound = f"below the floor of {percent(result.floor)}" if low else f"not more than the margin of {margin}"
        yield Reason(
            ReasonCode.BASELINE_BELOW_FLOOR,
            Verdict.INVALID,
            f"{name}: the baseline passes {percent(result.baseline_rate)} of {result.n} turns, {bound}: too weak to "
            f"measure a loss against.",
            name,
            {"baseline_rate": result.baseline_rate, "floor": result.floor, "n": result.n},
        )
    if noise is not None and noise.flip_rate > policy.noise.flip_rate_ceiling:
        yield Reason(
            ReasonCode.NOISE,
            Verdict.INVALID,
            f"{name}: the baseline served again differs from itself on {percent(noise.flip_rate)} of turns, above "
            f"the ceiling of {percent(policy.noise.flip_rate_ceiling)}.",
            name,
            {"flip_rate": noise.flip_rate, "ceiling": policy.noise.flip_rate_ceiling},
        )
    elif noise is not None and noise.reach > result.margin:
        yield Reason(
            ReasonCode.NOISE_ABOVE_MARGIN,
            Verdict.INCONCLUSIVE,
            f"{name}: the baseline's own flips can look like a loss of {percent(noise.reach)}, more than the margin "
            f"of {margin}.",
            name,
            {"flip_rate": noise.flip_rate, "reach": noise.reach, "margin": result.margin},
        )
    figures: dict[str, float | int | str] = {
        "difference": result.difference,
        "lower": limits.lower,
        "upper": limits.upper,
        "margin": result.margin,
        "b": result.b,
        "c": result.c,
        "n": result.n,
    }
    counts = f"{result.b:.4g} lost, {result.c:.4g} gained of {result.n} turns"
    proof = next((test for test in result.looks if test.rejects), None)
    if proof is not None:
        text = (
            f"{name}: a true loss of more than {margin} is proved at look {proof.look} ({proof.b} lost, {proof.c} "
            f"gained of {proof.n} turns, {percent(proof.fraction)} of all; p {proof.p:.2g}, level {proof.level:.2g})."
        )
        figures |= {"look": proof.look, "p": proof.p, "level": proof.level}
        yield Reason(ReasonCode.METRIC_LOSS, Verdict.REJECT, text, name, figures)
    elif limits.upper < -result.margin:
        text = (
            f"{name}: a true loss of more than {margin} is proved ({percent(result.difference, sign=True)}, at best "
            f"{percent(limits.upper, sign=True)}; {counts})."
        )
        yield Reason(ReasonCode.METRIC_LOSS, Verdict.REJECT, text, name, figures)
    elif limits.lower < -result.margin:
        more = f"about {result.n_to_decide} turns would decide it" if result.n_to_decide else "more turns hardly help"
        text = (
            f"{name}: a true loss of more than {margin} is neither proved nor ruled out "
            f"({percent(result.difference, sign=True)}, limits {percent(limits.lower, sign=True)} to "
            f"{percent(limits.upper, sign=True)}; {counts}); {more}."
        )
        yield Reason(ReasonCode.METRIC_UNDECIDED, Verdict.INCONCLUSIVE, text, name, figures)


def gain_reasons(metrics: Sequence[MetricResult], policy: GateSettings) -> list[Reason]:
    """Gains too large to be true on gating metrics.

    Quantizing a model does not teach it anything: a proved gain beyond the limit means that something else
    changed (contaminated calibration, another template, another evaluator), so the run is INVALID. Beside a
    proved loss on another gating metric it is a shift of behaviour instead, such as refusing everything: a
    real finding about the candidate, so it argues for REJECT like the loss itself.
    """
    shifted = any(m.gating and m.verdict is Verdict.REJECT for m in metrics)
    reasons = []
    for result in metrics:
        if not result.gating or result.limits is None or result.difference is None:
            continue
        if result.difference > policy.anomalous_gain and result.limits.lower > 0:
            text = (
                f"{result.metric}: a gain of {percent(result.difference, sign=True)} (at least "
                f"{percent(result.limits.lower, sign=True)}) is more than quantization can bring"
            )
            text += "; beside the proved loss, behaviour has shifted." if shifted else ": look for what else changed."
            reasons.append(
                Reason(
                    ReasonCode.ANOMALOUS_GAIN,
                    Verdict.REJECT if shifted else Verdict.INVALID,
                    text,
                    result.metric,
                    {"difference": result.difference, "lower": result.limits.lower, "limit": policy.anomalous_gain},
                )
            )
    return reasons
