"""How far a candidate's next-token distributions lie from the baseline's, on the same text.

Of each distribution only the likeliest tokens and the gold token are known. Tokens known on both sides are compared one
by one and all others as one bucket, which gives a Kullback-Leibler divergence from below: merging outcomes never raises
it (log-sum inequality; Cover & Thomas, Elements of Information Theory, 2nd ed., section 2.7). What is missing is

    P(rest) * KL(baseline given rest || candidate given rest),

at most ``P(rest) * r * tanh(r / 2)`` where no token of the rest changed by more than ``r`` nats relative to its bucket
(two outcomes with log-ratios r and -r are the worst case). Without knowing the rest, ``r`` is taken from the known
tokens: twice the largest change among them, once for the token and once for its bucket. So the error is a bound for as
long as no unlisted token changed by more than the listed one that changed most.

Figures are those of llama.cpp's ``llama-perplexity --kl-divergence`` (its tools/perplexity/README.md).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAIL_FLOOR = 1e-6
"""Least mass of the rest: sums of float32 probabilities are not known better. It moves a divergence by 1e-5 nats."""
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class TokenDrift:
    """Both sides at one token of a golden reply.

    :ivar divergence: Kullback-Leibler divergence of the candidate from the baseline, nats; from below.
    :ivar error: by how much the true one may be higher; see the module.
    :ivar tail: probability that the baseline gives to the tokens that are not compared one by one.
    :ivar same_top: both sides find the same token likeliest.
    :ivar baseline: log-probability of the gold token, nats.
    :ivar candidate: the same of the candidate.
    """

    divergence: float
    error: float
    tail: float
    same_top: bool
    baseline: float
    candidate: float


Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drift:
    """Figures over some tokens. Divergences are in nats, probabilities and their changes shares.

    :ivar mean: of the divergence; ``mean_interval``: 95 % bootstrap interval, None with fewer than two clusters.
    :ivar quantiles: of the divergence by share (0.5 is the median), linear between order statistics.
    :ivar error: mean by which the divergences may be too low.
    :ivar same_top: share of tokens with the same likeliest token.
    :ivar mean_change: of the gold token's probability, candidate minus baseline; ``rms_change``: its root mean square.
    :ivar perplexity: of the gold text, by the baseline and by the candidate.
    :ivar perplexity_ratio: candidate to baseline, with its 95 % bootstrap interval.
    """

    tokens: int
    mean: float
    mean_interval: Interval | None
    quantiles: Mapping[float, float]
    maximum: float
    error: float
    tail: float
    same_top: float
    mean_change: float
    rms_change: float
    perplexity: tuple[float, float]
    perplexity_ratio: float
    perplexity_ratio_interval: Interval | None


def token_drift(baseline: Mapping[int, float], candidate: Mapping[int, float], gold: int) -> TokenDrift:
    """Compare both sides at one token.

    :param baseline: natural log-probabilities by token id, of the likeliest tokens and of ``gold``.
    :param candidate: the same of the candidate.
    :raises ValueError: the gold token is missing, or a log-probability is not one.
    """
    for side in (baseline, candidate):
        if gold not in side:
            raise ValueError(f"no log-probability of the gold token {gold}")
        if not all(value <= 1e-3 for value in side.values()):  # also refuses NaN
            raise ValueError(f"not log-probabilities: {sorted(side.values())[-3:]}")
    both = [(baseline[token], candidate[token]) for token in baseline.keys() & candidate.keys()]
    rest = [max(1 - math.fsum(map(math.exp, side)), TAIL_FLOOR) for side in zip(*both, strict=True)]
    bucket = math.log(rest[0] / rest[1])
    divergence = math.fsum(math.exp(p) * (p - q) for p, q in both) + rest[0] * bucket
    most = 2 * max(abs(p - q) for p, q in both)
    return TokenDrift(
        divergence=max(divergence, 0.0),  # below zero by rounding only
        error=rest[0] * most * math.tanh(most / 2),
        tail=rest[0],
        same_top=_top(baseline) == _top(candidate),
        baseline=baseline[gold],
        candidate=candidate[gold],
    )


def _top(side: Mapping[int, float]) -> int:
    """The likeliest token; of equal ones the lowest id."""
    return max(side, key=lambda token: (side[token], -token))


def summarise(tokens: Sequence[TokenDrift], clusters: Sequence[str]) -> Drift:
    """Figures over ``tokens``.

    :param clusters: the scenario of each token; the bootstrap draws whole scenarios.
    :raises ValueError: no tokens.
    """
    if not tokens:
        raise ValueError("no tokens to summarise")
    divergences = np.array([token.divergence for token in tokens])
    before, after = (np.array([getattr(token, side) for token in tokens]) for side in ("baseline", "candidate"))
    change = np.exp(after) - np.exp(before)
    log_ratio_interval = _interval(before - after, clusters)
    return Drift(
        tokens=len(tokens),
        mean=float(divergences.mean()),
        mean_interval=_interval(divergences, clusters),
        quantiles={q: float(np.quantile(divergences, q)) for q in QUANTILES},
        maximum=float(divergences.max()),
        error=float(np.mean([token.error for token in tokens])),
        tail=float(np.mean([token.tail for token in tokens])),
        same_top=float(np.mean([token.same_top for token in tokens])),
        mean_change=float(change.mean()),
        rms_change=float(np.sqrt(np.mean(change**2))),
        perplexity=(_exp(-before.mean()), _exp(-after.mean())),
        perplexity_ratio=_exp((before - after).mean()),
        perplexity_ratio_interval=log_ratio_interval and (_exp(log_ratio_interval[0]), _exp(log_ratio_interval[1])),
    )


def import_ahead() -> None:
    """Import what the rest needs, while an engine is at work: a second that every start would cost, or a run's end."""
    importlib.import_module("scipy.stats")


def concordance(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """Share of pairs in which the value of ``larger`` is above that of ``smaller``, ties counted half.

    0.5 is chance, 1 a clean separation: Mann and Whitney's U over its largest value, the area under the ROC curve.

    :raises ValueError: one of them is empty.
    """
    if not larger or not smaller:
        raise ValueError("nothing to compare")
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(larger, smaller).statistic) / (len(larger) * len(smaller))


def _exp(value: np.float64 | float) -> float:
    """``e**value``, the largest number where that is too large: a hopeless candidate still has figures."""
    return math.exp(min(float(value), 700.0))


def _interval(values: NDArray[np.float64], clusters: Sequence[str]) -> Interval | None:
    """Percentile bootstrap interval of the mean per token, drawing clusters (Efron & Tibshirani 1993, chapter 13)."""
    names, index = np.unique(np.array(clusters), return_inverse=True)
    if len(names) < 2:
        return None
    from scipy.stats import bootstrap

    totals, counts = np.bincount(index, weights=values), np.bincount(index)
    found = bootstrap(
        (totals, counts),
        lambda total, count, axis: total.sum(axis) / count.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)
