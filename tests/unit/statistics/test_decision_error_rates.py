"""The gate's error rates, by simulation through the shipped decision (seeded; see benchmarks/error_rates.py).

Limits leave room for simulation error: 3 standard errors of 5 % in 300 runs are 3.8 points.
"""

from __future__ import annotations

import pytest
from decision_samples import make_policy

from pipeline.errors import Verdict
from pipeline.statistics.simulation import simulate_verdicts

POLICY = make_policy({"m": {"margin": 0.03}})
RUNS = 300


@pytest.mark.parametrize("concentrated_in", [1.0, 0.1])
def test_a_true_loss_of_the_margin_is_rarely_accepted(concentrated_in: float) -> None:
    verdicts = simulate_verdicts(POLICY, runs=RUNS, seed=1, loss=0.03, concentrated_in=concentrated_in)
    assert verdicts[Verdict.ACCEPT] <= 0.05 * RUNS + 11
    assert sum(verdicts.values()) == RUNS


def test_an_equal_candidate_is_rarely_rejected_and_mostly_accepted() -> None:
    verdicts = simulate_verdicts(POLICY, runs=RUNS, seed=2, loss=0.0)
    assert verdicts[Verdict.REJECT] <= 0.02 * RUNS
    assert verdicts[Verdict.INVALID] == 0
    assert verdicts[Verdict.ACCEPT] >= 0.9 * RUNS


def test_a_ruined_candidate_is_rejected() -> None:
    assert simulate_verdicts(POLICY, runs=50, seed=3, loss=0.12)[Verdict.REJECT] == 50


def test_a_small_set_is_not_trusted_with_a_concentrated_loss() -> None:
    # 40 scenarios of up to four turns: a third of such sets show no flip at all when 3 % of scenarios are lost
    verdicts = simulate_verdicts(POLICY, runs=RUNS, seed=4, scenarios=40, loss=0.03, noise=0.0, concentrated_in=0.03)
    assert verdicts[Verdict.ACCEPT] <= 0.05 * RUNS
