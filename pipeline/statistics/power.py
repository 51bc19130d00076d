"""What a golden set can decide, before anything is spent.

When the candidate is truly as good, the lower limit is about ``-z_alpha * sqrt(f / n)`` with f the flip
rate (share of turns where the sides differ, in either direction). It clears a margin m with the wanted
power when ``m >= (z_alpha + z_power) * sqrt(f / n)``: the normal approximation of Lu and Bean (1995,
Statistics in Medicine 14, 1831-1839) for paired proportions, at a true difference of zero. At alpha 0.05
and power 0.8 the factor is 1.645 + 0.842 = 2.486.

Few flips do not make a small set powerful: none at all in n turns rule out no loss below
``1 - alpha^(1/n)`` (Clopper and Pearson). Both functions take the worse of the two.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from pipeline.statistics.exact import clopper_pearson_upper


def _check(flip_rate: float, alpha: float, power: float, design_effect: float) -> None:
    if not 0 <= flip_rate <= 1:
        raise ValueError(f"flip_rate is a share between 0 and 1, got {flip_rate}")
    if not 0 < alpha < 0.5 or not 0 < power < 1:
        raise ValueError(f"need 0 < alpha < 0.5 and 0 < power < 1, got alpha={alpha}, power={power}")
    if not 1 <= design_effect < math.inf:
        raise ValueError(f"design_effect is at least 1, got {design_effect}")


def minimum_detectable_effect(
    n: int, flip_rate: float, alpha: float = 0.05, power: float = 0.8, design_effect: float = 1.0
) -> float:
    """Smallest margin that ``n`` pairs can clear with ``power`` when the true loss is zero.

    :param flip_rate: expected share of turns where the sides differ.
    :param design_effect: variance inflation by several turns per scenario; 1: independent turns.
    :returns: a share; 1 (nothing can be decided) when there are no pairs.
    :raises ValueError: an argument out of range.
    """
    _check(flip_rate, alpha, power, design_effect)
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    if n == 0:
        return 1.0
    effective = n / design_effect
    asymptotic = (float(-ndtri(alpha)) + float(ndtri(power))) * math.sqrt(flip_rate / effective)
    return min(1.0, max(asymptotic, clopper_pearson_upper(0, effective, alpha)))


def required_n(
    margin: float, flip_rate: float, alpha: float = 0.05, power: float = 0.8, design_effect: float = 1.0
) -> int:
    """Pairs needed to clear ``margin`` with ``power`` when the true loss is zero.

    :raises ValueError: an argument out of range; a margin of 0 can never be cleared.
    """
    _check(flip_rate, alpha, power, design_effect)
    if not 0 < margin <= 1:
        raise ValueError(f"margin is a share above 0, got {margin}")
    asymptotic = ((float(-ndtri(alpha)) + float(ndtri(power))) / margin) ** 2 * flip_rate
    without_flips = math.log(alpha) / math.log1p(-margin) if margin < 1 else 0.0
    return max(1, math.ceil(max(asymptotic, without_flips) * design_effect - 1e-9))
