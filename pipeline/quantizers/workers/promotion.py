"""Which parts of a candidate to keep at more bits: what each costs in drift against what it costs in bytes.

Nothing here needs a framework, so that the choice can be tested without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def worthwhile(drifts: Mapping[str, float], extra_bytes: Mapping[str, int]) -> list[str]:
    """Parts by the drift that one extra byte takes away, the most worthwhile first.

    :param drifts: drift that each part causes alone.
    :param extra_bytes: what keeping it at more bits costs; parts that are not named cannot be kept so.
    """
    return sorted(extra_bytes, key=lambda part: (-drifts[part] / extra_bytes[part], part))


def fewest(most: int, enough: Callable[[int], bool]) -> int | None:
    """The smallest count from 0 to ``most`` that is enough, by bisection; None when not even ``most`` is.

    One more part is taken to do no harm. Where it does, the answer is still a count that was found to be enough.
    """
    if enough(0):
        return 0
    if not enough(most):
        return None
    low, high = 0, most  # low is not enough, high is
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
