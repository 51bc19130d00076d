"""Which parts are promoted first, and how many."""

from __future__ import annotations

import pytest

from pipeline.quantizers.workers.promotion import fewest, worthwhile


def test_what_takes_most_drift_away_for_a_byte_comes_first() -> None:
    # Per byte: a 0.4/100 = 0.004, b 0.3/50 = 0.006, c 0.006 as well (names break the tie), d nothing.
    drifts = {"a": 0.4, "c": 0.06, "b": 0.3, "d": 0.0, "fixed": 9.0}
    assert worthwhile(drifts, {"a": 100, "c": 10, "b": 50, "d": 10}) == ["b", "c", "a", "d"]


@pytest.mark.parametrize("answer", range(33))
def test_the_fewest_are_found_with_few_questions(answer: int) -> None:
    asked: list[int] = []

    def enough(count: int) -> bool:
        asked.append(count)
        return count >= answer

    assert fewest(32, enough) == answer
    assert len(asked) <= 7  # both ends, then log2(32)


def test_none_when_all_are_not_enough() -> None:
    assert fewest(5, lambda count: False) is None
    assert fewest(0, lambda count: False) is None


def test_what_is_returned_was_found_to_be_enough_even_if_more_is_worse() -> None:
    drift = [9, 5, 1, 4, 1]
    found = fewest(4, lambda count: drift[count] <= 1)
    assert found is not None and drift[found] <= 1
