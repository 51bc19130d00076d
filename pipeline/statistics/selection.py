"""The error of choosing among several candidates that are judged on the same turns.

A bad candidate (its true loss on some gating metric is beyond the margin) is accepted with probability at most
alpha: all gating metrics must hold, each tested at alpha (Berger 1982, Technometrics 24, 295-300). Among k
candidates the chance that the one chosen is bad is then

* at most ``k * alpha``, whatever the dependence between candidates (Boole's inequality);
* at most ``alpha`` together with the event that every candidate judged before it was accepted too: in an order
  declared before the run, the first bad one of such a chain must have been accepted (fixed-sequence testing:
  Maurer, Hothorn and Lehmacher 1995, in Vollmar (ed.), Biometrie in der chemisch-pharmazeutischen Industrie 6,
  3-18; Wiens 2003, Pharmaceutical Statistics 2, 211-215);
* at most ``k * alpha^2`` when it had to be accepted again on scenarios that had no part in the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """What an error bound rests on."""

    BOOLE = "boole"
    FIXED_SEQUENCE = "fixed_sequence"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class SelectionError:
    """Chance that a bad candidate is chosen is at most ``bound``."""

    candidates: int
    alpha: float
    basis: Basis
    bound: float


def selection_error(alpha: float, candidates: int, *, unbroken: bool, confirmed: bool) -> SelectionError:
    """Bound the chance that the chosen candidate is bad.

    :param candidates: how many were declared before the run.
    :param unbroken: every candidate judged before the chosen one, in the declared order, was accepted.
    :param confirmed: it was accepted again on other scenarios.
    :raises ValueError: an alpha that is no error rate, or no candidate.
    """
    if not 0 < alpha < 0.5 or candidates < 1:
        raise ValueError(f"need 0 < alpha < 0.5 and at least one candidate, got {alpha} and {candidates}")
    boole = min(1.0, candidates * alpha)
    if confirmed:
        return SelectionError(candidates, alpha, Basis.CONFIRMED, boole * alpha)
    if unbroken:
        return SelectionError(candidates, alpha, Basis.FIXED_SEQUENCE, alpha)
    return SelectionError(candidates, alpha, Basis.BOOLE, boole)
