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
2012, Pharmaceutical Statistics 11, 386-393). Where no flips were seen the design effect cannot be
estimated, and the worst case stands in: turns of a scenario always agree, sum m^2 / sum m.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


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


def cluster_facts(differences: NDArray[np.float64], cluster: NDArray[np.intp], b: float, c: float) -> tuple[int, float]:
    """Number of clusters and design effect of at least one paired difference.

    The design effect is the cluster-robust over the independent variance of the mean; 1 when every cluster
    holds one binary pair; the worst case (sum m^2 / sum m) when nothing varies or there is one cluster.

    :param b: sum of the losses.
    :param c: sum of the gains.
    """
    n = len(differences)
    sizes = np.bincount(cluster)
    sizes = sizes[sizes > 0]
    clusters = len(sizes)
    binary = b + c == float(np.dot(differences, differences))
    if clusters == n and binary:
        return clusters, 1.0
    independent = independent_variance(b, c, n)
    if clusters < 2 or independent <= 0:
        return clusters, float(np.dot(sizes, sizes) / n)
    return clusters, cluster_variance(differences, cluster) / independent


def t_limits(difference: float, variance: float, clusters: float, alpha: float = 0.05) -> tuple[float, float]:
    """Lower and upper t limit with ``clusters - 1`` degrees of freedom, each one-sided at ``alpha``.

    One cluster proves nothing: (-1, 1).
    """
    if clusters < 2:
        return -1.0, 1.0
    half = float(stdtrit(clusters - 1, 1 - alpha)) * math.sqrt(variance)
    return max(difference - half, -1.0), min(difference + half, 1.0)
