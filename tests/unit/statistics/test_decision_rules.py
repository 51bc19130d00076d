"""Every rule of the decision, one at a time, and what may never end in ACCEPT."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from decision_samples import always, constant, make_outcomes, make_policy, make_turns
from scipy.stats import beta, norm

from evaluators.turn import Outcome, Status, Turn
from pipeline.errors import Verdict
from pipeline.statistics.facts import Benefit, Decision, ReasonCode
from pipeline.statistics.verdict import decide

POLICY = make_policy()
TURNS = make_turns(400)


def codes(decision: Decision) -> set[ReasonCode]:
    return {reason.code for reason in decision.reasons}


def lose(*lost: int) -> Callable[[int], bool]:
    return lambda i: i not in lost


def test_equal_sides_are_accepted() -> None:
    decision = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS), POLICY)
    assert (decision.verdict, decision.exit_code) == (Verdict.ACCEPT, 0)
    assert codes(decision) == {ReasonCode.METRICS_HELD}
    limits, z2 = decision.metrics[0].limits, norm.ppf(0.95) ** 2
    assert limits.tango[0] == pytest.approx(-z2 / (400 + z2))
    assert limits.lower == limits.exact[0] == pytest.approx(-(1 - 0.05 ** (1 / 400)))
    assert decision.flips == () and decision.worst == ()
    assert "m loses at most 0.75 % (margin 3 %)" in decision.reasons[0].text  # the limit, in words


def test_a_limit_above_zero_is_told_as_a_gain() -> None:
    decision = decide(TURNS, make_outcomes(TURNS, lose(*range(0, 400, 25))), make_outcomes(TURNS), POLICY)
    assert decision.verdict is Verdict.ACCEPT
    assert decision.metrics[0].limits.lower > 0 and "m gains at least 2." in decision.reasons[0].text


@pytest.mark.parametrize(
    # Binomial tails (scipy.stats.binom) at a rate of 3 % in 400: P(X <= 6) = 4.3 %, P(X <= 7) = 8.6 %;
    # P(X >= 18) = 6.0 %, P(X >= 19) = 3.5 %.
    ("losses", "verdict", "code", "exit_code"),
    [
        (6, Verdict.ACCEPT, ReasonCode.METRICS_HELD, 0),
        (7, Verdict.INCONCLUSIVE, ReasonCode.METRIC_UNDECIDED, 20),
        (18, Verdict.INCONCLUSIVE, ReasonCode.METRIC_UNDECIDED, 20),
        (19, Verdict.REJECT, ReasonCode.METRIC_LOSS, 10),
    ],
)
def test_limits_against_the_margin(losses: int, verdict: Verdict, code: ReasonCode, exit_code: int) -> None:
    decision = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS, lose(*range(losses))), POLICY)
    assert (decision.verdict, decision.exit_code) == (verdict, exit_code)
    assert codes(decision) == {code}
    result = decision.metrics[0]
    assert (result.b, result.c, result.n, result.baseline_passed) == (losses, 0, 400, 400)
    assert result.candidate_passed == 400 - losses


def test_a_true_loss_of_exactly_the_margin_is_no_acceptance() -> None:
    decision = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS, lose(*range(12))), POLICY)
    assert decision.metrics[0].difference == -0.03
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.metrics[0].n_to_decide is None  # sitting on the margin, no number of turns decides


def test_n_to_decide_decides() -> None:
    decision = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS, lose(*range(8))), POLICY)
    n = decision.metrics[0].n_to_decide
    assert n is not None and n > 400
    assert beta.ppf(0.95, 8 * n / 400 + 1, n - 8 * n / 400) <= 0.03  # the same rates at that n
    assert beta.ppf(0.95, 8 * (n - 2) / 400 + 1, (n - 2) * 392 / 400) > 0.03
    assert str(n) in decision.reasons[0].text and str(n) in decision.next_step


@pytest.mark.parametrize("losses", [0, 3, 7, 18, 19, 40])
def test_flips_to_change_are_exact_and_minimal(losses: int) -> None:
    def verdict(count: int) -> Verdict:
        return decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS, lose(*range(count))), POLICY).verdict

    changes = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS, lose(*range(losses))), POLICY).metrics[0]
    assert changes.flips_to_change
    for other, count in changes.flips_to_change.items():
        step = 1 if count > 0 else -1
        assert verdict(losses + count) is other
        assert verdict(losses + count - step) is verdict(losses)


def test_all_gating_metrics_must_hold() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03}, "x": {"margin": 0.03, "gating": False}})
    sound = [o for name in "mkx" for o in make_outcomes(TURNS, metric=name)]

    def with_loss_on(name: str, losses: int) -> list[Outcome]:
        rest = [o for o in sound if o.metric != name]
        return rest + make_outcomes(TURNS, lose(*range(losses)), metric=name)

    assert decide(TURNS, sound, sound, policy).verdict is Verdict.ACCEPT
    assert decide(TURNS, sound, with_loss_on("k", 40), policy).verdict is Verdict.REJECT
    assert decide(TURNS, sound, with_loss_on("k", 10), policy).verdict is Verdict.INCONCLUSIVE
    tolerated = decide(TURNS, sound, with_loss_on("x", 40), policy)
    assert tolerated.verdict is Verdict.ACCEPT
    assert [m.verdict for m in tolerated.metrics] == [Verdict.ACCEPT, Verdict.ACCEPT, Verdict.REJECT]


def test_a_lost_critical_turn_rejects_whatever_the_average() -> None:
    turns = make_turns(400, critical=range(0, 40))
    decision = decide(turns, make_outcomes(turns), make_outcomes(turns, lose(7)), POLICY)
    assert decision.verdict is Verdict.REJECT
    assert codes(decision) == {ReasonCode.CRITICAL_TURN}
    assert decision.critical.failed == ("t007#1",)
    assert decision.worst[0].turn_id == "t007#1" and decision.worst[0].critical
    assert decision.metrics[0].verdict is Verdict.ACCEPT


def test_what_critical_turns_prove_is_rounded_up() -> None:
    turns = make_turns(400, critical=range(0, 35))
    decision = decide(turns, make_outcomes(turns), make_outcomes(turns), POLICY)
    assert "35 without a failure prove at most 8.3 % failing" in decision.reasons[0].text  # 1 - 0.05^(1/35) = 8.201 %


def test_a_critical_turn_that_the_baseline_fails_convicts_nobody() -> None:
    turns = make_turns(400, critical=range(0, 40))
    decision = decide(turns, make_outcomes(turns, lose(7)), make_outcomes(turns, lose(7)), POLICY)
    assert decision.verdict is Verdict.ACCEPT
    assert (decision.critical.turns, decision.critical.passed_by_baseline) == (40, 39)
    assert decision.critical.upper_limit == pytest.approx(1 - 0.05 ** (1 / 39))


def test_a_critical_turn_counts_over_all_gating_metrics_and_only_those() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03}, "x": {"margin": 0.03, "gating": False}})
    turns = make_turns(400, critical=(0,))
    sound = [o for name in "mkx" for o in make_outcomes(turns, metric=name)]
    lost_k = [o for o in sound if o.metric != "k"] + make_outcomes(turns, lose(0), metric="k")
    lost_x = [o for o in sound if o.metric != "x"] + make_outcomes(turns, lose(0), metric="x")
    assert decide(turns, sound, lost_k, policy).critical.failed == ("t000#1",)
    assert decide(turns, sound, lost_x, policy).critical.failed == ()
    assert decide(turns, lost_x, lost_k, policy).critical.failed == ("t000#1",)  # x does not excuse k


def test_a_critical_turn_that_nothing_gating_reads_is_invalid() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "x": {"margin": 0.03, "gating": False}})
    turns = make_turns(400, critical=(0,))
    unread = [Outcome(turns[0].id, "m", Status.NOT_APPLICABLE, "-"), *make_outcomes(turns)[1:]]
    both = unread + make_outcomes(turns, metric="x")
    assert codes(decide(turns, both, both, policy)) == {ReasonCode.NO_DATA}


def test_a_wiped_out_scenario_rejects_whatever_the_average() -> None:
    turns = make_turns(400, per_scenario=2)
    decision = decide(turns, make_outcomes(turns), make_outcomes(turns, lose(10, 11)), POLICY)
    assert decision.verdict is Verdict.REJECT
    assert codes(decision) == {ReasonCode.SCENARIO_WIPED_OUT}
    assert decision.scenarios_wiped_out == ("s005",)


@pytest.mark.parametrize(
    ("per_scenario", "baseline", "lost"),
    [(2, (), (10, 13)), (2, (11,), (10, 11)), (3, (), (9, 10)), (1, (), (10,))],
    ids=["two scenarios", "baseline fails one", "one of three kept", "single turns"],
)
def test_less_than_a_whole_scenario_is_no_tripwire(
    per_scenario: int, baseline: tuple[int, ...], lost: tuple[int, ...]
) -> None:
    turns = make_turns(399, per_scenario=per_scenario)
    decision = decide(turns, make_outcomes(turns, lose(*baseline)), make_outcomes(turns, lose(*lost)), POLICY)
    assert decision.scenarios_wiped_out == ()


def test_a_scenario_with_an_unstable_turn_was_not_passed_entirely() -> None:
    turns = make_turns(399, per_scenario=3)
    sides = make_outcomes(turns), make_outcomes(turns, lose(9, 10, 11))
    steady, shaky = make_outcomes(turns), make_outcomes(turns, lose(9))
    assert decide(turns, *sides, POLICY, repeats=[steady]).scenarios_wiped_out == ("s003",)
    assert decide(turns, *sides, POLICY, repeats=[shaky]).scenarios_wiped_out == ()


def test_scenarios_that_chance_wipes_out_are_no_tripwire() -> None:
    # 5,000 scenarios of two turns, each turn lost with probability 3 %: 4.5 wiped out by chance alone.
    turns = make_turns(10_000, per_scenario=2)
    rng = random.Random(8)
    flips = [(rng.random() < 0.03, rng.random() < 0.03) for _ in turns]
    sides = [make_outcomes(turns, lambda i, side=side: not flips[i][side]) for side in (0, 1)]
    by_chance = decide(turns, *sides, POLICY)
    assert by_chance.verdict is Verdict.ACCEPT
    sides[1] = make_outcomes(turns, lambda i: i >= 40 and not flips[i][1])  # 20 scenarios more
    assert len(decide(turns, *sides, POLICY).scenarios_wiped_out) >= 15


def test_chance_is_reckoned_over_scenarios_that_can_be_wiped_out() -> None:
    # The baseline passes 20 of 400 scenarios entirely. 40 of 416 turns are lost elsewhere, so chance wipes out
    # 20 * 0.096^2 = 0.18 of the 20; two are P = 0.015. Over all 400 scenarios it would be 3.7, and two nothing.
    turns = make_turns(800, per_scenario=2)
    before = make_outcomes(turns, lambda i: i < 40 or i % 2 == 0)
    after = make_outcomes(turns, lambda i: 4 <= i < 40 or (i >= 120 and i % 2 == 0))
    decision = decide(turns, before, after, make_policy({"m": {"margin": 0.03}}))
    assert decision.scenarios_wiped_out == ("s000", "s001")


def test_a_baseline_below_its_floor_is_no_yardstick() -> None:
    decision = decide(TURNS, make_outcomes(TURNS, lambda i: i < 279), make_outcomes(TURNS, lambda i: i < 279), POLICY)
    assert decision.verdict is Verdict.INVALID and decision.exit_code == 30  # 279 / 400 = 69.75 %
    assert codes(decision) == {ReasonCode.BASELINE_BELOW_FLOOR}
    assert decision.metrics[0].verdict is Verdict.INVALID
    at_floor = decide(TURNS, make_outcomes(TURNS, lambda i: i < 280), make_outcomes(TURNS, lambda i: i < 280), POLICY)
    assert at_floor.verdict is Verdict.ACCEPT


@pytest.mark.parametrize(
    ("passing", "margin", "verdict"),
    [
        (0, 0.03, Verdict.INVALID),  # both sides fail everything: "no loss" proves nothing
        (12, 0.03, Verdict.INVALID),  # 12 / 400 = 3 %: losing them all would lose no more than the margin
        (40, 0.03, Verdict.ACCEPT),
        (400, 1.0, Verdict.INVALID),  # nobody can lose more than everything
    ],
)
def test_a_baseline_with_no_more_than_the_margin_to_lose_is_no_yardstick_whatever_the_floor(
    passing: int, margin: float, verdict: Verdict
) -> None:
    outcomes = make_outcomes(TURNS, lambda i: i < passing)
    decision = decide(TURNS, outcomes, outcomes, make_policy({"m": {"margin": margin}}))
    assert decision.verdict is verdict
    if verdict is Verdict.INVALID:
        assert codes(decision) == {ReasonCode.BASELINE_BELOW_FLOOR}
        assert f"not more than the margin of {margin * 100:g} %" in decision.reasons[0].text
        assert decision.metrics[0].verdict is Verdict.INVALID


def test_a_weak_baseline_outweighs_lost_critical_turns() -> None:
    turns = make_turns(400, critical=(0,))
    decision = decide(
        turns, make_outcomes(turns, lambda i: i < 200), make_outcomes(turns, lambda i: 0 < i < 200), POLICY
    )
    assert decision.verdict is Verdict.INVALID
    assert {ReasonCode.BASELINE_BELOW_FLOOR, ReasonCode.CRITICAL_TURN} <= codes(decision)
    assert decision.reasons[0].code is ReasonCode.BASELINE_BELOW_FLOOR


def test_a_gain_too_large_to_be_true_is_invalid() -> None:
    decision = decide(TURNS, make_outcomes(TURNS, lambda i: i >= 32), make_outcomes(TURNS), POLICY)  # +8 points
    assert decision.verdict is Verdict.INVALID
    assert codes(decision) == {ReasonCode.ANOMALOUS_GAIN}


@pytest.mark.parametrize("gain", [1, 19, 20])
def test_a_gain_up_to_the_limit_is_fine(gain: int) -> None:
    decision = decide(TURNS, make_outcomes(TURNS, lambda i: i >= gain), make_outcomes(TURNS), POLICY)
    assert decision.verdict is Verdict.ACCEPT  # 20 / 400 is 5 points exactly, not beyond


def test_a_large_gain_that_is_not_proved_is_no_anomaly() -> None:
    turns = make_turns(100)
    # 27 gained, 19 lost of 100: +8 points, but z = 8 / sqrt(46) = 1.18 < 1.645
    before = make_outcomes(turns, lambda i: i >= 27)
    after = make_outcomes(turns, lambda i: i < 81)
    assert codes(decide(turns, before, after, POLICY)) == {ReasonCode.METRIC_UNDECIDED}


def test_a_gain_beside_a_proved_loss_is_a_shift_and_rejects() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03}})
    before = make_outcomes(TURNS, lambda i: i >= 40) + make_outcomes(TURNS, metric="k")
    after = make_outcomes(TURNS) + make_outcomes(TURNS, lambda i: i >= 40, metric="k")
    decision = decide(TURNS, before, after, policy)
    assert decision.verdict is Verdict.REJECT
    assert codes(decision) == {ReasonCode.METRIC_LOSS, ReasonCode.ANOMALOUS_GAIN}


def test_a_slice_lost_behind_a_good_average_rejects() -> None:
    turns = make_turns(2000, slices=lambda i: ("long_history",) if i < 80 else ("short",))
    decision = decide(turns, make_outcomes(turns), make_outcomes(turns, lambda i: i >= 25), POLICY)
    assert decision.metrics[0].verdict is Verdict.ACCEPT  # 25 of 2000
    assert codes(decision) == {ReasonCode.SLICE_LOSS}
    assert [(row.slice, row.flagged) for row in decision.slices] == [("long_history", True), ("short", False)]


def test_many_slices_are_allowed_for() -> None:
    # Score test of "loss at most 3 points" in a slice of 90: 7 losses p = 0.021, enough alone but not among 100
    # slices (Holm: 2.1); 14 losses p = 0.00046, times 100 still below 0.05.
    def flagged(losses: int, slices: int) -> bool:
        turns = make_turns(90 * slices, slices=lambda i: (f"slice {i // 90:03}",))
        decision = decide(turns, make_outcomes(turns), make_outcomes(turns, lambda i: i >= losses), POLICY)
        return any(row.flagged for row in decision.slices)

    assert flagged(7, 1)
    assert not flagged(7, 100)
    assert flagged(14, 100)


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [(800, Verdict.ACCEPT), (801, Verdict.REJECT), (1000, Verdict.REJECT), (1, Verdict.ACCEPT)],
)
def test_no_benefit_no_reason_to_ship(candidate: int, verdict: Verdict) -> None:
    sides = make_outcomes(TURNS), make_outcomes(TURNS)
    decision = decide(TURNS, *sides, POLICY, benefit=Benefit(1000, candidate))
    assert decision.verdict is verdict
    assert (ReasonCode.NO_BENEFIT in codes(decision)) == (verdict is Verdict.REJECT)


@pytest.mark.parametrize("weights", [(0, 0), (1000, 0), (0, 100), (1000, -5)])
def test_impossible_weights_are_invalid(weights: tuple[int, int]) -> None:
    decision = decide(TURNS, make_outcomes(TURNS), make_outcomes(TURNS), POLICY, benefit=Benefit(*weights))
    assert decision.verdict is Verdict.INVALID


# --- noise floor -------------------------------------------------------------------------------


def test_quiet_repeats_change_nothing() -> None:
    sides = make_outcomes(TURNS), make_outcomes(TURNS, lose(1, 2))
    decision = decide(TURNS, *sides, POLICY, repeats=[make_outcomes(TURNS, lose(5)), make_outcomes(TURNS)])
    noise = decision.metrics[0].noise
    assert decision.verdict is Verdict.ACCEPT and noise is not None
    assert (noise.repeats, noise.compared, noise.flips) == (2, 800, 1)
    assert noise.excess_flips == pytest.approx(2 - 400 / 800)
    assert noise.reach == pytest.approx(norm.ppf(0.95) * (1 / 800 / 400) ** 0.5)


def test_a_baseline_that_disagrees_with_itself_is_invalid() -> None:
    sides = make_outcomes(TURNS), make_outcomes(TURNS)
    decision = decide(TURNS, *sides, POLICY, repeats=[make_outcomes(TURNS, lose(*range(21)))])  # 5.25 %
    assert decision.verdict is Verdict.INVALID
    assert codes(decision) == {ReasonCode.NOISE}


def test_noise_that_reaches_the_margin_is_inconclusive() -> None:
    turns = make_turns(100)
    # flip rate 4 %, reach 1.645 sqrt(0.04 / 100) = 3.3 points > 3
    decision = decide(turns, *[make_outcomes(turns)] * 2, POLICY, repeats=[make_outcomes(turns, lose(1, 2, 3, 4))])
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert codes(decision) == {ReasonCode.NOISE_ABOVE_MARGIN}


def test_a_critical_turn_that_the_baseline_passes_by_luck_is_unstable() -> None:
    turns = make_turns(400, critical=(0, 1))
    decision = decide(
        turns, make_outcomes(turns), make_outcomes(turns, lose(0)), POLICY, repeats=[make_outcomes(turns, lose(0))]
    )
    assert decision.verdict is Verdict.ACCEPT
    assert (decision.critical.unstable, decision.critical.passed_by_baseline) == (("t000#1",), 1)


def test_critical_turns_lost_as_often_as_noise_would_convict_nobody_and_accept_nothing() -> None:
    # Two replays of the baseline differ on 4 of 400 turns: each alone fails 2 in 400, so of 40 critical turns
    # 0.2 are lost by chance. Poisson: P(1 or more) = 18 %, P(2 or more) = 1.8 %.
    turns = make_turns(400, critical=range(40))
    repeat = make_outcomes(turns, lose(100, 101, 102, 103))

    def lost(*numbers: int) -> Decision:
        return decide(turns, make_outcomes(turns), make_outcomes(turns, lose(*numbers)), POLICY, repeats=[repeat])

    one, two = lost(7), lost(7, 8)
    assert one.critical.by_chance == pytest.approx(0.2) and one.critical.rejected_at == 2
    assert one.verdict is Verdict.INCONCLUSIVE and codes(one) == {ReasonCode.CRITICAL_TURN}
    assert "0.2 would be lost by chance" in one.reasons[0].text
    assert two.verdict is Verdict.REJECT and two.reasons[0].code is ReasonCode.CRITICAL_TURN


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_quiet_baseline_convicts_on_one_lost_critical_turn(repeats: int) -> None:
    turns = make_turns(400, critical=range(40))
    sound = make_outcomes(turns)
    decision = decide(turns, sound, make_outcomes(turns, lose(7)), POLICY, repeats=[sound] * repeats)
    assert decision.verdict is Verdict.REJECT
    assert (decision.critical.by_chance, decision.critical.rejected_at) == (0.0, 1)


def test_noise_is_counted_where_just_one_replay_fails() -> None:
    # Of four replays one fails turn 100, another turn 101; two fail turn 102, which is no near miss of one replay.
    turns = make_turns(400, critical=range(200))
    failing = [(100, 102), (101, 102), ()]
    repeats = [make_outcomes(turns, lose(*numbers)) for numbers in failing]
    decision = decide(turns, make_outcomes(turns), make_outcomes(turns), POLICY, repeats=repeats)
    assert decision.critical.by_chance == pytest.approx(2 / 4 / 400 * 200)


def test_the_baseline_against_itself_is_rarely_rejected_for_critical_turns() -> None:
    # 2 % of turns are near ties that every replay decides anew; 40 of 400 turns are critical.
    turns, rng, rejected = make_turns(400, critical=range(40)), random.Random(9), 0
    for _ in range(200):
        ties = {i for i in range(400) if rng.random() < 0.02}
        replays = [make_outcomes(turns, lose(*(i for i in ties if rng.random() < 0.5))) for _ in range(3)]
        decision = decide(turns, *replays[:2], make_policy({"m": {"margin": 0.1}}), repeats=[replays[2]])
        rejected += decision.verdict is Verdict.REJECT
    assert rejected <= 10 + 9  # 5 % and three standard errors; one lost turn alone would reject in a tenth


# --- what may never end in ACCEPT --------------------------------------------------------------


def _without(index: int, outcomes: list[Outcome]) -> list[Outcome]:
    return outcomes[:index] + outcomes[index + 1 :]


def _status(status: Any, outcomes: list[Outcome]) -> list[Outcome]:
    return [replace(outcomes[0], status=status), *outcomes[1:]]


SOUND = make_outcomes(TURNS)
BROKEN: dict[str, tuple[list[Outcome], list[Outcome], ReasonCode]] = {
    "one missing": (SOUND, _without(3, SOUND), ReasonCode.UNSCORABLE),
    "one missing of the baseline": (_without(3, SOUND), SOUND, ReasonCode.UNSCORABLE),
    "the same missing on both sides": (_without(3, SOUND), _without(3, SOUND), ReasonCode.UNSCORABLE),
    "unscorable": (SOUND, _status(Status.UNSCORABLE, SOUND), ReasonCode.UNSCORABLE),
    "unscorable on both sides": (*[_status(Status.UNSCORABLE, SOUND)] * 2, ReasonCode.UNSCORABLE),
    "a status that is not one": (SOUND, _status("pass", SOUND), ReasonCode.UNSCORABLE),
    "NaN for a status": (SOUND, _status(float("nan"), SOUND), ReasonCode.UNSCORABLE),
    "not applicable on one side": (SOUND, _status(Status.NOT_APPLICABLE, SOUND), ReasonCode.PAIRS_DIFFER),
    "missing here, not applicable there": (
        _without(0, SOUND),
        _status(Status.NOT_APPLICABLE, SOUND),
        ReasonCode.UNSCORABLE,
    ),
    "an outcome twice": (SOUND, [*SOUND, SOUND[0]], ReasonCode.BAD_RECORDS),
    "an outcome of an unknown turn": (
        SOUND,
        [*SOUND, Outcome("ghost#1", "m", Status.PASSED, "-")],
        ReasonCode.BAD_RECORDS,
    ),
    "a metric that no policy names": (
        SOUND,
        [*SOUND, Outcome(TURNS[0].id, "new", Status.PASSED, "-")],
        ReasonCode.UNDECLARED_METRIC,
    ),
    "no candidate at all": (SOUND, [], ReasonCode.UNSCORABLE),
    "no baseline at all": ([], SOUND, ReasonCode.UNSCORABLE),
    "nothing at all": ([], [], ReasonCode.NO_DATA),
    "applicable nowhere": (*[constant(TURNS, Status.NOT_APPLICABLE, "m")] * 2, ReasonCode.NO_DATA),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_records_are_invalid(case: str) -> None:
    baseline, candidate, code = BROKEN[case]
    decision = decide(TURNS, baseline, candidate, POLICY)
    assert (decision.verdict, decision.exit_code) == (Verdict.INVALID, 30)
    assert code in codes(decision)
    assert decision.metrics[0].verdict is Verdict.INVALID or code in {
        ReasonCode.BAD_RECORDS,
        ReasonCode.UNDECLARED_METRIC,
    }


def test_accounting_names_what_is_missing() -> None:
    decision = decide(TURNS, SOUND, _without(3, _without(9, SOUND)), POLICY)
    accounting = decision.accounting
    assert (accounting.turns, accounting.baseline_scored, accounting.candidate_scored) == (400, 400, 398)
    assert "t003#1" in decision.reasons[0].text and "t009#1" in decision.reasons[0].text
    assert (decision.metrics[0].unscorable_baseline, decision.metrics[0].unscorable_candidate) == (0, 2)
    assert decision.metrics[0].n == 398


def test_no_turns_at_all_is_invalid() -> None:
    decision = decide([], [], [], POLICY)
    assert decision.verdict is Verdict.INVALID
    assert codes(decision) == {ReasonCode.NO_DATA}


def test_a_repeated_turn_is_invalid() -> None:
    turns = [*TURNS, TURNS[0]]
    assert ReasonCode.BAD_RECORDS in codes(decide(turns, SOUND, SOUND, POLICY))


def test_a_gating_metric_without_data_is_invalid_but_another_is_not() -> None:
    gating = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03}})
    assert codes(decide(TURNS, SOUND, SOUND, gating)) == {ReasonCode.NO_DATA}
    reported = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03, "gating": False}})
    decision = decide(TURNS, SOUND, SOUND, reported)
    assert decision.verdict is Verdict.ACCEPT
    assert (decision.metrics[1].n, decision.metrics[1].difference) == (0, None)


def test_an_unscorable_outcome_of_a_metric_that_does_not_gate_is_invalid_too() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "x": {"margin": 0.03, "gating": False}})
    candidate = SOUND + _status(Status.UNSCORABLE, make_outcomes(TURNS, metric="x"))
    decision = decide(TURNS, SOUND + make_outcomes(TURNS, metric="x"), candidate, policy)
    assert codes(decision) == {ReasonCode.UNSCORABLE}


@pytest.mark.parametrize("repeat", [[], SOUND[1:], _status(Status.UNSCORABLE, SOUND), [*SOUND, SOUND[0]]])
def test_a_broken_repeat_is_invalid(repeat: list[Outcome]) -> None:
    decision = decide(TURNS, SOUND, SOUND, POLICY, repeats=[repeat])
    assert decision.verdict is Verdict.INVALID
    assert repeat or decision.metrics[0].noise.flip_rate == 1.0  # nothing compared: the worst is assumed


@pytest.mark.parametrize("count", [1, 2, 10, 98])
def test_too_few_turns_never_accept(count: int) -> None:
    # 0.97^98 = 5.05 %, 0.97^99 = 4.90 %
    turns = make_turns(count)
    assert decide(turns, *[make_outcomes(turns)] * 2, POLICY).verdict is Verdict.INCONCLUSIVE
    turns = make_turns(99)
    assert decide(turns, *[make_outcomes(turns)] * 2, POLICY).verdict is Verdict.ACCEPT


def test_many_turns_of_few_scenarios_never_accept() -> None:
    for per_scenario in (600, 300):
        turns = make_turns(600, per_scenario=per_scenario)
        assert decide(turns, *[make_outcomes(turns)] * 2, POLICY).verdict is Verdict.INCONCLUSIVE


def test_a_margin_of_zero_never_accepts_without_proof_of_gain() -> None:
    policy = make_policy({"m": {"margin": 0.0}})
    assert decide(TURNS, SOUND, SOUND, policy).verdict is Verdict.INCONCLUSIVE


def test_order_of_outcomes_and_turns_does_not_matter() -> None:
    turns = make_turns(300, per_scenario=3, critical=(0, 5), slices=lambda i: ("a",) if i % 2 else ("b", "c"))
    rng = random.Random(4)
    sides = [make_outcomes(turns, lambda i: rng.random() > 0.05) for _ in range(2)]
    expected = decide(turns, *sides, POLICY)
    shuffled: list[Turn] = turns[:]
    rng.shuffle(shuffled)
    for side in sides:
        rng.shuffle(side)
    got = decide(shuffled, *sides, POLICY)
    assert (got.verdict, got.reasons, got.flips, got.worst) == (
        expected.verdict,
        expected.reasons,
        expected.flips,
        expected.worst,
    )
    assert got.metrics[0].limits.lower == pytest.approx(expected.metrics[0].limits.lower, abs=1e-12)


def test_flips_and_worst_flips() -> None:
    policy = make_policy({"m": {"margin": 0.03}, "k": {"margin": 0.03}})
    turns = make_turns(400, per_scenario=4, critical=(9,))
    before = make_outcomes(turns, lose(50)) + make_outcomes(turns, metric="k")
    after = make_outcomes(turns, lose(9, 20, 30, 31, 40, 44, 60)) + make_outcomes(turns, lose(44), metric="k")
    decision = decide(turns, before, after, policy)
    assert [flip.turn_id for flip in decision.flips if not flip.lost] == ["t050#1"]
    assert len(decision.flips) == 9
    first = decision.flips[0]
    assert (first.baseline.status, first.candidate.status) == (Status.PASSED, Status.FAILED)
    assert first.candidate.evidence == ("evidence 9",)
    # critical, then two metrics, then the scenario with two losses (s007), then by id
    assert [flip.turn_id for flip in decision.worst] == ["t009#1", "t044#1", "t030#1", "t031#1", "t020#1"]
    assert decision.worst[1].metrics == ("k", "m")


def test_every_reason_has_a_next_step() -> None:
    from pipeline.statistics.advice import next_step
    from pipeline.statistics.facts import Reason

    for code in ReasonCode:
        assert len(next_step([Reason(code, Verdict.REJECT, "text")], [])) > 20


def test_the_shipped_policy_decides() -> None:
    from pipeline.settings import load_gate

    policy = load_gate()
    sides = [[o for name in policy.metrics for o in make_outcomes(TURNS, always, name)] for _ in range(2)]
    assert decide(TURNS, *sides, policy, benefit=Benefit(100, 60)).verdict is Verdict.ACCEPT
