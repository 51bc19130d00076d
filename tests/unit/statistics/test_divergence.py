"""Divergence of next-token distributions, against scipy, hand calculation and whole distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax
from scipy.stats import bootstrap, entropy

from pipeline.statistics.divergence import TAIL_FLOOR, Drift, TokenDrift, concordance, summarise, token_drift

Logs = NDArray[np.float64]


def listed(logs: Logs, gold: int, k: int) -> dict[int, float]:
    """What an engine lists of a distribution: its k likeliest tokens and the gold one."""
    return {int(token): float(logs[token]) for token in [*np.argsort(-logs)[:k], gold]}


def logs_of(*probabilities: float) -> dict[int, float]:
    return {token: math.log(p) for token, p in enumerate(probabilities)}


def test_whole_distributions_give_scipys_divergence() -> None:
    p, q = (0.5, 0.25, 0.125, 0.125), (0.25, 0.25, 0.25, 0.25)
    drift = token_drift(logs_of(*p), logs_of(*q), gold=1)
    assert drift.divergence == pytest.approx(entropy(p, q), abs=1e-9)
    assert drift.divergence == pytest.approx(0.25 * math.log(2), abs=1e-9)  # 1/2 log 2 - 2 * 1/8 log 2
    assert drift.tail == TAIL_FLOOR
    assert (drift.baseline, drift.candidate) == (math.log(0.25), math.log(0.25))


def test_tokens_listed_on_one_side_only_are_part_of_the_rest() -> None:
    baseline = {1: math.log(0.6), 2: math.log(0.3)}
    candidate = {1: math.log(0.5), 3: math.log(0.4)}
    drift = token_drift(baseline, candidate, gold=1)
    assert drift.tail == pytest.approx(0.4)
    assert drift.divergence == pytest.approx(entropy([0.6, 0.4], [0.5, 0.5]))
    assert drift.same_top


def test_top_tokens_are_compared_by_id() -> None:
    assert not token_drift(logs_of(0.6, 0.4), logs_of(0.4, 0.6), gold=0).same_top
    assert token_drift(logs_of(0.5, 0.5), {1: math.log(0.5), 0: math.log(0.5)}, gold=0).same_top


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5, 2.0])
def test_a_few_tokens_give_a_divergence_from_below_and_bound_what_is_missing(noise: float) -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        logits = random.normal(0, 3, 2000)
        p, q = log_softmax(logits), log_softmax(logits + random.uniform(-noise, noise, 2000))
        gold = int(random.integers(2000))
        true = float(entropy(np.exp(p), np.exp(q)))
        drift = token_drift(listed(p, gold, 20), listed(q, gold, 20), gold)
        assert drift.divergence <= true + 1e-9
        assert true - drift.divergence <= drift.error


def test_the_worst_case_of_the_bound_reaches_it() -> None:
    r = 0.8  # log-ratios +r and -r: p = e^r / (1 + e^r), q = 1 / (1 + e^r)
    p = math.exp(r) / (1 + math.exp(r))
    assert entropy([p, 1 - p], [1 - p, p]) == pytest.approx(r * math.tanh(r / 2))


def test_the_more_tokens_are_listed_the_higher_the_divergence() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(0, 2, 500)
    p, q = log_softmax(logits), log_softmax(logits + random.normal(0, 0.3, 500))
    order = np.argsort(-p)
    both = [
        token_drift({int(t): p[t] for t in order[:k]}, {int(t): q[t] for t in order[:k]}, int(order[0])).divergence
        for k in (1, 5, 20, 100, 500)
    ]
    assert both == sorted(both)
    assert both[-1] == pytest.approx(entropy(np.exp(p), np.exp(q)), abs=1e-5)


def test_equal_distributions_have_no_divergence() -> None:
    drift = token_drift(logs_of(0.7, 0.2), logs_of(0.7, 0.2), gold=0)
    assert (drift.divergence, drift.error) == (0, 0)


@pytest.mark.parametrize("value", [float("nan"), 0.5])
def test_what_is_no_log_probability_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not log-probabilities"):
        token_drift({1: -0.1}, {1: value}, gold=1)


def test_a_missing_gold_token_is_refused() -> None:
    with pytest.raises(ValueError, match="gold token 2"):
        token_drift({1: -0.1, 2: -3.0}, {1: -0.1}, gold=2)


# --- over many tokens --------------------------------------------------------------------------


def token(divergence: float, baseline: float = 0.5, candidate: float = 0.5, *, same_top: bool = True) -> TokenDrift:
    """Gold probabilities are given as such."""
    return TokenDrift(divergence, divergence / 100, 0.01, same_top, math.log(baseline), math.log(candidate))


def test_figures_by_hand() -> None:
    tokens = [token(0.0, 0.5, 0.25), token(0.2, 0.5, 0.5, same_top=False), token(0.1, 0.25, 0.5), token(0.5, 0.5, 0.5)]
    drift = summarise(tokens, ["a", "a", "b", "b"])
    assert drift.tokens == 4
    assert drift.mean == pytest.approx(0.2)
    assert drift.quantiles[0.5] == pytest.approx(0.15)  # between 0.1 and 0.2
    assert drift.quantiles[0.9] == pytest.approx(0.41)  # 0.7 of the way from 0.2 to 0.5
    assert drift.maximum == 0.5
    assert drift.error == pytest.approx(0.002)
    assert drift.tail == pytest.approx(0.01)
    assert drift.same_top == 0.75
    assert drift.mean_change == pytest.approx(0)
    assert drift.rms_change == pytest.approx(math.sqrt(2 * 0.25**2 / 4))
    # 1/2 * 1/2 * 1/4 * 1/2 = 2^-5 on the baseline, 2^-5 on the candidate
    assert drift.perplexity == pytest.approx((2**1.25, 2**1.25))
    assert drift.perplexity_ratio == pytest.approx(1)


def test_intervals_are_scipys_over_scenarios() -> None:
    random = np.random.default_rng(1)
    values = random.exponential(0.1, 60)
    clusters = [f"s{number // 5}" for number in range(60)]  # twelve scenarios of five tokens
    drift = summarise([token(float(value), 0.5, 0.5 * math.exp(-value)) for value in values], clusters)
    means = values.reshape(12, 5).mean(axis=1)  # of equal size, so the mean of means is the mean
    expected = bootstrap(
        (means,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(99)
    ).confidence_interval
    assert drift.mean_interval == pytest.approx((expected.low, expected.high), rel=0.05)
    assert drift.perplexity_ratio == pytest.approx(math.exp(values.mean()))
    assert drift.perplexity_ratio_interval == pytest.approx((math.exp(expected.low), math.exp(expected.high)), rel=0.01)


def test_one_scenario_has_no_interval() -> None:
    drift = summarise([token(0.1), token(0.2)], ["a", "a"])
    assert (drift.mean_interval, drift.perplexity_ratio_interval) == (None, None)


def test_a_hopeless_candidate_still_has_figures() -> None:
    clamped = -9999.0  # how the engine writes the logarithm of zero
    tokens = [token_drift({1: -0.1, 2: -3.0}, {1: clamped, 2: -0.001}, gold=1)] * 2
    drift = summarise(tokens, ["a", "b"])
    assert isinstance(drift, Drift)
    assert drift.mean > 1000
    assert math.isfinite(drift.perplexity_ratio)


def test_concordance_counts_pairs() -> None:
    assert concordance([3, 5], [1, 4]) == 0.75  # 3 > 1, 3 < 4, 5 > 1, 5 > 4
    assert concordance([2], [2, 2]) == 0.5
    with pytest.raises(ValueError, match="nothing"):
        concordance([], [1])


def test_no_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="no tokens"):
        summarise([], [])
