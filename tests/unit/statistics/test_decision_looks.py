"""Decisions at looks: what rejects early, what cannot, and what becomes of the error rates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from decision_samples import always, make_outcomes, make_policy, make_turns

from evaluators.turn import Outcome, Status
from pipeline.errors import Verdict
from pipeline.statistics.facts import Decision, ReasonCode
from pipeline.statistics.sequential import levels, plan_looks
from pipeline.statistics.simulation import simulate_decisions
from pipeline.statistics.verdict import decide

METRICS = {"m": {"margin": 0.03, "floor": 0.7}}
POLICY = make_policy(looks=[0.25, 0.5])
TURNS = make_turns(400)
FIRST, SECOND = ([TURNS.index(turn) for turn in look.turns] for look in plan_looks(TURNS, (0.25, 0.5)))
SOUND = make_outcomes(TURNS)


def codes(decision: Decision) -> list[ReasonCode]:
    return [reason.code for reason in decision.reasons]


def failing(numbers: list[int]) -> list[Outcome]:
    return make_outcomes(TURNS, lambda i: i not in numbers)


def only(outcomes: list[Outcome], numbers: list[int]) -> list[Outcome]:
    ids = {TURNS[i].id for i in numbers}
    return [outcome for outcome in outcomes if outcome.turn_id in ids]


def test_a_hopeless_candidate_is_rejected_after_a_part() -> None:
    # 25 losses in 100 against a loss of 3 points: z = -4.6, the boundary is -3.75
    candidate = only(failing(FIRST[:25]), FIRST)
    decision = decide(TURNS, SOUND, candidate, POLICY, look=1)
    assert (decision.verdict, decision.exit_code, decision.look) == (Verdict.REJECT, 10, 1)
    assert codes(decision) == [ReasonCode.METRIC_LOSS, ReasonCode.SET_UNFINISHED]
    assert decision.accounting.turns == 100
    (test,) = decision.metrics[0].looks
    assert (test.look, test.n, test.b, test.c, test.fraction) == (1, 100, 25, 0, 0.25)
    assert test.level == levels((0.25, 0.5, 1.0), 0.05)[0]
    assert test.p < test.level
    assert "look 1" in decision.reasons[0].text


def test_the_levels_of_early_looks_are_far_stricter_than_alpha() -> None:
    # 8 losses in 100: P(X >= 8) = 1.1 %, a proof at 5 % but far from one at the first look
    candidate = only(failing(FIRST[:8]), FIRST)
    decision = decide(TURNS, SOUND, candidate, POLICY, look=1)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reasons[0].code is ReasonCode.SET_UNFINISHED
    assert decision.metrics[0].limits.upper > -0.03


def test_a_part_of_the_set_never_accepts() -> None:
    turns = make_turns(40_000)
    sound = make_outcomes(turns)
    decision = decide(turns, sound, sound, POLICY, look=2)
    assert decision.verdict is Verdict.INCONCLUSIVE and decision.metrics[0].verdict is Verdict.INCONCLUSIVE
    assert codes(decision) == [ReasonCode.SET_UNFINISHED]
    assert Verdict.ACCEPT not in decision.metrics[0].flips_to_change
    assert decide(turns, sound, sound, POLICY).verdict is Verdict.ACCEPT


def test_a_run_that_did_not_stop_gives_the_same_verdict() -> None:
    candidate = failing(FIRST[:18])  # the rest is perfect
    stopped, whole = (decide(TURNS, SOUND, candidate, POLICY, look=look) for look in (1, None))
    assert stopped.verdict is whole.verdict is Verdict.REJECT
    assert whole.metrics[0].verdict is Verdict.REJECT and whole.look is None
    assert [(test.look, test.rejects) for test in whole.metrics[0].looks] == [(1, True), (2, True)]
    assert codes(whole) == [ReasonCode.METRIC_LOSS]
    assert decide(TURNS, SOUND, candidate, make_policy()).verdict is Verdict.INCONCLUSIVE


def test_the_end_rejects_at_what_the_looks_have_left() -> None:
    # scipy.stats.binom at 3 %: P(X >= 40) in 1,000 is 4.37 %, P(X >= 25) in 582 is 4.94 %; the level is 4.82 %
    def verdict(count: int, losses: int, looks: list[float]) -> Verdict:
        turns = make_turns(count)
        reached = [turn.id for turn in plan_looks(turns, (0.5,))[0].turns]
        late = [i for i, turn in enumerate(turns) if turn.id not in reached]  # lost where no look sees them
        candidate = make_outcomes(turns, lambda i: i not in late[:losses])
        return decide(turns, make_outcomes(turns), candidate, make_policy(looks=looks)).verdict

    assert verdict(1000, 40, []) is verdict(1000, 40, [0.5]) is Verdict.REJECT
    assert verdict(582, 25, []) is Verdict.REJECT
    assert verdict(582, 25, [0.5]) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("losses", [0, 5, 6, 7, 12])
def test_acceptance_does_not_depend_on_looks(losses: int) -> None:
    candidate = failing(list(range(losses)))
    without, with_looks = (decide(TURNS, SOUND, candidate, policy) for policy in (make_policy(), POLICY))
    assert without.verdict is with_looks.verdict
    assert without.metrics[0].limits.lower == with_looks.metrics[0].limits.lower


def test_missing_outcomes_count_only_up_to_the_look() -> None:
    candidate = only(failing(FIRST[:25]), FIRST)
    assert decide(TURNS, SOUND, candidate, POLICY).verdict is Verdict.INVALID  # at the end
    assert decide(TURNS, SOUND, candidate[1:], POLICY, look=1).verdict is Verdict.INVALID
    assert decide(TURNS, only(SOUND, SECOND), candidate, POLICY, look=2).verdict is Verdict.INVALID


def test_a_lost_critical_turn_rejects_at_a_look() -> None:
    turns = make_turns(400, critical=[FIRST[0], SECOND[-1]])
    decision = decide(turns, SOUND, failing([FIRST[0]]), POLICY, look=1)
    assert decision.verdict is Verdict.REJECT and decision.reasons[0].code is ReasonCode.CRITICAL_TURN
    assert decision.critical.turns == (2 if SECOND[-1] in FIRST else 1)


def test_a_look_convicts_on_no_critical_turn_that_the_end_would_not() -> None:
    # 4 of 400 turns flip between the replays: 0.2 of all 40 critical turns are lost by chance, of the look's 10 fewer
    turns = make_turns(400, critical=[*FIRST[:10], *[i for i in range(400) if i not in FIRST][:30]])
    shaky = make_outcomes(turns, lambda i: i not in SECOND[-4:])
    candidate = failing([FIRST[0]])
    at_look, at_end = (decide(turns, SOUND, candidate, POLICY, repeats=[shaky], look=look) for look in (1, None))
    assert at_look.critical.rejected_at == at_end.critical.rejected_at == 2
    assert at_look.verdict is at_end.verdict is Verdict.INCONCLUSIVE


def _by_scenario(i: int) -> tuple[str, ...]:
    return (f"slice {i // 2}",)


@pytest.mark.parametrize("slices", [lambda i: (), _by_scenario])
def test_rules_without_a_share_of_alpha_wait_for_the_end(slices: Callable[[int], tuple[str, ...]]) -> None:
    turns = make_turns(400, per_scenario=2, slices=slices)
    lost = {turn.id for turn in plan_looks(turns, (0.25,))[0].turns[:2]}
    candidate = make_outcomes(turns, lambda i: turns[i].id not in lost)
    at_look, at_end = (decide(turns, SOUND, candidate, POLICY, look=look) for look in (1, None))
    assert codes(at_look) == [ReasonCode.SET_UNFINISHED, ReasonCode.METRIC_UNDECIDED]
    assert ReasonCode.SCENARIO_WIPED_OUT in codes(at_end)


def test_a_metric_that_a_look_hardly_reads_is_not_tested_there() -> None:
    policy = make_policy({**METRICS, "k": {"margin": 0.03}}, looks=[0.25, 0.5])

    def side(passes: Callable[[int], bool]) -> list[Outcome]:
        read = [i for i in range(400) if i not in FIRST]
        outcomes = make_outcomes(TURNS, passes, "k")
        return SOUND + [
            outcome if i in read else Outcome(outcome.turn_id, "k", Status.NOT_APPLICABLE, "-")
            for i, outcome in enumerate(outcomes)
        ]

    decision = decide(TURNS, side(always), side(lambda i: False), policy, look=1)
    assert decision.metrics[1].n == 0 and decision.metrics[1].looks == ()
    later = decide(TURNS, side(always), side(lambda i: False), policy, look=2)
    assert [test.fraction for test in later.metrics[1].looks] == [pytest.approx(1 / 3)]
    assert later.verdict is Verdict.REJECT


def test_no_such_look() -> None:
    for look, policy in [(3, POLICY), (0, POLICY), (1, make_policy())]:
        with pytest.raises(ValueError, match=f"look {look} of"):
            decide(TURNS, SOUND, SOUND, policy, look=look)


@pytest.mark.parametrize("looks", [[0.5, 0.25], [0.5, 0.5], [0.0], [1.0], ["half"]])
def test_looks_are_increasing_shares(looks: list[object]) -> None:
    with pytest.raises(ValueError, match=r"looks"):
        make_policy(looks=looks)


def _rejected_for_a_loss(**setting: float) -> tuple[float, list[int]]:
    decisions = list(simulate_decisions(make_policy({"m": {"margin": 0.03}}, looks=[0.25, 0.5, 0.75]), **setting))
    stops = [next((test.look for test in d.metrics[0].looks if test.rejects), 4) for d in decisions]
    return sum(ReasonCode.METRIC_LOSS in codes(d) for d in decisions) / len(decisions), stops


def test_error_rates_hold_with_looks() -> None:
    # 3 standard errors of 5 % in 300 runs are 3.8 points
    rejected, _ = _rejected_for_a_loss(runs=300, seed=1, loss=0.03)
    assert rejected <= 0.05 + 0.038
    rejected, stops = _rejected_for_a_loss(runs=60, seed=2, loss=0.12)
    assert rejected == 1.0
    assert sum(stop <= 2 for stop in stops) >= 50  # after half the set or sooner
