"""Exact binomial statements: Clopper-Pearson limits, their tails, and the McNemar mid-p test.

Counts may be fractional (divided by a design effect): the incomplete beta function interpolates the tails.
"""

from __future__ import annotations

from scipy.special import bdtr, betainc, betaincinv


def _check(failures: float, trials: float, alpha: float) -> None:
    if not 0 <= failures <= trials:
        raise ValueError(f"need 0 <= failures <= trials, got {failures} of {trials}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")


def clopper_pearson_upper(failures: float, trials: float, alpha: float = 0.05) -> float:
    """One-sided upper limit of a failure rate (Clopper and Pearson 1934, Biometrika 26, 404-413).

    Zero failures in n prove no more than ``1 - alpha ** (1 / n)``: 7.2 % for 40, 1 % for 300.
    With no trials nothing is proved: the limit is 1.

    :raises ValueError: not 0 <= failures <= trials, or alpha outside (0, 1).
    """
    _check(failures, trials, alpha)
    if failures == trials:
        return 1.0
    return float(betaincinv(failures + 1, trials - failures, 1 - alpha))


def clopper_pearson_lower(failures: float, trials: float, alpha: float = 0.05) -> float:
    """One-sided lower limit of a failure rate; 0 without failures. Source and errors as for the upper one."""
    _check(failures, trials, alpha)
    if failures == 0:
        return 0.0
    return float(betaincinv(failures, trials - failures + 1, alpha))


def at_most(failures: float, trials: float, rate: float) -> float:
    """Probability of ``failures`` or fewer at a true ``rate``; at most alpha where the upper limit is below it."""
    return 1.0 if failures >= trials else float(betainc(trials - failures, failures + 1, 1 - rate))


def at_least(failures: float, trials: float, rate: float) -> float:
    """Probability of ``failures`` or more at a true ``rate``; at most alpha where the lower limit is above it."""
    return 1.0 if failures <= 0 else float(betainc(failures, trials - failures + 1, rate))


def mcnemar_midp(b: int, c: int) -> float:
    """Two-sided McNemar mid-p value of ``b`` losses against ``c`` gains.

    Fagerland, Lydersen and Laake (2013, BMC Medical Research Methodology 13, 91): the exact conditional
    p-value less the probability of the observed split; for b = c one less half of that. 1 without flips.

    :raises ValueError: negative counts.
    """
    if b < 0 or c < 0:
        raise ValueError(f"counts must not be negative, got b={b}, c={c}")
    flips, fewer = b + c, min(b, c)
    if flips == 0:
        return 1.0
    tail = float(bdtr(fewer, flips, 0.5))
    below = float(bdtr(fewer - 1, flips, 0.5)) if fewer else 0.0
    if b == c:
        return 1 - (tail - below) / 2
    return tail + below  # twice the tail, less the probability of the split
