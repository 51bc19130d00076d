"""Tango's limits against published values, other software, an independent algebraic form and its definition."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from pipeline.statistics.tango import score, tango_limits

Z = norm.ppf(0.95)


@pytest.mark.parametrize(
    ("b", "c", "n", "lower"),
    [(12, 12, 400, -0.0211), (30, 30, 1000, -0.0130), (53, 22, 1319, -0.0347)],
)
def test_one_sided_limits_of_the_specification(b: int, c: int, n: int, lower: float) -> None:
    assert tango_limits(b, c, n)[0] == pytest.approx(lower, abs=5e-5)


@pytest.mark.parametrize(
    ("b", "c", "n", "alpha", "expected"),
    [
        # Airway hyper-responsiveness (Bentur 2009) in Fagerland, Lydersen and Laake 2014, Stat Med 33: 2850-2875
        (7, 1, 21, 0.025, (-0.517, -0.026)),
        # Consolidation therapy (Cavo 2012): R package contingencytables 3.0, its own test suite
        (16, 6, 161, 0.025, (-0.1240, -0.0054)),
        # R package ratesci, pairbinci(c(4, 9, 3, 16)), its own test suite
        (3, 9, 32, 0.025, (-0.027, 0.390)),
        # Contact lenses, Tango 1998 table IV; ratesci pairbinci(c(43, 0, 1, 0), level = 0.90)
        (1, 0, 44, 0.05, (-0.096, 0.037)),
    ],
)
def test_published_intervals(b: int, c: int, n: int, alpha: float, expected: tuple[float, float]) -> None:
    digits = 5e-5 if n == 161 else 5e-4
    assert tango_limits(b, c, n, alpha) == pytest.approx(expected, abs=digits)


@pytest.mark.parametrize("n", [1, 2, 10, 40, 300, 10_000])
def test_without_flips_the_limit_is_z2_over_n_plus_z2(n: int) -> None:
    expected = Z**2 / (n + Z**2)
    assert tango_limits(0, 0, n) == pytest.approx((-expected, expected), abs=1e-12)


@pytest.mark.parametrize("n", [1, 5, 200])
def test_everything_lost_or_gained(n: int) -> None:
    # With b = n the problem is one binomial: d = 1 - 2p, p = n/n, and the score limit is Wilson's,
    # p >= n / (n + z^2), so d <= 1 - 2 n / (n + z^2).
    upper = 1 - 2 * n / (n + Z**2)
    assert tango_limits(n, 0, n) == pytest.approx((-1.0, upper), abs=1e-12)
    assert tango_limits(0, n, n) == pytest.approx((-upper, 1.0), abs=1e-12)


@pytest.mark.parametrize("n", [3, 17, 60, 443])
def test_losses_alone_give_wilsons_limit(n: int) -> None:
    # Without gains the lower limit is minus Wilson's upper limit of a binomial rate (statsmodels).
    from statsmodels.stats.proportion import proportion_confint

    for b in range(1, n, max(1, n // 6)):
        wilson = proportion_confint(b, n, alpha=0.1, method="wilson")[1]
        assert tango_limits(b, 0, n)[0] == pytest.approx(-wilson, abs=1e-9)


def _quartic_roots(b: int, c: int, n: int, z: float) -> np.ndarray:
    """Real roots of the quartic of Yang, Sun and Hardin, derived anew from T(D)^2 = z^2.

    T^2 = z^2 gives 2q = u(D) = (c - b - nD)^2 / (z^2 n) - D(1 - D), a polynomial; put into the equation
    that q solves, 2n q^2 + B q + C = 0 with B, C polynomials in D, it leaves n u^2 + B u + 2C = 0.
    """
    difference = np.polynomial.Polynomial([0.0, 1.0])
    u = (c - b - n * difference) ** 2 / (z * z * n) - difference * (1 - difference)
    linear = -(b + c) + (2 * n - (c - b)) * difference
    constant = -b * difference * (1 - difference)
    roots = (n * u**2 + linear * u + 2 * constant).roots()
    return np.sort(roots.real[np.abs(roots.imag) < 1e-6])


def test_limits_are_roots_of_the_quartic() -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        n = int(rng.integers(2, 2000))
        b, c, _ = rng.multinomial(n, rng.dirichlet([0.5, 0.5, 2]))
        for limit in tango_limits(int(b), int(c), n, 0.025):
            roots = _quartic_roots(int(b), int(c), n, norm.ppf(0.975))
            assert np.min(np.abs(roots - limit)) < 1e-5, (b, c, n, limit, roots)


@pytest.mark.parametrize(("b", "c", "n", "difference"), [(7, 1, 21, -0.1), (53, 22, 1319, -0.03), (0, 4, 30, -0.05)])
def test_score_uses_the_restricted_maximum_likelihood(b: int, c: int, n: int, difference: float) -> None:
    # T's variance is n (p_loss + p_gain - D^2) at the p_loss that maximises the trinomial likelihood given D.
    def minus_log_likelihood(p_loss: float) -> float:
        p_gain = p_loss + difference
        value = b * math.log(p_loss) + (n - b - c) * math.log(1 - p_loss - p_gain)
        return -value - (c * math.log(p_gain) if c else 0)

    low, high = max(0.0, -difference), (1 - difference) / 2
    best = minimize_scalar(minus_log_likelihood, bounds=(low + 1e-12, high - 1e-12), options={"xatol": 1e-12})
    variance = n * (2 * best.x + difference - difference**2)
    assert score(b, c, n, difference) == pytest.approx((c - b - n * difference) / math.sqrt(variance), rel=1e-4)


def test_limits_are_finite_ordered_and_within_range_on_every_small_table() -> None:
    for n in range(1, 13):
        for b in range(n + 1):
            for c in range(n + 1 - b):
                lower, upper = tango_limits(b, c, n)
                assert -1 <= lower <= (c - b) / n <= upper <= 1
                assert tango_limits(c, b, n) == (-upper, -lower)


def test_more_losses_never_raise_a_limit() -> None:
    for alpha in (0.01, 0.05):
        limits = [tango_limits(b, 5, 200, alpha) for b in range(196)]
        assert all(later < earlier for earlier, later in pairwise(limits))


def test_a_limit_is_where_the_score_reaches_its_quantile() -> None:
    lower, upper = tango_limits(9, 4, 150)
    assert score(9, 4, 150, lower) == pytest.approx(Z, abs=1e-9)
    assert score(9, 4, 150, upper) == pytest.approx(-Z, abs=1e-9)


@pytest.mark.parametrize("counts", [(-1, 0, 5), (3, 3, 5), (0, 0, 0), (math.nan, 0, 5), (0, 0, math.inf)])
def test_impossible_counts_are_refused(counts: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"need 0 <= b|must be finite"):
        tango_limits(*counts)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, math.nan])
def test_a_meaningless_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        tango_limits(1, 1, 10, alpha)
