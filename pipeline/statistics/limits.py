"""The limits that decide: the strictest of Tango's, exact and cluster-aware ones, and what would move them.

Where flips go one way only, the difference is a single binomial rate and Tango's limits are Wilson's, whose
error rate is off by up to half just there: with no flips in 88 turns a loss of 3 points would be ruled out,
though it shows itself so in 6.9 % of such runs. Clopper and Pearson's exact limits join in that case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from pipeline.errors import Verdict
from pipeline.statistics.clusters import cluster_facts, independent_variance, t_limits
from pipeline.statistics.exact import at_least, at_most, clopper_pearson_lower, clopper_pearson_upper
from pipeline.statistics.tango import score, tango_limits

_FARTHEST = 1000.0
"""Growth of the set beyond which "more turns would decide it" is no longer a helpful answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """One-sided limits of the difference; ``lower`` and ``upper`` are the strictest of the others.

    :ivar tango: Tango's limits, turns taken as independent.
    :ivar exact: Clopper-Pearson limits where flips go one way only, at counts divided by the careful design effect.
    :ivar tango_clustered: Tango's limits at counts divided by the careful design effect, where that exceeds 1.
    :ivar cluster_t: cluster-robust t limits, where scenarios have several turns.
    """

    lower: float
    upper: float
    tango: tuple[float, float]
    exact: tuple[float, float] | None
    tango_clustered: tuple[float, float] | None
    cluster_t: tuple[float, float] | None

    @property
    def deciding(self) -> str:
        """Which method gave the lower limit."""
        for name in ("cluster_t", "tango_clustered", "exact"):
            found: tuple[float, float] | None = getattr(self, name)
            if found is not None and self.lower == found[0]:
                return name
        return "tango"


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """What the limits need of n > 0 paired outcomes.

    :ivar b: pairs lost (baseline passed, candidate failed); fractional for pass rates.
    :ivar c: pairs gained.
    :ivar clusters: number of scenarios.
    :ivar design_effect, careful_effect: see :class:`pipeline.statistics.clusters.ClusterFacts`.
    :ivar clustered: whether the cluster-robust limits apply (several turns in a scenario, or rates).
    """

    n: float
    b: float
    c: float
    clusters: float
    design_effect: float = 1.0
    careful_effect: float = 1.0
    clustered: bool = False

    @staticmethod
    def of(differences: NDArray[np.float64], cluster: NDArray[np.intp]) -> PairedCounts:
        """Reduce paired differences (candidate - baseline, each in [-1, 1]) and their cluster numbers.

        :raises ValueError: nothing to reduce, or a difference that is not a number in [-1, 1].
        """
        if not len(differences) or len(differences) != len(cluster):
            raise ValueError("need at least one difference, and one cluster number for each")
        if not bool(np.all(np.abs(differences) <= 1)):  # also false for NaN
            raise ValueError("a paired difference lies between -1 and 1")
        b = float(-differences[differences < 0].sum())
        c = float(differences[differences > 0].sum())
        n = float(len(differences))
        facts = cluster_facts(differences, cluster, b, c)
        rates = bool(np.any((differences != 0) & (np.abs(differences) != 1)))
        clustered = facts.clusters < n or rates
        return PairedCounts(n, b, c, facts.clusters, facts.design_effect, facts.careful_effect, clustered)

    @property
    def difference(self) -> float:
        """Candidate minus baseline pass rate, a share."""
        return (self.c - self.b) / self.n

    def limits(self, alpha: float, upper_alpha: float | None = None) -> Limits:
        """Limits of the true difference, each one-sided at ``alpha``; always within [-1, 1].

        :param upper_alpha: another level for the upper limits (looks at parts of a set); 0: nothing is below them.
        """
        upper = alpha if upper_alpha is None else upper_alpha

        def both(method: Callable[[float], tuple[float, float]]) -> tuple[float, float]:
            low, high = method(alpha)
            if upper == alpha:
                return low, high
            return low, method(upper)[1] if upper else 1.0

        b, c, n = self._effective()
        plain = both(lambda level: tango_limits(self.b, self.c, self.n, level))
        exact = adjusted = robust = None
        if not b or not c:
            exact = both(lambda level: _exact_limits(b, c, n, level))
        if self.clustered:
            if self.careful_effect > 1:
                adjusted = both(lambda level: tango_limits(b, c, n, level))
            robust = both(lambda level: t_limits(self.difference, self._variance(), self.clusters, level))
        found = [pair for pair in (plain, exact, adjusted, robust) if pair is not None]
        return Limits(min(low for low, _ in found), max(high for _, high in found), plain, exact, adjusted, robust)

    def loss_p(self, margin: float) -> float:
        """One-sided p-value of "the true difference is at least -margin": small when the loss is larger.

        It is below alpha exactly when the upper limit at alpha is below -margin.
        """
        found = [float(ndtr(score(self.b, self.c, self.n, -margin)))]
        b, c, n = self._effective()
        if c == 0:
            found.append(at_least(b, n, margin))
        if self.clustered:
            found.append(float(ndtr(score(b, c, n, -margin))))
            deviation = math.sqrt(self._variance())
            if self.clusters < 2:
                found.append(1.0)
            elif deviation > 0:
                found.append(float(stdtr(self.clusters - 1, (self.difference + margin) / deviation)))
        return max(found)

    def verdict(self, margin: float, alpha: float, upper_alpha: float | None = None) -> Verdict:
        """ACCEPT when the lower limit is at or above -margin, REJECT when the upper one is below it.

        Asked of the tests that the limits invert, which is the same and needs no search for the limits.
        Levels as for :meth:`limits`.
        """
        b, c, n = self._effective()
        normal = [score(self.b, self.c, self.n, -margin)]
        if self.clustered:
            if self.clusters < 2:
                return Verdict.INCONCLUSIVE
            normal.append(score(b, c, n, -margin))
            distance, deviation = self.difference + margin, math.sqrt(self._variance())
            robust = distance / deviation if deviation > 0 else math.copysign(math.inf, distance)

        def beyond(sign: int, level: float) -> bool:
            """Whether all statistics lie beyond their critical values above (sign 1) or below (-1)."""
            z = float(-ndtri(level))
            return all(sign * statistic >= z for statistic in normal) and (
                not self.clustered or sign * robust >= float(stdtrit(self.clusters - 1, 1 - level))
            )

        if beyond(1, alpha) and (c or at_most(b, n, margin) <= alpha):
            return Verdict.ACCEPT
        level = alpha if upper_alpha is None else upper_alpha
        return Verdict.REJECT if beyond(-1, level) and (c or at_least(b, n, margin) < level) else Verdict.INCONCLUSIVE

    def n_to_decide(self, margin: float, alpha: float, upper_alpha: float | None = None) -> int | None:
        """Pairs at which this metric is decided, if more of the same kind come out as these did.

        None when it would take more than 1,000 times as many (the difference is next to -margin).
        """

        def decided(growth: float) -> bool:
            grown = replace(
                self, n=self.n * growth, b=self.b * growth, c=self.c * growth, clusters=self.clusters * growth
            )
            return grown.verdict(margin, alpha, upper_alpha) is not Verdict.INCONCLUSIVE

        if not decided(_FARTHEST):
            return None
        low, high = 1.0, _FARTHEST
        while (high - low) * self.n > 0.5:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if decided(middle) else (middle, high)
        return math.ceil(high * self.n - 1e-6)

    def flips_to_change(self, margin: float, alpha: float, upper_alpha: float | None = None) -> dict[Verdict, int]:
        """How many more losses (negative: fewer) would give each other verdict, the nearest count first.

        The design effect is held as it is. Verdicts that no number of flips can reach are left out.
        """

        def after(losses: int) -> Verdict:
            return self.shifted(losses).verdict(margin, alpha, upper_alpha)

        now = after(0)
        changes: dict[Verdict, int] = {}
        if now is not Verdict.REJECT:
            worse = (Verdict.INCONCLUSIVE, Verdict.REJECT) if now is Verdict.ACCEPT else (Verdict.REJECT,)
            count = least(int(self.n - self.b), lambda k: after(k) in worse)
            if count is not None:
                changes[after(count)] = count
        if now is not Verdict.ACCEPT:
            better = (Verdict.INCONCLUSIVE, Verdict.ACCEPT) if now is Verdict.REJECT else (Verdict.ACCEPT,)
            count = least(int(self.n - self.c), lambda k: after(-k) in better)
            if count is not None:
                changes[after(-count)] = -count
        return changes

    def _effective(self) -> tuple[float, float, float]:
        effect = self.careful_effect
        return self.b / effect, self.c / effect, self.n / effect

    def _variance(self) -> float:
        return self.design_effect * independent_variance(self.b, self.c, self.n)

    def shifted(self, losses: int) -> PairedCounts:
        """The counts with more losses (out of pairs that agreed, then out of gains) or fewer (negative)."""
        b, c = self.b + losses, self.c
        if b < 0:  # no loss left to undo: further pairs become gains
            b, c = 0.0, c - b
        overfull = max(0.0, b + c - self.n)
        return replace(self, b=b, c=c - overfull) if losses > 0 else replace(self, b=b - overfull, c=c)


def _exact_limits(b: float, c: float, n: float, alpha: float) -> tuple[float, float]:
    """Clopper-Pearson limits of the difference where flips go one way only: ``b`` or ``c`` is 0."""
    low, high = clopper_pearson_lower(b + c, n, alpha), clopper_pearson_upper(b + c, n, alpha)
    if not b and not c:
        return -high, high
    return (-high, -low) if b else (low, high)


def least(most: int, reached: Callable[[int], bool]) -> int | None:
    """Smallest count from 1 to ``most`` that reaches the aim, or None; reaching is monotone."""
    if most < 1 or not reached(most):
        return None
    low, high = 0, 1
    while not reached(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
