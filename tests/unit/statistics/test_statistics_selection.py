"""Bounds on the error of choosing among candidates, against the exact chance for every mix of good and bad ones."""

from __future__ import annotations

import itertools

import pytest

from pipeline.statistics.selection import Basis, selection_error

ALPHA, GOOD = 0.05, 0.9  # chance that a bad candidate is accepted, and a good one


def test_figures_by_hand() -> None:
    plain = selection_error(ALPHA, 5, unbroken=False, confirmed=False)
    assert (plain.basis, plain.bound) == (Basis.BOOLE, pytest.approx(0.25))
    chain = selection_error(ALPHA, 5, unbroken=True, confirmed=False)
    assert (chain.basis, chain.bound) == (Basis.FIXED_SEQUENCE, 0.05)
    again = selection_error(ALPHA, 5, unbroken=True, confirmed=True)
    assert (again.basis, again.bound) == (Basis.CONFIRMED, pytest.approx(0.0125))
    assert selection_error(0.4, 5, unbroken=False, confirmed=False).bound == 1


@pytest.mark.parametrize(("alpha", "candidates"), [(0.0, 3), (0.5, 3), (float("nan"), 3), (0.05, 0)])
def test_nonsense_is_refused(alpha: float, candidates: int) -> None:
    with pytest.raises(ValueError, match="need 0 < alpha"):
        selection_error(alpha, candidates, unbroken=False, confirmed=False)


@pytest.mark.parametrize("bad", list(itertools.product([False, True], repeat=4)))
@pytest.mark.parametrize("together", [False, True])
def test_no_mix_of_candidates_exceeds_the_bounds(bad: tuple[bool, ...], together: bool) -> None:
    """Four candidates, each smaller than the one before; the last accepted one is chosen.

    ``together``: bad candidates are accepted or not by one throw, instead of independently.
    """
    chosen_bad = chosen_bad_unbroken = 0.0
    for accepted in itertools.product([False, True], repeat=4):
        chance = 1.0
        verdicts = {took for took, is_bad in zip(accepted, bad, strict=True) if is_bad}
        if together and any(bad):
            chance = 0.0 if len(verdicts) > 1 else ALPHA if verdicts == {True} else 1 - ALPHA
        for took, is_bad in zip(accepted, bad, strict=True):
            if not is_bad:
                chance *= GOOD if took else 1 - GOOD
            elif not together:
                chance *= ALPHA if took else 1 - ALPHA
        if not any(accepted):
            continue
        chosen = max(i for i, took in enumerate(accepted) if took)
        if bad[chosen]:
            chosen_bad += chance
            chosen_bad_unbroken += chance if all(accepted[:chosen]) else 0.0
    assert chosen_bad <= selection_error(ALPHA, 4, unbroken=False, confirmed=False).bound + 1e-12
    assert chosen_bad_unbroken <= selection_error(ALPHA, 4, unbroken=True, confirmed=False).bound + 1e-12
    if all(bad):  # by hand: the chance is computed at all
        assert chosen_bad == pytest.approx(ALPHA if together else 1 - 0.95**4)
