"""Repeated sampling at a temperature above 0: a turn has a pass *rate* on each side, not one outcome.

With k samples per turn and side, the turn's difference x_i = candidate rate - baseline rate lies in [-1, 1].
Turns stay the unit: k samples of one turn say nothing about other turns, so n does not grow with k; the
noise of each x_i shrinks instead (Miller 2024, "Adding error bars to evals", section 3.2, arXiv:2411.00640).

Limits: the stricter of the cluster-robust t limit on x_i, and Tango's limit at the equivalent flips
b = sum of losses, c = sum of gains. As x_i^2 <= |x_i|, treating fractional flips as whole ones can only
overstate the variance, and it keeps a width where no difference was seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.statistics.limits import Limits, PairedCounts


def rate_counts(
    baseline: Sequence[Sequence[bool]], candidate: Sequence[Sequence[bool]], clusters: Sequence[str]
) -> PairedCounts:
    """Reduce repeated samples to (fractional) flips.

    :param baseline: per turn, whether each sample of the baseline passed.
    :param candidate: the same turns, for the candidate; the number of samples may differ between sides.
    :param clusters: the scenario of each turn.
    :raises ValueError: no turns, sides of different length, or a turn without samples.
    """
    if not len(baseline) == len(candidate) == len(clusters):
        raise ValueError("baseline, candidate and clusters must describe the same turns")
    if not all(len(side) for pair in zip(baseline, candidate, strict=True) for side in pair):
        raise ValueError("every turn needs at least one sample on each side")
    rates = [np.array([np.mean(samples) for samples in side], dtype=float) for side in (baseline, candidate)]
    _, cluster = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    return PairedCounts.of(rates[1] - rates[0], cluster)


def rate_limits(
    baseline: Sequence[Sequence[bool]],
    candidate: Sequence[Sequence[bool]],
    clusters: Sequence[str],
    alpha: float = 0.05,
) -> Limits:
    """Limits of the mean difference of pass rates; arguments and errors as in :func:`rate_counts`."""
    return rate_counts(baseline, candidate, clusters).limits(alpha)
