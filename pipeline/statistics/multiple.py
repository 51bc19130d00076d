"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (1979, Scandinavian Journal of Statistics 6, 65-70), in the order given.

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection in the
    family at most alpha, whatever the dependence.

    :raises ValueError: a value that is not a probability (NaN included).
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"not a p-value: {p}")
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
