"""Exact binomial statements: Clopper-Pearson upper limits and the McNemar mid-p test."""

from __future__ import annotations

from scipy.special import bdtr, betaincinv


def clopper_pearson_upper(failures: int, trials: int, alpha: float = 0.05) -> float:
    """One-sided upper limit of a failure rate (Clopper and Pearson 1934, Biometrika 26, 404-413).

    Zero failures in n prove no more than ``1 - alpha ** (1 / n)``: 7.2 % for 40, 1 % for 300.
    With no trials nothing is proved: the limit is 1.

    :raises ValueError: not 0 <= failures <= trials, or alpha outside (0, 1).
    """
    if not 0 <= failures <= trials:
        raise ValueError(f"need 0 <= failures <= trials, got {failures} of {trials}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    if failures == trials:
        return 1.0
    return float(betaincinv(failures + 1, trials - failures, 1 - alpha))


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
