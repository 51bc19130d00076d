"""A fixed sample of scenarios."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.errors import SettingsError
from pipeline.golden import GoldenSet, select
from pipeline.settings import SamplePolicy


def test_it_takes_whole_scenarios_and_counts_anew(shipped: GoldenSet) -> None:
    sample = select(shipped, SamplePolicy(turns=50))
    taken = {turn.scenario for turn in sample.turns}
    assert sample.turns == tuple(turn for turn in shipped.turns if turn.scenario in taken)
    assert sample.scenarios == len(taken) < shipped.scenarios
    assert sample.transcript_count == len({turn.id.split("#")[0] for turn in sample.turns})
    assert sum("tool_calls" in turn.slices for turn in sample.turns) == sample.slice_counts["tool_calls"]
    assert str(len(taken)) in sample.name


def test_it_reaches_the_turns_asked_for_with_the_last_scenario(shipped: GoldenSet) -> None:
    longest = max(Counter(turn.scenario for turn in shipped.turns).values())
    for turns in (1, 30, 200, 1000):
        assert turns <= len(select(shipped, SamplePolicy(turns=turns)).turns) < turns + longest


def test_every_slice_gets_its_share(shipped: GoldenSet) -> None:
    sample = select(shipped, SamplePolicy(turns=325))  # a quarter
    for name, count in shipped.slice_counts.items():
        assert sample.slice_counts[name] >= 0.85 * count / 4, name


def test_a_slice_can_be_given_more(shipped: GoldenSet) -> None:
    sample = select(shipped, SamplePolicy(turns=340, at_least={"must_refuse": 120}))
    assert sample.slice_counts["must_refuse"] >= 120
    assert len(sample.turns) < 350
    rest = {name: sample.slice_counts[name] / count for name, count in shipped.slice_counts.items()}
    assert min(rest.values()) > 0.15  # what is left is shared among all
    everything = select(shipped, SamplePolicy(turns=10, at_least={"must_refuse": 9999}))
    assert everything.slice_counts["must_refuse"] == shipped.slice_counts["must_refuse"]


@pytest.mark.parametrize("turns", [10, 10**6])
def test_a_slice_that_the_set_has_not_is_refused(turns: int, shipped: GoldenSet) -> None:
    with pytest.raises(SettingsError, match=r"sample\.at_least: no slice must_refuze in ") as caught:
        select(shipped, SamplePolicy(turns=turns, at_least={"must_refuse": 5, "must_refuze": 5}))
    assert ", must_refuse, " in caught.value.remedy


def test_a_derived_slice_may_be_asked_for_where_no_turn_has_it() -> None:
    """The demo policy asks for must_refuse, and is also used with sets of the user's own."""
    turns = tuple(Turn(f"{i}#1", str(i), f"s{i}", ("a",), (), (), Expectation(Behaviour.ANSWER), {}) for i in range(4))
    golden = GoldenSet("set", "set", "d", 4, 4, turns, {"a": 4})
    assert len(select(golden, SamplePolicy(turns=2, at_least={"must_refuse": 150})).turns) == 2


def test_it_is_the_same_whatever_the_order_of_the_turns(shipped: GoldenSet) -> None:
    shuffled = random.Random(1).sample(shipped.turns, len(shipped.turns))
    policy = SamplePolicy(turns=100, at_least={"injection": 20})
    again = select(replace(shipped, turns=tuple(shuffled)), policy)
    assert {turn.id for turn in again.turns} == {turn.id for turn in select(shipped, policy).turns}


def test_another_sample_is_another_set(shipped: GoldenSet) -> None:
    policies = [
        SamplePolicy(turns=100),
        SamplePolicy(turns=101),
        SamplePolicy(turns=100, seed=1),
        SamplePolicy(turns=100, at_least={"injection": 20}),
    ]
    samples = [select(shipped, policy) for policy in policies]
    assert len({shipped.digest, *(sample.digest for sample in samples)}) == 5
    taken = [frozenset(turn.id for turn in sample.turns) for sample in samples]
    assert len({taken[0], taken[2], taken[3]}) == 3


def test_turns_without_a_slice_are_drawn_like_the_others() -> None:
    turns = tuple(
        Turn(f"{i}#1", str(i), f"s{i}", ("a",) if i % 2 else (), (), (), Expectation(Behaviour.ANSWER), {})
        for i in range(40)
    )
    sample = select(GoldenSet("set", "set", "d", 40, 40, turns, {"a": 20}), SamplePolicy(turns=20))
    assert (len(sample.turns), sample.slice_counts) == (20, {"a": 10})


def test_asking_for_all_or_more_gives_the_set_itself(shipped: GoldenSet) -> None:
    assert select(shipped, SamplePolicy(turns=len(shipped.turns))) is shipped
    assert select(shipped, SamplePolicy(turns=10**6)) is shipped


def test_scenarios_of_long_conversations_can_be_left_out() -> None:
    def turn(name: str, words: int) -> Turn:
        said = ({"role": "user", "content": "w" * words},)
        return Turn(f"{name}#1", name, name, ("a",), said, (), Expectation(Behaviour.ANSWER), {})

    turns = (turn("short", 10), turn("middling", 500), turn("long", 5000))
    golden = GoldenSet("short and long", "set", "d", 3, 3, turns, {"a": 3})
    for wanted in (2, 3, 100):  # also where more are asked for than there are
        taken = select(golden, SamplePolicy(turns=wanted, longest=1000))
        assert {turn.scenario for turn in taken.turns} == {"short", "middling"}
        assert taken.digest != golden.digest
    assert select(golden, SamplePolicy(turns=3, longest=6000)) is golden
    with pytest.raises(SettingsError, match="longest is 10, but every scenario of short and long"):
        select(golden, SamplePolicy(turns=1, longest=10))
