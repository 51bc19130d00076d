"""Alpha spending and its boundaries against published values of other software and a multivariate normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from decision_samples import make_turns
from scipy.stats import multivariate_normal, norm

from pipeline.statistics.sequential import critical_values, levels, plan_looks, spent


@pytest.mark.parametrize(
    ("fractions", "published", "digits"),
    [
        # R gsDesign 3.8, gsDesign(k = 3, test.type = 1, alpha = 0.025, sfu = sfLDOF, timing = c(1, 2, 3) / 3)
        ((1 / 3, 2 / 3, 1.0), (3.710303, 2.511427, 1.993048), 5e-6),
        # East: the same spending function at 0.4, 0.8, 1
        ((0.4, 0.8, 1.0), (3.356869, 2.254642, 2.025815), 5e-6),
        # R ldbounds, ldBounds(c(0.3, 0.6, 1)): its numerical integration is coarser
        ((0.3, 0.6, 1.0), (3.928573, 2.669967, 1.981004), 5e-5),
        # Two-sided 0.05 by Reboussin, DeMets, Kim and Lan (2000, Controlled Clinical Trials 21, 190-207)
        ((0.2, 0.4, 0.6, 0.8, 1.0), (4.877, 3.357, 2.680, 2.290, 2.031), 5e-4),
    ],
)
def test_published_boundaries(fractions: tuple[float, ...], published: tuple[float, ...], digits: float) -> None:
    assert critical_values(fractions, 0.025) == pytest.approx(published, abs=digits)


def test_published_spending_and_levels() -> None:
    # gsDesign: sfLDOF(0.025, c(1, 2, 3) / 3)$spend and the nominal p-values of its design
    assert [spent(t, 0.025) for t in (1 / 3, 2 / 3, 1)] == pytest.approx([0.0001035057, 0.0060483891, 0.025], abs=5e-11)
    assert levels((1 / 3, 2 / 3, 1.0), 0.025) == pytest.approx([0.000104, 0.006012, 0.023128], abs=5e-7)
    assert spent(0, 0.05) == 0


def test_without_looks_nothing_changes() -> None:
    assert critical_values((1.0,), 0.05) == pytest.approx((norm.ppf(0.95),))


@pytest.mark.parametrize("fractions", [(0.5, 1.0), (0.25, 0.5, 1.0), (0.1, 0.12, 0.9, 1.0)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_all_looks_together_reject_with_probability_alpha(fractions: tuple[float, ...], alpha: float) -> None:
    # Not to cross at any look: the distribution function of normal Z_k with correlations sqrt(t_j / t_k).
    t = np.array(fractions)
    correlation = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
    values = critical_values(fractions, alpha)
    for k in range(1, len(fractions) + 1):
        inside = multivariate_normal.cdf(values[:k], cov=correlation[:k, :k], abseps=1e-7, releps=1e-7, rng=1)
        assert 1 - inside == pytest.approx(spent(fractions[k - 1], alpha), abs=2e-6)


@pytest.mark.parametrize("fractions", [(), (0.5,), (0.5, 0.5, 1.0), (0.0, 1.0), (1.0, 0.5), (math.nan, 1.0)])
def test_fractions_must_increase_to_the_whole(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must increase"):
        critical_values(fractions, 0.05)


@pytest.mark.parametrize(("fraction", "alpha"), [(-0.1, 0.05), (1.1, 0.05), (0.5, 0.0), (0.5, 0.5), (math.nan, 0.05)])
def test_spending_refuses_what_cannot_be(fraction: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="need 0 <= fraction"):
        spent(fraction, alpha)


def test_looks_take_whole_scenarios_each_more_than_the_last() -> None:
    turns = make_turns(120, per_scenario=3)
    looks = plan_looks(turns, (0.25, 0.5))
    assert [(look.number, look.scenarios, look.of, len(look.turns)) for look in looks] == [
        (1, 10, 40, 30),
        (2, 20, 40, 60),
    ]
    first, second = ({turn.scenario for turn in look.turns} for look in looks)
    assert first < second
    assert first != {f"s{i:03}" for i in range(10)}  # not the first of the file
    assert plan_looks(turns[::-1], (0.25, 0.5))[0].turns == looks[0].turns[::-1]  # whatever the order of the set
    assert plan_looks(turns, ()) == ()


def test_looks_that_add_nothing_are_left_out() -> None:
    looks = plan_looks(make_turns(4), (0.1, 0.5, 0.55, 0.9))
    assert [(look.number, look.scenarios) for look in looks] == [(1, 2)]
    assert plan_looks([], (0.5,)) == ()
