"""Sequential looks: a hopeless candidate may be rejected after a part of the golden set.

The looks are declared in the policy before the run, as shares of the scenarios. At each look the loss in the
scenarios replayed so far is tested against the margin, at a level far stricter than alpha, so that all looks
and the end of the set together reject with probability alpha at most when the true loss is the margin.

How much of alpha may be spent by the time a fraction t of a metric's turns has been seen is given by the
spending function of Lan and DeMets (1983, Biometrika 70, 659-663) of O'Brien-Fleming type,

    spent(t) = 2 - 2 Phi(z / sqrt(t)),  z the upper alpha/2 quantile,

which spends next to nothing early (alpha 0.05: 0.00009 at a quarter, 0.0056 at half). The standardized
statistics Z_k at fractions t_k behave like B(t_k) / sqrt(t_k) with B a Brownian motion (independent
increments; Jennison and Turnbull 2000, Group Sequential Methods, ch. 3 and 7), so the critical values follow
one after the other from the density of the paths that have not crossed yet, by numerical integration
(Armitage, McPherson and Rowe 1969, J. Royal Statistical Society A 132, 235-244).

Looks can only reject. ACCEPT needs the whole set at the full alpha, so stopping early makes a false ACCEPT
rarer, never likelier.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from evaluators.turn import Turn

_FAR = 8.0
"""Standard deviations beyond which a path is not followed (probability below 1e-15)."""
_NODES_PER_SD = 5
"""Integration points per standard deviation of one increment."""


@dataclass(frozen=True, slots=True)
class Look:
    """A part of the golden set after which the candidate may be rejected: whole scenarios only.

    :ivar number: from 1.
    :ivar scenarios: scenarios replayed by then, those of earlier looks included.
    :ivar of: scenarios of the whole set.
    :ivar turns: all turns of those scenarios, in the order of the set.
    """

    number: int
    scenarios: int
    of: int
    turns: tuple[Turn, ...]


def plan_looks(turns: Sequence[Turn], shares: Sequence[float]) -> tuple[Look, ...]:
    """The looks at ``shares`` of the scenarios.

    Scenarios are taken in the order of the SHA-256 of their names: as good as at random, the same everywhere, and
    no matter of what any reply was. A look that would hold no scenario more than the one before, or all of
    them, is left out.

    :param shares: increasing, each between 0 and 1.
    """
    if not shares:
        return ()
    names = sorted({turn.scenario for turn in turns}, key=lambda name: hashlib.sha256(name.encode()).digest())
    counts = sorted({round(share * len(names)) for share in shares} - {0, len(names)})
    looks = []
    for number, count in enumerate(counts, 1):
        taken = frozenset(names[:count])
        looks.append(Look(number, count, len(names), tuple(turn for turn in turns if turn.scenario in taken)))
    return tuple(looks)


def spent(fraction: float, alpha: float) -> float:
    """Share of all false rejections allowed by ``fraction`` of the information: 0 at 0, ``alpha`` at 1.

    :raises ValueError: a fraction outside [0, 1], or alpha outside (0, 0.5).
    """
    if not 0 <= fraction <= 1 or not 0 < alpha < 0.5:
        raise ValueError(f"need 0 <= fraction <= 1 and 0 < alpha < 0.5, got {fraction} and {alpha}")
    if fraction == 0:
        return 0.0
    return float(2 * ndtr(ndtri(alpha / 2) / math.sqrt(fraction)))


@lru_cache(maxsize=256)
def critical_values(fractions: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """One-sided critical values of the standardized statistic at each fraction of the information.

    :param fractions: strictly increasing, the last one 1 (the whole set).
    :raises ValueError: other fractions, or alpha outside (0, 0.5).
    """
    increasing = all(later > earlier for earlier, later in pairwise((0.0, *fractions)))  # false for NaN
    if not increasing or not fractions or fractions[-1] != 1:
        raise ValueError(f"fractions must increase from above 0 to 1, got {fractions}")
    values: list[float] = []
    nodes, mass = np.zeros(1), np.ones(1)  # where uncrossed paths are, and their probability
    before = 0.0
    for fraction in fractions:
        step = math.sqrt(fraction - before)
        allowed = spent(fraction, alpha) - spent(before, alpha)
        edge = _edge(nodes, mass, step, allowed)
        values.append(edge / math.sqrt(fraction))
        if fraction == 1:
            break
        nodes, mass = _advance(nodes, mass, step, edge, -_FAR * math.sqrt(fraction))
        before = fraction
    return tuple(values)


def levels(fractions: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """The critical values as p-values: a look rejects where its one-sided p-value is below its level."""
    return tuple(float(ndtr(-value)) for value in critical_values(fractions, alpha))


def _edge(nodes: NDArray[np.float64], mass: NDArray[np.float64], step: float, allowed: float) -> float:
    """The height that uncrossed paths exceed after ``step`` with probability ``allowed``."""
    if len(nodes) == 1:
        return float(-ndtri(allowed)) * step
    low, high = -_FAR, 5 * _FAR
    for _ in range(60):
        middle = (low + high) / 2
        crossing = float(np.dot(mass, ndtr((nodes - middle) / step)))
        low, high = (middle, high) if crossing > allowed else (low, middle)
    return high


def _advance(
    nodes: NDArray[np.float64], mass: NDArray[np.float64], step: float, edge: float, floor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The paths below ``edge`` after a normal increment: Gauss-Legendre nodes and the probability at each."""
    count = max(64, math.ceil(_NODES_PER_SD * (edge - floor) / step))
    points, weights = np.polynomial.legendre.leggauss(count)
    half = (edge - floor) / 2
    after = floor + half * (points + 1)
    density = np.exp(-0.5 * ((after[:, None] - nodes) / step) ** 2) @ mass / (step * math.sqrt(2 * math.pi))
    return after, density * weights * half
