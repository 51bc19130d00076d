"""Limits that respect clusters: turns of one scenario tend to fail together.

The difference d is the mean of x_i = candidate - baseline, each -1, 0 or 1. Its cluster-robust variance
(Liang and Zeger 1986, Biometrika 73, 13-22, for an intercept alone, with the factor G/(G-1) of Cameron and
Miller 2015, Journal of Human Resources 50, 317-372) is

    var(d) = G/(G-1) * sum over clusters of (sum over its turns of (x_i - d))^2 / n^2

and the limits are d -+ t_{G-1} * sqrt(var(d)).

Two weaknesses of that t limit are met by a second one. It is symmetric and trusts an estimated variance,
so a handful of lost scenarios looks more certain than it is; and without any flips it has no width at all.
So Tango's limits are also taken at counts divided by the design effect, the ratio of the cluster-robust to
the independent variance (Rao and Scott 1992, Biometrics 48, 577-585; for paired data Yang, Sun and Hardin
2012, Pharmaceutical Statistics 11, 386-393).

An estimated design effect is itself shaky when few scenarios hold flips, and it errs on the wrong side just
when luck hid the bad scenarios. So one imaginary scenario of the worst kind (turns always agree, design
effect sum m^2 / sum m) is averaged in: with K scenarios holding flips, (K * estimate + worst) / (K + 1).
Without flips that is the worst case itself. One is the smallest count that kept the false accepts at or
below 5 % when a loss of exactly the margin sits in 5 to 10 % of the scenarios (``benchmarks/error_rates.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the clusters of paired differences say.

    :ivar clusters: number of clusters, G.
    :ivar design_effect: cluster-robust over independent variance of the mean difference; 1 when every cluster
        holds one binary pair, the worst case when nothing varies or there is one cluster.
    :ivar careful_effect: the design effect with one imaginary worst scenario averaged in, at least 1.
    """

    clusters: int
    design_effect: float
    careful_effect: float


def independent_variance(b: float, c: float, n: float) -> float:
    """Variance of d were all turns independent: ``((b + c)/n - d^2) / n`` (Wald)."""
    difference = (c - b) / n
    return max((b + c) / n - difference * difference, 0.0) / n


def cluster_variance(differences: NDArray[np.float64], cluster: NDArray[np.intp]) -> float:
    """Cluster-robust variance of the mean of ``differences``.

    :param cluster: cluster number (from 0) of each difference; numbers may be absent.
    :raises ValueError: fewer than two clusters.
    """
    sizes = np.bincount(cluster)
    clusters = int(np.count_nonzero(sizes))
    if clusters < 2:
        raise ValueError("a cluster-robust variance needs at least two clusters")
    residuals = np.bincount(cluster, weights=differences) - differences.mean() * sizes
    return float(clusters / (clusters - 1) * np.dot(residuals, residuals) / len(differences) ** 2)


def cluster_facts(differences: NDArray[np.float64], cluster: NDArray[np.intp], b: float, c: float) -> ClusterFacts:
    """What the clusters of at least one paired difference say.

    :param b: sum of the losses.
    :param c: sum of the gains.
    """
    n = len(differences)
    sizes = np.bincount(cluster)
    clusters = int(np.count_nonzero(sizes))
    binary = b + c == float(np.dot(differences, differences))
    if clusters == n and binary:
        return ClusterFacts(clusters, 1.0, 1.0)
    worst = float(np.dot(sizes, sizes) / n)
    independent = independent_variance(b, c, n)
    if clusters < 2 or independent <= 0:
        return ClusterFacts(clusters, worst, worst)
    estimate = cluster_variance(differences, cluster) / independent
    telling = len(np.unique(cluster[differences != 0]))
    careful = (telling * estimate + worst) / (telling + 1)
    return ClusterFacts(clusters, estimate, max(careful, 1.0))


def t_limits(difference: float, variance: float, clusters: float, alpha: float = 0.05) -> tuple[float, float]:
    """Lower and upper t limit with ``clusters - 1`` degrees of freedom, each one-sided at ``alpha``.

    One cluster proves nothing: (-1, 1).
    """
    if clusters < 2:
        return -1.0, 1.0
    half = float(stdtrit(clusters - 1, 1 - alpha)) * math.sqrt(variance)
    return max(difference - half, -1.0), min(difference + half, 1.0)
