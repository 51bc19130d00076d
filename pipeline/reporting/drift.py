"""Drift of next-token distributions, in words and cells."""

from __future__ import annotations

from collections.abc import Set

from pipeline.reporting.record import Drift, DriftRow
from pipeline.statistics.divergence import concordance

SHOWN = 5
NO_FIGURE = "\u2013"
_QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def most_drifted(drift: Drift) -> list[str]:
    """Turns whose golden reply drifted most, the furthest first."""
    return sorted(drift.turn_means, key=lambda turn: (-drift.turn_means[turn], turn))[:SHOWN]


def drift_lines(drift: Drift, flipped: Set[str]) -> list[str]:
    """What the figures over all tokens say, what they may miss, how they go with flips, what could not be compared.

    :param flipped: ids of turns that one side passes and the other fails on some metric.
    """
    lines = drift_summary(drift)[:1] if drift.rows else []
    if drift.rows:
        row = drift.rows[0]
        lines.append(
            f"Of each distribution the {drift.top_k} likeliest tokens are known and the rest as one bucket, so "
            f"divergences come out too low: by {row.error:.4f} nats on average at most, for as long as no token of the "
            "rest changed more than the listed ones did."
        )
    means = [[v for turn, v in drift.turn_means.items() if (turn in flipped) is side] for side in (True, False)]
    if all(means):
        lines.append(
            f"Of these turns {len(means[0])} flipped: their replies drifted {sum(means[0]) / len(means[0]):.4f} nats, "
            f"the others' {sum(means[1]) / len(means[1]):.4f}; of a flipped and another turn the flipped one drifted "
            f"more in {100 * concordance(*means):.0f} % of pairs (50 %: chance)."
        )
    return [*lines, *_unread(drift)]


def drift_summary(drift: Drift | None) -> list[str]:
    """The figures over all tokens, and what could not be compared; nothing where drift was not looked at."""
    if drift is None or not drift.rows:
        return _unread(drift) if drift else []
    row = drift.rows[0]
    overall = (
        f"On {row.tokens:,} tokens of {drift.compared:,} golden replies the candidate lies {row.mean:.4f} nats "
        f"from the baseline on average{_interval(row.mean_interval)}. Both find the same token likeliest at "
        f"{100 * row.same_top:.1f} % of them, and the golden text is {row.perplexity_ratio:.3f} times as "
        f"perplexing to the candidate{_interval(row.perplexity_ratio_interval, 3)}."
    )
    return [overall, *_unread(drift)]


def _unread(drift: Drift) -> list[str]:
    if not drift.unread:
        return []
    turn, why = next(iter(drift.unread.items()))
    return [f"{len(drift.unread)} of {drift.turns} golden replies could not be compared; {turn}: {why}."]


def drift_cells(row: DriftRow) -> list[str]:
    """The figures of one row, from the mean divergence to the ratio of perplexities and its interval."""
    quantiles = [
        f"{getattr(row, name):.5f}" if round(row.tokens * (1 - share), 6) >= 1 else NO_FIGURE
        for name, share in _QUANTILES.items()
    ]
    return [
        f"{row.mean:.5f}",
        *quantiles,
        f"{row.maximum:.5f}",
        f"{100 * row.same_top:.2f}",
        f"{100 * row.mean_change:+.3f}",
        f"{100 * row.rms_change:.3f}",
        f"{row.perplexity_ratio:.4f}",
        "{:.3f} to {:.3f}".format(*row.perplexity_ratio_interval) if row.perplexity_ratio_interval else NO_FIGURE,
    ]


def _interval(limits: tuple[float, float] | None, digits: int = 4) -> str:
    return f" (95 % interval {limits[0]:.{digits}f} to {limits[1]:.{digits}f})" if limits else ""
