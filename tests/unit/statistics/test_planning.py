"""What a golden set can decide before anything is spent."""

from __future__ import annotations

import math

import pytest
from decision_samples import make_policy
from scipy.stats import norm

from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.facts import ReasonCode
from pipeline.statistics.planning import (
    exploratory_reason,
    plan_items,
    plan_metric,
    plan_power,
    underpowered_reasons,
)

Z = norm.ppf(0.95) + norm.ppf(0.8)  # 2.486


def turns_in(sizes: list[int]) -> list[Turn]:
    """Turns in scenarios of these sizes."""
    return [
        Turn(f"s{s}-{i}#1", f"s{s}-{i}", f"s{s}", (), (), (), Expectation(Behaviour.ANSWER), {})
        for s, size in enumerate(sizes)
        for i in range(size)
    ]


def planned(sizes: list[int], *, margin: float = 0.03, flip_rate: float = 0.02):
    return plan_metric("m", turns_in(sizes), make_policy({"m": {"margin": margin}}), flip_rate)


def test_single_turns_follow_the_formula() -> None:
    plan = planned([1] * 400)
    assert (plan.turns, plan.scenarios) == (400, 400)
    assert plan.detectable == pytest.approx(Z * math.sqrt(0.02 / 400))  # 1.76 points
    assert plan.needed == 138  # the published table: 2 % flips, margin 3 points
    assert plan.adequate


@pytest.mark.parametrize(("flip_rate", "margin", "needed"), [(0.05, 0.03, 344), (0.02, 0.02, 310), (0.1, 0.05, 248)])
def test_needed_turns_are_those_of_the_table(flip_rate: float, margin: float, needed: int) -> None:
    assert planned([1] * 10, margin=margin, flip_rate=flip_rate).needed == needed


def test_items_of_general_tasks_are_scenarios_of_their_own() -> None:
    rules = make_policy({"general.sums": {"margin": 0.03}, "general.json": {"margin": 0.05}}, power={"flip_rate": 0.05})
    first, second = plan_items({"general.sums": 343, "general.json": 200}, rules)
    assert (first.turns, first.scenarios, first.needed, first.adequate) == (343, 343, 344, False)  # as in the table
    assert second.detectable == pytest.approx(Z * math.sqrt(0.05 / 200))
    assert second.adequate


def test_a_set_without_flips_is_limited_by_its_size() -> None:
    # 1 - 0.05^(1/98) = 3.01 %, with 99 turns 2.98 %
    assert [planned([1] * n, flip_rate=0).adequate for n in (98, 99)] == [False, True]
    assert planned([1], flip_rate=0).needed == 99


def test_scenarios_of_several_turns_count_for_less() -> None:
    plan = planned([4] * 100)
    # 8 flips expected, worst design effect 4: (8 + 4) / (8 + 1) = 4/3
    assert plan.detectable == pytest.approx(max(Z * math.sqrt(0.02 * 4 / 3 / 400), 1 - 0.05 ** (1 / 100)))
    assert plan.needed is not None and plan.needed > 138
    assert [planned([4] * (plan.needed // 4 + more)).adequate for more in (0, 1)] == [False, True]


def test_nothing_decides_a_margin_of_zero_or_a_metric_that_nothing_feeds() -> None:
    zero = planned([1] * 10_000, margin=0.0)
    assert (zero.adequate, zero.needed) == (False, None)
    empty = planned([])
    assert (empty.turns, empty.scenarios, empty.detectable, empty.adequate) == (0, 0, 1.0, False)
    assert empty.needed == 138


def policy() -> GateSettings:
    return make_policy(
        {
            "refuses_when_required": {"margin": 0.03},
            "complies_when_allowed": {"margin": 0.03},
            "free_of_degeneration": {"margin": 0.001, "gating": False},
        },
        power={"flip_rate": 0.02},
    )


def mixed(refusals: int, others: int) -> list[Turn]:
    def turn(i: int, behaviour: Behaviour) -> Turn:
        slices = ("must_refuse",) if behaviour is Behaviour.REFUSE else ()
        expect = Expectation(behaviour, critical=i % 10 == 0)
        return Turn(f"{behaviour}{i}#1", f"{behaviour}{i}", f"{behaviour}{i}", slices, (), (), expect, {})

    return [turn(i, Behaviour.REFUSE) for i in range(refusals)] + [turn(i, Behaviour.COMPLY) for i in range(others)]


def test_a_plan_counts_the_turns_that_each_metric_reads() -> None:
    plan = plan_power(mixed(40, 200), policy())
    assert {row.metric: (row.turns, row.adequate) for row in plan.metrics} == {
        "refuses_when_required": (40, False),
        "complies_when_allowed": (200, True),
        "free_of_degeneration": (240, False),
    }
    assert [row.metric for row in plan.underpowered] == ["refuses_when_required"]  # the third does not gate


def test_critical_turns_are_counted_in_all_and_by_slice() -> None:
    plan = plan_power(mixed(40, 200), policy())
    assert [(row.group, row.turns) for row in plan.critical] == [("all", 24), ("must_refuse", 4)]
    assert plan.critical[0].upper_limit == pytest.approx(1 - 0.05 ** (1 / 24))  # Clopper-Pearson, no failure


def test_measured_noise_replaces_the_assumption_where_it_is_higher() -> None:
    noise = {"refuses_when_required": 0.001, "complies_when_allowed": 0.04}
    assert [row.flip_rate for row in plan_power(mixed(40, 200), policy(), noise).metrics] == [0.02, 0.04, 0.02]


def test_each_metric_that_cannot_be_decided_is_a_reason_with_figures() -> None:
    plan = plan_power(mixed(40, 200), policy())
    (reason,) = underpowered_reasons(plan)
    assert (reason.code, reason.verdict, reason.metric) == (
        ReasonCode.UNDERPOWERED,
        Verdict.INCONCLUSIVE,
        "refuses_when_required",
    )
    assert reason.figures is not None
    assert (reason.figures["turns"], reason.figures["needed"], reason.figures["margin"]) == (40, 138, 0.03)
    assert "138 turns are needed" in reason.text
    explored = exploratory_reason(plan)
    assert (explored.code, explored.verdict) == (ReasonCode.EXPLORATORY, Verdict.INCONCLUSIVE)
    assert "refuses_when_required" in explored.text
