"""How close the verdict is: what would have to come out otherwise for another one."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import Verdict
from pipeline.statistics.facts import CriticalResult, MetricResult, Reason, ReasonCode

_HELD = {
    ReasonCode.CRITICAL_TURN: "no critical turn lost",
    ReasonCode.SCENARIO_WIPED_OUT: "no scenario wiped out",
    ReasonCode.NO_BENEFIT: "a larger gain, at no loss elsewhere",
    ReasonCode.DRIFT: "next-token distributions that resemble the baseline's",
    ReasonCode.ANOMALOUS_GAIN: "no gain beyond belief",
}


def what_would_change(reasons: Sequence[Reason], metrics: Sequence[MetricResult], critical: CriticalResult) -> str:
    """What another verdict would have taken, from the counts of :attr:`MetricResult.flips_to_change`.

    :param reasons: the weightiest first.
    """
    verdict = reasons[0].verdict
    if verdict is Verdict.INVALID:
        return "No number of flips: it is the comparison that cannot be relied on."
    gating = [m for m in metrics if m.gating]
    if not any(m.n for m in gating):
        return "Nothing was measured that could have come out otherwise."
    argued = [reason for reason in reasons if reason.verdict is verdict]
    if verdict is Verdict.ACCEPT:
        return " ".join(_to_lose(gating) + _critical(critical))
    if verdict is Verdict.REJECT:
        return f"To be no {verdict} it would have taken: {'; '.join(dict.fromkeys(_demands(argued, gating)))}."
    other = [reason.code for reason in argued if reason.code is not ReasonCode.METRIC_UNDECIDED]
    if other:
        to_accept = f"ACCEPT is out of reach of any number of flips ({', '.join(dict.fromkeys(other))})."
    else:
        to_accept = f"ACCEPT would have taken: {'; '.join(_demands(argued, gating))}."
    return " ".join([to_accept, *_to_lose(gating), *_critical(critical)])


def _to_lose(gating: Sequence[MetricResult]) -> list[str]:
    """The smallest number of further losses that gives a worse verdict."""
    found = [(n, m.metric, verdict) for m in gating for verdict, n in (m.flips_to_change or {}).items() if n > 0]
    if not found:
        return []
    count, metric, verdict = min(found)
    return [f"{_turns(count, 'more')} on {metric} would make it {verdict}."]


def _critical(critical: CriticalResult) -> list[str]:
    more = critical.rejected_at - len(critical.failed)
    if not critical.passed_by_baseline or more < 1:
        return []
    count = "One" if more == 1 else str(more)
    return [
        f"{count} {'further ' if critical.failed else ''}lost critical turn{'s' * (more > 1)} would make it REJECT."
    ]


def _demands(reasons: Sequence[Reason], gating: Sequence[MetricResult]) -> list[str]:
    """What each reason would have taken not to be given."""
    results = {m.metric: m for m in gating}
    demands = []
    for reason in reasons:
        if reason.code in (ReasonCode.METRIC_LOSS, ReasonCode.METRIC_UNDECIDED):
            result = results.get(reason.metric or "")
            fewer = [-n for n in ((result and result.flips_to_change) or {}).values() if n < 0]
            demands.append(
                f"{_turns(min(fewer), 'fewer')} on {reason.metric}" if fewer else f"more turns for {reason.metric}"
            )
        elif reason.code is ReasonCode.SLICE_LOSS:
            demands.append(f"no proved loss in slice {(reason.figures or {}).get('slice')}")
        else:
            demands.append(_HELD.get(reason.code, f"no {reason.code}"))
    return demands


def _turns(count: int, word: str) -> str:
    return f"{count} {word} lost turn{'s' if count > 1 else ''}"
