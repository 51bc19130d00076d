"""Exact tests, Holm, power, clusters and repeated sampling against other libraries and hand calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from pipeline.errors import Verdict
from pipeline.statistics.clusters import cluster_facts, cluster_variance, t_limits
from pipeline.statistics.exact import clopper_pearson_upper, mcnemar_midp
from pipeline.statistics.limits import PairedCounts
from pipeline.statistics.multiple import holm
from pipeline.statistics.power import minimum_detectable_effect, required_n
from pipeline.statistics.tango import tango_limits


@pytest.mark.parametrize(("failures", "trials", "limit"), [(0, 40, 0.0722), (0, 300, 0.00994), (0, 1, 0.95)])
def test_what_zero_failures_prove(failures: int, trials: int, limit: float) -> None:
    # 1 - 0.05^(1/40) = 0.07216, 1 - 0.05^(1/300) = 0.009936
    assert clopper_pearson_upper(failures, trials) == pytest.approx(limit, abs=5e-5)


def test_clopper_pearson_against_statsmodels() -> None:
    for failures, trials in [(1, 10), (3, 40), (39, 40), (17, 1000)]:
        expected = proportion_confint(failures, trials, alpha=0.1, method="beta")[1]
        assert clopper_pearson_upper(failures, trials) == pytest.approx(expected, rel=1e-9)


def test_clopper_pearson_proves_nothing_without_trials_or_successes() -> None:
    assert clopper_pearson_upper(0, 0) == 1.0
    assert clopper_pearson_upper(7, 7) == 1.0
    with pytest.raises(ValueError, match="failures <= trials"):
        clopper_pearson_upper(3, 2)


def test_mcnemar_midp_published() -> None:
    # R package contingencytables 3.0, test suite: Cavo (6, 16) 0.034690
    assert mcnemar_midp(6, 16) == pytest.approx(0.034690, abs=5e-7)
    # Bentur (1, 7), by hand: exact two-sided 2 (1 + 8) / 256 = 0.0703, less P(X = 1) = 8 / 256: 0.0391
    assert mcnemar_midp(7, 1) == pytest.approx(10 / 256, abs=1e-12)


def test_mcnemar_midp_against_the_exact_binomial_test() -> None:
    # Fagerland's supplement: exact p less the point probability; 1 - half of it where b = c
    for b, c in [(0, 1), (0, 9), (5, 5), (40, 22), (300, 260)]:
        point = stats.binom.pmf(b, b + c, 0.5)
        expected = stats.binomtest(b, b + c, 0.5).pvalue - point if b != c else 1 - point / 2
        assert mcnemar_midp(b, c) == pytest.approx(expected, rel=1e-9)
        assert mcnemar_midp(c, b) == mcnemar_midp(b, c)
    assert mcnemar_midp(0, 0) == 1.0


def test_holm_against_statsmodels() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 40):
        p = rng.random(size) ** 3
        assert holm(list(p)) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # by hand


def test_holm_refuses_what_is_no_probability() -> None:
    for value in (math.nan, -0.1, 1.1):
        with pytest.raises(ValueError, match="not a p-value"):
            holm([0.5, value])


def test_minimum_detectable_effect_of_the_specification() -> None:
    for n, flip_rate in [(400, 0.06), (600, 0.02), (10_000, 0.1)]:
        assert minimum_detectable_effect(n, flip_rate) == pytest.approx(2.486 * math.sqrt(flip_rate / n), rel=3e-4)


def test_few_flips_do_not_make_a_small_set_powerful() -> None:
    # No flip in 40: 1 - 0.05^(1/40) = 0.0722
    assert minimum_detectable_effect(40, 0.0) == pytest.approx(0.0722, abs=5e-5)
    assert minimum_detectable_effect(0, 0.02) == 1.0
    assert required_n(0.03, 0.0) == 99  # 0.97^98 = 5.05 %, 0.97^99 = 4.90 %
    assert required_n(1.0, 0.0) == 1


def test_required_n_by_hand() -> None:
    # (2.4865 / 0.03)^2 * 0.06 = 412.2; with a design effect of 1.5: 618.3
    assert required_n(0.03, 0.06) == 413
    assert required_n(0.03, 0.06, design_effect=1.5) == 619


def test_required_n_gives_the_power_it_promises() -> None:
    rng = np.random.default_rng(5)
    n = required_n(0.03, 0.06)
    accepted = 0
    for _ in range(1500):
        b, c, _ = rng.multinomial(n, [0.03, 0.03, 0.94])
        accepted += tango_limits(int(b), int(c), n)[0] >= -0.03
    assert 0.76 < accepted / 1500 < 0.84  # 0.8 with 4 standard errors of simulation


@pytest.mark.parametrize("arguments", [(0.0, 0.1), (-0.1, 0.1), (0.03, 1.2), (0.03, math.nan)])
def test_power_refuses_what_cannot_be(arguments: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="is a share"):
        required_n(*arguments)


def _clustered(seed: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=clusters)
    cluster = np.repeat(np.arange(clusters), sizes)
    bad = rng.random(clusters) < 0.2
    noise = rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], size=len(cluster))
    return np.where(bad[cluster], -1.0, noise), cluster


@pytest.mark.parametrize(("seed", "clusters"), [(1, 5), (2, 40), (3, 300)])
def test_cluster_robust_limits_against_statsmodels(seed: int, clusters: int) -> None:
    differences, cluster = _clustered(seed, clusters)
    fit = sm.OLS(differences, np.ones(len(differences))).fit(
        cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True
    )
    variance = cluster_variance(differences, cluster)
    assert math.sqrt(variance) == pytest.approx(float(fit.bse[0]), rel=1e-9)
    # statsmodels takes t with G - 1 degrees of freedom; alpha = 0.1 two-sided is 0.05 one-sided
    assert t_limits(differences.mean(), variance, clusters) == pytest.approx(tuple(fit.conf_int(0.1)[0]), rel=1e-9)


def test_design_effect_by_hand() -> None:
    # Two clusters of two and two of one; one pair of losses together. n = 6, d = -1/3.
    differences, cluster = np.array([-1.0, -1.0, 0.0, 0.0, 0.0, 0.0]), np.array([0, 0, 1, 1, 2, 3])
    # residual sums: -2 + 2/3 = -4/3, 2/3, 1/3, 1/3; squares 16/9 + 4/9 + 1/9 + 1/9 = 22/9; times 4/3, over 36
    robust = 4 / 3 * 22 / 9 / 36
    independent = (2 / 6 - 1 / 9) / 6
    facts = cluster_facts(differences, cluster, 2.0, 0.0)
    assert facts.design_effect == pytest.approx(robust / independent)
    # worst case sum m^2 / sum m = (4 + 4 + 1 + 1) / 6; one scenario holds flips
    assert facts.careful_effect == pytest.approx((robust / independent + 10 / 6) / 2)


def test_without_flips_clusters_count_as_if_their_turns_always_agree() -> None:
    limits = PairedCounts.of(np.zeros(120), np.repeat(np.arange(40), 3)).limits(0.05)
    z2 = stats.norm.ppf(0.95) ** 2
    assert limits.tango_clustered[0] == pytest.approx(-z2 / (40 + z2))  # 40 scenarios, not 120 turns
    assert limits.lower == limits.exact[0] == pytest.approx(-(1 - 0.05 ** (1 / 40)))
    assert limits.deciding == "exact"


def test_one_turn_per_scenario_is_tango_alone() -> None:
    differences = np.array([-1.0] * 5 + [1.0] * 2 + [0.0] * 93)
    limits = PairedCounts.of(differences, np.arange(100)).limits(0.05)
    assert (limits.lower, limits.upper) == tango_limits(5, 2, 100)
    assert limits.cluster_t is None and limits.exact is None


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (5, 0), (0, 5), (100, 0)])
def test_flips_of_one_kind_are_one_binomial_rate(lost: int, gained: int) -> None:
    # statsmodels' "beta" interval is Clopper and Pearson's
    flips = lost + gained
    low, high = proportion_confint(flips, 100, alpha=0.1, method="beta")
    differences = np.repeat([-1.0, 1.0, 0.0], [lost, gained, 100 - flips])
    limits = PairedCounts.of(differences, np.arange(100)).limits(0.05)
    expected = {(0, 0): (-high, high), (0, 5): (low, high)}.get((lost, gained), (-high, -low))
    assert limits.exact == pytest.approx(expected)
    assert limits.lower == min(limits.exact[0], limits.tango[0])
    assert limits.upper == max(limits.exact[1], limits.tango[1])


@pytest.mark.parametrize("gain", [0.0, 0.0005, 0.001, 0.0025, 0.005, 0.01])
@pytest.mark.parametrize("n", [88, 133, 263, 600])
def test_exact_error_rates_of_independent_turns(n: int, gain: float) -> None:
    # Every outcome of n turns with its probability when the true loss is exactly the margin: no simulation.
    margin = 0.03
    shares = {Verdict.ACCEPT: 0.0, Verdict.REJECT: 0.0, Verdict.INCONCLUSIVE: 0.0}
    for b in range(int(stats.binom.ppf(1 - 1e-7, n, margin + gain)) + 1):
        for c in range(int(stats.binom.ppf(1 - 1e-7, n, gain)) + 1):
            chance = stats.multinomial.pmf([b, c, n - b - c], n, [margin + gain, gain, 1 - margin - 2 * gain])
            shares[PairedCounts(n, b, c, n).verdict(margin, 0.05)] += chance
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert shares[Verdict.ACCEPT] <= 0.05
    assert shares[Verdict.REJECT] <= 0.065  # Tango's limits: skewness is not allowed for on this side


def test_one_scenario_proves_nothing() -> None:
    limits = PairedCounts.of(np.zeros(500), np.zeros(500, dtype=int)).limits(0.05)
    assert (limits.lower, limits.upper) == (-1.0, 1.0)


def test_the_strictest_limit_decides() -> None:
    for seed in range(20):
        counts = PairedCounts.of(*_clustered(seed, 60))
        limits = counts.limits(0.05)
        assert limits.cluster_t is not None and limits.tango_clustered is not None
        every = [limits.tango, limits.exact or limits.tango, limits.tango_clustered, limits.cluster_t]
        assert limits.lower == min(low for low, _ in every)
        assert limits.upper == max(high for _, high in every)


def test_loss_p_agrees_with_the_upper_limit() -> None:
    # p < alpha exactly when the upper limit at alpha lies below -margin
    for seed in range(30):
        counts = PairedCounts.of(*_clustered(seed, 50))
        for margin in (0.01, 0.1, 0.2, 0.3):
            for alpha in (0.05, 0.001):
                assert (counts.loss_p(margin) < alpha) == (counts.limits(alpha).upper < -margin)


def test_verdicts_are_those_of_the_limits() -> None:
    rng = np.random.default_rng(6)
    seen = set()
    for _ in range(400):
        n = int(rng.integers(1, 600))
        b, c, _ = rng.multinomial(n, rng.dirichlet([1, 0.5, 30]))
        differences = rng.permutation(np.repeat([-1.0, 1.0, 0.0], [b, c, n - b - c]))
        counts = PairedCounts.of(differences, np.sort(rng.integers(0, max(1, n // int(rng.integers(1, 4))), size=n)))
        limits, margin = counts.limits(0.05), float(rng.choice([0.0, 0.01, 0.03, 0.1]))
        expected = "ACCEPT" if limits.lower >= -margin else "REJECT" if limits.upper < -margin else "INCONCLUSIVE"
        assert counts.verdict(margin, 0.05) == expected, (counts, margin, limits)
        seen.add(expected)
    assert len(seen) == 3


def test_counts_refuse_nothing_and_nan() -> None:
    for differences in ([], [math.nan], [0.0, 1.5]):
        with pytest.raises(ValueError, match=r"at least one|between -1 and 1"):
            PairedCounts.of(np.array(differences, dtype=float), np.zeros(len(differences), dtype=int))
