"""How close the verdict is: what would have to come out otherwise for another one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pipeline.errors import Verdict
from pipeline.statistics.facts import CriticalResult, MetricResult, Reason, ReasonCode

_HELD = {
    ReasonCode.NO_BENEFIT: "a larger gain, at no loss elsewhere",
    ReasonCode.DRIFT: "next-token distributions that resemble the baseline's",
}
_FLIPS = frozenset({ReasonCode.METRIC_UNDECIDED, ReasonCode.CRITICAL_TURN})
"""What fewer flips mend where it argues for INCONCLUSIVE."""


def what_would_change(reasons: Sequence[Reason], metrics: Sequence[MetricResult], critical: CriticalResult) -> str:
    """What another verdict would have taken, from the counts of :attr:`MetricResult.flips_to_change`.

    :param reasons: the weightiest first.
    """
    verdict = reasons[0].verdict
    argued = [reason for reason in reasons if reason.verdict is verdict]
    if verdict is Verdict.INVALID and any(reason.code is not ReasonCode.ANOMALOUS_GAIN for reason in argued):
        return "No number of flips: it is the comparison that cannot be relied on."
    gating = [m for m in metrics if m.gating]
    if not any(m.n for m in gating):
        return "Nothing: no turn was measured."
    if verdict is Verdict.ACCEPT:
        return " ".join(_to_lose(gating, verdict) + _critical(critical))
    results = {m.metric: m for m in gating}
    demands = "; ".join(dict.fromkeys(_demand(reason, results, critical) for reason in argued))
    if verdict is not Verdict.INCONCLUSIVE:
        return f"To be no {verdict} it would have taken: {demands}."
    other = [reason.code for reason in argued if reason.code not in _FLIPS]
    if other:
        to_accept = f"ACCEPT is out of reach of any number of flips ({', '.join(dict.fromkeys(other))})."
    else:
        to_accept = f"ACCEPT would have taken: {demands}."
    return " ".join([to_accept, *_to_lose(gating, verdict), *_critical(critical)])


def _to_lose(gating: Sequence[MetricResult], now: Verdict) -> list[str]:
    """The smallest number of further losses on one metric that gives a worse verdict than ``now``."""
    changes = [(n, m.metric, verdict) for m in gating for verdict, n in (m.flips_to_change or {}).items()]
    found = [change for change in changes if change[0] > 0 and change[2] is not now]
    if not found:
        return []
    count, metric, verdict = min(found)
    return [f"{_count(count, 'more lost turn')} on {metric} would make it {verdict}."]


def _critical(critical: CriticalResult) -> list[str]:
    more = critical.rejected_at - len(critical.failed)
    if not critical.passed_by_baseline or more < 1:
        return []
    count = "One" if more == 1 else str(more)
    return [
        f"{count} {'further ' if critical.failed else ''}lost critical turn{'s' * (more > 1)} would make it REJECT."
    ]


def _demand(reason: Reason, results: Mapping[str, MetricResult], critical: CriticalResult) -> str:
    """What it would have taken for a reason not to be given."""
    figures, result = reason.figures or {}, results.get(reason.metric or "")
    demand = _HELD.get(reason.code, f"no {reason.code}")
    match reason.code:
        case ReasonCode.METRIC_LOSS | ReasonCode.METRIC_UNDECIDED:
            fewer = [-n for n in ((result and result.flips_to_change) or {}).values() if n < 0]
            if fewer:
                demand = f"{_count(min(fewer), 'fewer lost turn')} on {reason.metric}"
            else:  # it is measured elsewhere, or too small to be accepted without any flip
                demand = f"{'more turns for' if result else 'a smaller loss on'} {reason.metric}"
        case ReasonCode.SLICE_LOSS:
            count = _count(int(figures["fewer"]), "fewer lost turn")
            demand = f"{count} on {reason.metric} in slice {figures['slice']}"
        case ReasonCode.CRITICAL_TURN:
            borne = critical.rejected_at - 1 if reason.verdict is Verdict.REJECT else 0
            demand = _count(len(critical.failed) - borne, "fewer lost critical turn")
        case ReasonCode.SCENARIO_WIPED_OUT:
            each = "the" if figures["scenarios"] == 1 else "each"
            demand = f"a turn kept in {each} scenario that was wiped out"
        case ReasonCode.ANOMALOUS_GAIN if result:
            beyond = (float(figures["difference"]) - float(figures["limit"])) * result.n
            demand = f"{_count(math.ceil(round(beyond, 9)), 'fewer gained turn')} on {reason.metric}"
    return demand


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"
