"""Tango's score limits for the difference of two paired proportions.

With ``n`` pairs, ``b`` losses (pass -> fail) and ``c`` gains (fail -> pass), the difference is
``d = (c - b) / n``. Tango (1998, Statistics in Medicine 17, 891-908) inverts the score test of a
hypothetical difference D:

    T(D) = (c - b - n D) / sqrt(n (2 q(D) + D (1 - D)))

where q(D) is the maximum-likelihood estimate of the loss probability given D, the larger root of
``2n q^2 + (-(b + c) + (2n - (c - b)) D) q - b D (1 - D) = 0``. The lower limit is the D below d at which
T(D) = z, the upper limit the D above d at which T(D) = -z. Yang, Sun and Hardin (2013, Statistics in
Medicine 32, 1336-1342) show that both are roots of one quartic. We find the same roots by bisection: the
quartic has spurious roots to tell apart and loses digits where two of them meet (no flips at all);
bisection cannot fail, and the tests hold it against the quartic.

Counts may be fractional: the adjustment for clusters divides them by the design effect.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

_STEPS = 64
"""Halvings of an interval of length at most 2: the limits are exact to the last bits of a double."""


def _check(b: float, c: float, n: float) -> None:
    if not (math.isfinite(b) and math.isfinite(c) and math.isfinite(n)):
        raise ValueError(f"counts must be finite, got b={b}, c={c}, n={n}")
    if b < 0 or c < 0 or n <= 0 or b + c > n * (1 + 1e-12):
        raise ValueError(f"need 0 <= b, 0 <= c, b + c <= n and n > 0, got b={b}, c={c}, n={n}")


def _variance(b: float, c: float, n: float, difference: float) -> float:
    """Estimated variance of ``c - b`` when the true difference is ``difference`` (never negative)."""
    linear = -(b + c) + (2 * n - (c - b)) * difference
    constant = -b * difference * (1 - difference)
    root = math.sqrt(max(linear * linear - 8 * n * constant, 0.0))
    q = (root - linear) / (4 * n)
    return max(n * (2 * q + difference * (1 - difference)), 0.0)


def score(b: float, c: float, n: float, difference: float) -> float:
    """Tango's T at a hypothetical true ``difference``; standard normal when that difference is true.

    Infinite when the hypothesis cannot have produced the counts.

    :raises ValueError: impossible counts.
    """
    _check(b, c, n)
    distance = c - b - n * difference
    deviation = math.sqrt(_variance(b, c, n, difference))
    if deviation > 0:
        return distance / deviation
    return math.copysign(math.inf, distance) if distance else 0.0


def _lower(b: float, c: float, n: float, z: float) -> float:
    # Beyond the limit T is above z, between limit and d below it. T's zero variance at d itself (no flips)
    # would pass for a root, but is never evaluated.
    low, high = -1.0, (c - b) / n
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if c - b - n * middle > z * math.sqrt(_variance(b, c, n, middle)):
            low = middle
        else:
            high = middle
    return low


def tango_limits(b: float, c: float, n: float, alpha: float = 0.05) -> tuple[float, float]:
    """Lower and upper score limit of ``(c - b) / n``, each one-sided at level ``alpha``.

    :param b: pairs lost (baseline passed, candidate failed).
    :param c: pairs gained (baseline failed, candidate passed).
    :param n: all pairs.
    :param alpha: error rate of *each* limit: 0.025 gives the usual two-sided 95 % interval.
    :raises ValueError: impossible counts or alpha outside (0, 0.5).
    """
    _check(b, c, n)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    z = float(-ndtri(alpha))
    return _lower(b, c, n, z), -_lower(c, b, n, z)  # swapping the sides mirrors the interval
