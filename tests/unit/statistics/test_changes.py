"""What another verdict would have taken."""

from __future__ import annotations

from typing import Any

import pytest
from decision_samples import make_outcomes, make_policy, make_turns

from evaluators.turn import Turn
from pipeline.errors import Verdict
from pipeline.statistics.facts import Benefit, Decision, Reason, ReasonCode
from pipeline.statistics.verdict import decide

POLICY = make_policy()
TURNS = make_turns(400)


def losing(count: int, turns: list[Turn] = TURNS, **arguments: Any) -> Decision:
    lost = range(1, 2 * count, 2)
    return decide(turns, make_outcomes(turns), make_outcomes(turns, lambda i: i not in lost), POLICY, **arguments)


def test_an_accept_tells_how_many_more_losses_it_bears() -> None:
    decision = losing(2)
    assert decision.verdict is Verdict.ACCEPT
    spare = next(k for k in range(1, 50) if losing(2 + k).verdict is not Verdict.ACCEPT)
    assert decision.to_change == f"{spare} more lost turns on m would make it INCONCLUSIVE."


def test_a_critical_turn_is_named_where_there_is_one() -> None:
    turns = make_turns(400, critical=[0])
    assert losing(2, turns).to_change.endswith("One lost critical turn would make it REJECT.")


def test_an_inconclusive_tells_both_ways() -> None:
    decision = losing(10)
    assert decision.verdict is Verdict.INCONCLUSIVE
    fewer = next(k for k in range(1, 11) if losing(10 - k).verdict is Verdict.ACCEPT)
    more = next(k for k in range(1, 50) if losing(10 + k).verdict is Verdict.REJECT)
    assert decision.to_change == (
        f"ACCEPT would have taken: {fewer} fewer lost turns on m. {more} more lost turns on m would make it REJECT."
    )


def test_a_reject_names_every_reason_that_would_have_to_go() -> None:
    turns = make_turns(400, critical=[1])
    decision = losing(30, turns, benefit=Benefit(100, 99))
    fewer = next(k for k in range(1, 31) if losing(30 - k).verdict is not Verdict.REJECT)
    assert decision.to_change == (
        f"To be no REJECT it would have taken: {fewer} fewer lost turns on m; 1 fewer lost critical turn; a larger "
        "gain, at no loss elsewhere."
    )


def test_critical_turns_within_noise_stand_between_it_and_acceptance() -> None:
    turns = make_turns(400, critical=range(100))
    # ten near ties: their repeat fails, so 10 / 2 of 400 turns, 1.25 of 100 critical ones, are lost by chance
    repeat = make_outcomes(turns, lambda i: i not in range(390, 400))
    decision = losing(2, turns, repeats=[repeat])
    assert decision.verdict is Verdict.INCONCLUSIVE and decision.critical.rejected_at > 2
    assert losing(0, turns, repeats=[repeat]).verdict is Verdict.ACCEPT
    further = decision.critical.rejected_at - 2
    assert losing(2 + further, turns, repeats=[repeat]).verdict is Verdict.REJECT
    assert decision.to_change == (
        f"ACCEPT would have taken: 2 fewer lost critical turns. {further} further lost critical turns would make it "
        "REJECT."
    )


def test_a_lost_slice_tells_how_many_losses_lift_it() -> None:
    turns = make_turns(2000, slices=lambda i: ("long",) if i < 80 else ("short",))
    decision = losing(25, turns)
    fewer = next(k for k in range(1, 26) if losing(25 - k, turns).verdict is not Verdict.REJECT)
    assert decision.to_change == f"To be no REJECT it would have taken: {fewer} fewer lost turns on m in slice long."


def test_a_wiped_out_scenario_wants_one_turn_kept() -> None:
    turns = make_turns(400, per_scenario=2)
    after = make_outcomes(turns, lambda i: i not in (10, 11))
    decision = decide(turns, make_outcomes(turns), after, POLICY)
    assert decision.to_change == (
        "To be no REJECT it would have taken: a turn kept in the scenario that was wiped out."
    )


def test_a_gain_beyond_belief_tells_how_many_flips_make_it_credible() -> None:
    def gaining(count: int) -> Decision:
        return decide(TURNS, make_outcomes(TURNS, lambda i: i >= count), make_outcomes(TURNS), POLICY)

    decision = gaining(32)  # 8 points; 5 are believed, 20 turns
    assert decision.verdict is Verdict.INVALID
    assert decision.to_change == "To be no INVALID it would have taken: 12 fewer gained turns on m."
    assert [gaining(32 - k).verdict for k in (11, 12)] == [Verdict.INVALID, Verdict.ACCEPT]


def test_no_number_of_flips_mends_an_unfair_comparison() -> None:
    finding = Reason(ReasonCode.PROMPTS_DIFFER, Verdict.INVALID, "other prompts")
    assert losing(2, findings=[finding]).to_change.startswith("No number of flips")


def test_nor_makes_an_exploration_an_accept() -> None:
    finding = Reason(ReasonCode.EXPLORATORY, Verdict.INCONCLUSIVE, "--explore")
    decision = losing(2, findings=[finding])
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert "out of reach of any number of flips (EXPLORATORY)" in decision.to_change


@pytest.mark.parametrize("verdict", [Verdict.REJECT, Verdict.INVALID, Verdict.INCONCLUSIVE])
def test_a_finding_weighs_like_any_reason(verdict: Verdict) -> None:
    finding = Reason(ReasonCode.CONDITIONS_DIFFER, verdict, "text")
    decision = losing(0, findings=[finding])
    assert (decision.verdict, decision.reasons) == (verdict, (finding,))
