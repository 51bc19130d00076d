"""The benefit rule: is anything gained that is worth shipping a risk for?

A *resource* is what serving costs or yields: bytes of weights, the KV-token pool, throughput and latencies under load.
The candidate must be better in at least one that counts by its threshold, and worse in none beyond its margin.

What does not vary between measurements (bytes, the pool) is compared as it is. What does is measured in pairs, both
sides right after one another, and judged by a one-sided t limit of the mean log ratio of the pairs: drift of the
machine that both of a pair share cancels. A gain may be shown by any of several resources, so each of the k that vary
is tested at alpha / k (Bonferroni); that none is worse must hold for all, each at alpha (intersection-union), and so
must that none is better, where nothing gained is to be a reason to reject.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from pipeline.errors import Verdict
from pipeline.settings import BenefitPolicy, ResourcePolicy
from pipeline.statistics.advice import percent
from pipeline.statistics.facts import Benefit, Reason, ReasonCode, Resource, ResourceResult, ResourceState

LESS_IS_BETTER = frozenset({"weight_bytes", "ttft_p95", "itl_p95"})
UNDER_LOAD = ("throughput_at_slo", "ttft_p95", "itl_p95")
"""What only a load test shows."""
_ROUNDING = 1e-12


def resource_results(benefit: Benefit, policy: BenefitPolicy, alpha: float) -> tuple[ResourceResult, ...]:
    """Every declared resource that is known, judged, in the order of the policy."""
    known = {resource.name: resource for resource in benefit.all()}
    declared = [(name, rule) for name, rule in policy if rule is not None and name in known]
    varying = sum(known[name].counted and known[name].varies for name, _ in declared)
    return tuple(_result(known[name], rule, alpha, max(1, varying)) for name, rule in declared)


def change_limits(
    baseline: Sequence[float], candidate: Sequence[float], *, less_is_better: bool, level: float
) -> tuple[float, float, float]:
    """How much better the candidate is, as a share of the baseline, with one-sided limits at error rate ``level``.

    A saving of what is better small (``1 - after / before``), a growth of what is better large
    (``after / before - 1``). Paired t limits of the mean log ratio; one pair has none (``-inf``, ``inf``).

    :raises ValueError: no pairs, pairs of unequal number, or a figure that is not positive and finite.
    """
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("needs pairs of measurements")
    before, after = np.asarray(baseline, dtype=float), np.asarray(candidate, dtype=float)
    if not (np.isfinite(before).all() and np.isfinite(after).all() and (before > 0).all() and (after > 0).all()):
        raise ValueError("figures must be positive and finite")
    ratios = np.log(after / before)
    mean, pairs = float(ratios.mean()), len(ratios)
    if pairs == 1:
        lower, upper = -math.inf, math.inf
    else:
        reach = float(-stdtrit(pairs - 1, level)) * float(ratios.std(ddof=1)) / math.sqrt(pairs)
        lower, upper = mean - reach, mean + reach
    if less_is_better:
        return 1 - math.exp(mean), 1 - _exp(upper), 1 - _exp(lower)
    return math.exp(mean) - 1, _exp(lower) - 1, _exp(upper) - 1


def _exp(value: float) -> float:
    """``exp`` without an overflow."""
    return math.exp(value) if value < 700 else math.inf


def benefit_reasons(results: Sequence[ResourceResult]) -> list[Reason]:
    """What the resources argue for. Empty where a gain is shown and no resource is worse."""
    counted = [result for result in results if result.counted]
    impossible = [result for result in counted if result.state is ResourceState.IMPOSSIBLE]
    if impossible:
        text = "; ".join(
            f"{r.name} of {_several(r.baseline)} (baseline) and {_several(r.candidate)} (candidate) cannot be"
            for r in impossible
        )
        reason = f"{text}: no benefit can be judged."
        return [Reason(ReasonCode.NO_DATA, Verdict.INVALID, reason, figures=_figures(impossible))]
    if not counted:
        text = "nothing is known of what the candidate would save: no declared resource was measured or declared."
        return [Reason(ReasonCode.BENEFIT_UNDECIDED, Verdict.INCONCLUSIVE, text)]
    reasons = []
    if not any(result.state is ResourceState.BETTER for result in counted):
        shortfalls = "; ".join(map(_shortfall, counted))
        if any(map(_open, counted)):
            text = f"whether anything is gained by its threshold is not decided: {shortfalls}."
            reasons.append(Reason(ReasonCode.BENEFIT_UNDECIDED, Verdict.INCONCLUSIVE, text, figures=_figures(counted)))
        else:
            text = f"nothing is gained by its threshold: {shortfalls}."
            reasons.append(Reason(ReasonCode.NO_BENEFIT, Verdict.REJECT, text, figures=_figures(counted)))
    for result in counted:
        if result.state is ResourceState.WORSE:
            text = (
                f"{result.name} is worse by at least {percent(-(result.upper or 0))}; "
                f"{percent(result.worse)} are borne for a gain elsewhere."
            )
            reasons.append(Reason(ReasonCode.NO_BENEFIT, Verdict.REJECT, text, figures=_figures([result])))
        elif result.state is ResourceState.UNDECIDED:
            text = (
                f"whether {result.name} is worse by more than {percent(result.worse)} is not decided: {_range(result)}."
            )
            reasons.append(Reason(ReasonCode.BENEFIT_UNDECIDED, Verdict.INCONCLUSIVE, text, figures=_figures([result])))
    return reasons


def unmeasured_reasons(policy: BenefitPolicy, *, device: str, loaded: bool) -> list[Reason]:
    """What speaks against a gain that is known in part: on a GPU no declared resource may be left unmeasured.

    :param device: where both sides were served; on a CPU these resources count for no verdict.
    :param loaded: load was put on both sides.
    """
    missing = [name for name in UNDER_LOAD if getattr(policy, name) is not None]
    if loaded or device != "cuda" or not missing:
        return []
    text = f"whether {', '.join(missing)} is worse is not known: no load was put on the sides (--load, make LOAD=1)."
    return [Reason(ReasonCode.BENEFIT_UNDECIDED, Verdict.INCONCLUSIVE, text)]


def _result(resource: Resource, rule: ResourcePolicy, alpha: float, varying: int) -> ResourceResult:
    def result(state: ResourceState, *figures: float | None) -> ResourceResult:
        change, lower, upper, gain = figures or (None,) * 4
        return ResourceResult(
            resource.name, state, resource.baseline, resource.candidate, rule.better, rule.worse,
            resource.declared, resource.counted, resource.note, change, lower, upper, gain,
        )  # fmt: skip

    values = (*resource.baseline, *resource.candidate)
    if len(resource.baseline) != len(resource.candidate) or not values:
        return result(ResourceState.IMPOSSIBLE)
    if not all(math.isfinite(value) and value >= 0 for value in values):
        return result(ResourceState.IMPOSSIBLE)
    if not all(values):  # nothing at all within the service level is a measurement; no bytes or no time is a fault
        if resource.name != "throughput_at_slo":
            return result(ResourceState.IMPOSSIBLE)
        lost = all(resource.baseline) and not any(resource.candidate)
        return result(ResourceState.WORSE, -1.0, -1.0, -1.0, -1.0) if lost else result(ResourceState.UNDECIDED)
    less = resource.name in LESS_IS_BETTER
    if not resource.varies:
        (before,), (after,) = resource.baseline, resource.candidate
        change = 1 - after / before if less else after / before - 1
        lower = upper = gain = change
    else:
        pairs = resource.baseline, resource.candidate
        change, lower, upper = change_limits(*pairs, less_is_better=less, level=alpha)
        _, gain, _ = change_limits(*pairs, less_is_better=less, level=alpha / varying)
    if gain >= rule.better - _ROUNDING:
        state = ResourceState.BETTER
    elif upper < -rule.worse - _ROUNDING:
        state = ResourceState.WORSE
    else:
        state = ResourceState.HELD if lower >= -rule.worse - _ROUNDING else ResourceState.UNDECIDED
    return result(state, change, lower, upper, gain)


def _open(result: ResourceResult) -> bool:
    """Whether the limits leave room for a gain by the threshold."""
    return result.upper is None or result.upper >= result.better - _ROUNDING


def _shortfall(result: ResourceResult) -> str:
    if result.change is None or result.gain is None:
        return f"{result.name} not decided ({percent(result.better)} asked for)"
    if result.gain == result.change:
        return f"{result.name} {percent(result.change, sign=True)} ({percent(result.better)} asked for)"
    proved = "nothing proved" if math.isinf(result.gain) else f"proved {percent(result.gain, sign=True)}"
    return f"{result.name} {percent(result.change, sign=True)}, {proved} ({percent(result.better)} asked for)"


def _range(result: ResourceResult) -> str:
    if result.lower is None or result.upper is None:
        return "the baseline serves nothing within the service level in some repeat, and is no yardstick"
    if math.isinf(result.lower) or math.isinf(result.upper):
        return "a single measurement shows no limits"
    pairs = len(result.baseline)
    return f"between {percent(result.lower, sign=True)} and {percent(result.upper, sign=True)} over {pairs} pairs"


def _figures(results: Sequence[ResourceResult]) -> dict[str, float | int | str]:
    figures: dict[str, float | int | str] = {}
    for result in results:
        told = {"change": result.change, "lower": result.lower, "upper": result.upper}
        figures |= {f"{result.name}.{key}": v for key, v in told.items() if v is not None and math.isfinite(v)}
        figures |= {f"{result.name}.better": result.better, f"{result.name}.worse": result.worse}
    return figures


def _several(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "nothing"
