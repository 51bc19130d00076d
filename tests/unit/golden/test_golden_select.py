"""A fixed sample of scenarios."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pipeline.golden import GoldenSet, load, select
from pipeline.settings import PROJECT_ROOT


@pytest.fixture(scope="module")
def whole() -> GoldenSet:
    return load(Path(PROJECT_ROOT) / "golden_sets" / "support")


def test_it_takes_whole_scenarios_in_the_order_of_their_names_digest(whole: GoldenSet) -> None:
    sample = select(whole, 7)
    names = {turn.scenario for turn in whole.turns}
    expected = set(sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:7])
    assert {turn.scenario for turn in sample.turns} == expected
    assert sample.turns == tuple(turn for turn in whole.turns if turn.scenario in expected)
    assert sample.scenarios == 7
    assert sample.transcript_count == len({turn.id.split("#")[0] for turn in sample.turns})
    assert sum("tool_calls" in turn.slices for turn in sample.turns) == sample.slice_counts["tool_calls"]


def test_a_sample_is_another_set_and_a_larger_one_contains_a_smaller(whole: GoldenSet) -> None:
    few, more = select(whole, 5), select(whole, 6)
    assert len({whole.digest, few.digest, more.digest}) == 3
    assert few.name != more.name
    assert {turn.id for turn in few.turns} < {turn.id for turn in more.turns}


def test_asking_for_all_or_more_gives_the_set_itself(whole: GoldenSet) -> None:
    assert select(whole, whole.scenarios) is whole
    assert select(whole, whole.scenarios + 1) is whole
