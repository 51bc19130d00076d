"""Turns sampled several times at a temperature above 0: pass rates instead of passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from decision_samples import make_outcomes, make_policy, make_turns
from scipy import stats

from evaluators.turn import Outcome, Status, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.facts import Decision, ReasonCode
from pipeline.statistics.tango import tango_limits
from pipeline.statistics.verdict import decide

METRICS = {"m": {"margin": 0.03, "floor": 0.0}}


def policy(samples: int) -> GateSettings:
    return make_policy(METRICS, sampling={"temperature": 0.7, "samples": samples})


def sides(turns: Sequence[Turn], passes: Sequence[Sequence[bool]]) -> list[list[Outcome]]:
    """One list of outcomes per sample; ``passes[i][k]``: whether turn i passes in sample k."""
    return [make_outcomes(turns, lambda i, k=k: bool(passes[i][k])) for k in range(len(passes[0]))]


def decided(turns: Sequence[Turn], before: Sequence[Sequence[bool]], after: Sequence[Sequence[bool]]) -> Decision:
    baseline, candidate = sides(turns, before), sides(turns, after)
    return decide(
        turns,
        baseline[0],
        candidate[0],
        policy(len(before[0])),
        repeats=baseline[1:],
        candidate_repeats=candidate[1:],
    )


def test_rates_by_hand() -> None:
    # Rates 1, 1, 1/2, 0 against 1/2, 1, 1, 0: x = -1/2, 0, 1/2, 0
    before = [[True, True], [True, True], [True, False], [False, False]]
    after = [[True, False], [True, True], [True, True], [False, False]]
    result = decided(make_turns(4), before, after).metrics[0]
    assert (result.n, result.b, result.c, result.baseline_passed, result.candidate_passed) == (4, 0.5, 0.5, 2.5, 2.5)
    half = stats.t.ppf(0.95, 3) * np.std([-0.5, 0, 0.5, 0], ddof=1) / 2
    assert result.limits is not None
    assert result.limits.cluster_t == pytest.approx((-half, half))
    assert result.limits.lower <= tango_limits(0.5, 0.5, 4)[0]
    assert result.mcnemar_p is None and result.noise is None


def test_more_samples_do_not_make_more_turns() -> None:
    turns = make_turns(120, per_scenario=2)
    once, often = (decided(turns, [[True] * k] * 120, [[True] * k] * 120).metrics[0] for k in (2, 20))
    assert once.limits == often.limits and once.n == often.n == 120


def test_samples_make_rates_more_precise() -> None:
    # Every turn passes half of the time on both sides: with more samples the same n shows it more sharply.
    turns, rng = make_turns(400), np.random.default_rng(3)
    few, many = (
        decided(turns, rng.random((400, k)) < 0.5, rng.random((400, k)) < 0.5).metrics[0].limits for k in (2, 30)
    )
    assert few is not None and many is not None and few.cluster_t is not None and many.cluster_t is not None
    # variance of a difference of rates: 2 * 0.25 / k, over n
    for limits, k in ((few, 2), (many, 30)):
        width = limits.cluster_t[1] - limits.cluster_t[0]
        assert width == pytest.approx(2 * 1.649 * (0.5 / k / 400) ** 0.5, rel=0.1)


def test_noise_of_sampling_is_no_noise_floor() -> None:
    # 20 % of turns change from sample to sample: far above the noise ceiling of 5 %, and no reason for INVALID.
    turns, rng = make_turns(1000), np.random.default_rng(4)
    before, after = (rng.random((1000, 5)) < 0.9 for _ in range(2))
    decision = decided(turns, before, after)
    assert decision.verdict in (Verdict.ACCEPT, Verdict.INCONCLUSIVE)
    assert ReasonCode.NOISE not in {reason.code for reason in decision.reasons}


def test_a_critical_turn_is_lost_only_in_every_sample() -> None:
    turns = make_turns(400, critical=[0, 1])
    before, after = np.ones((400, 3), dtype=bool), np.ones((400, 3), dtype=bool)
    after[0, :2] = False
    assert decided(turns, before, after).critical.failed == ()
    after[0] = False
    assert decided(turns, before, after).critical.failed == ("t000#1",)
    before[0, 1] = False
    decision = decided(turns, before, after)
    assert (decision.critical.failed, decision.critical.unstable) == ((), ("t000#1",))


@pytest.mark.parametrize(("samples", "verdict"), [(2, Verdict.INCONCLUSIVE), (3, Verdict.REJECT)])
def test_few_samples_do_not_convict_on_one_critical_turn(samples: int, verdict: Verdict) -> None:
    # A turn with k passes in 2k samples has them all on the baseline's side by chance once in C(2k, k): 6, 20
    turns = make_turns(400, critical=[0])
    before, after = np.ones((400, samples), dtype=bool), np.ones((400, samples), dtype=bool)
    after[0] = False
    decision = decided(turns, before, after)
    assert decision.critical.failed == ("t000#1",)
    assert decision.critical.by_chance == pytest.approx({2: 1 / 6, 3: 1 / 20}[samples])
    assert decision.verdict is verdict and decision.reasons[0].code is ReasonCode.CRITICAL_TURN


def test_a_scenario_is_wiped_out_only_in_every_sample() -> None:
    turns = make_turns(300, per_scenario=3)
    before, after = np.ones((300, 3), dtype=bool), np.ones((300, 3), dtype=bool)
    after[:3] = False
    assert decided(turns, before, after).scenarios_wiped_out == ("s000",)
    after[2, 1] = True
    assert decided(turns, before, after).scenarios_wiped_out == ()


@pytest.mark.parametrize(("baseline", "candidate"), [(3, 2), (2, 3), (1, 1), (4, 3)])
def test_too_few_or_too_many_samples_are_invalid(baseline: int, candidate: int) -> None:
    turns = make_turns(400)
    one = make_outcomes(turns)
    decision = decide(
        turns, one, one, policy(3), repeats=[one] * (baseline - 1), candidate_repeats=[one] * (candidate - 1)
    )
    assert decision.verdict is Verdict.INVALID and decision.reasons[0].code is ReasonCode.NO_DATA
    assert f"{baseline} times, the candidate {candidate} times" in decision.reasons[0].text


def test_further_replays_of_a_greedy_candidate_are_invalid() -> None:
    turns = make_turns(400)
    one = make_outcomes(turns)
    assert decide(turns, one, one, make_policy(), candidate_repeats=[one]).verdict is Verdict.INVALID


@pytest.mark.parametrize("broken", ["missing", "unscorable", "not applicable"])
def test_a_hole_in_any_sample_is_invalid(broken: str) -> None:
    turns = make_turns(400)
    one = make_outcomes(turns)
    holes = {
        "missing": one[1:],
        "unscorable": [Outcome(turns[0].id, "m", Status.UNSCORABLE, "-"), *one[1:]],
        "not applicable": [Outcome(turns[0].id, "m", Status.NOT_APPLICABLE, "-"), *one[1:]],
    }
    decision = decide(turns, one, one, policy(2), repeats=[one], candidate_repeats=[holes[broken]])
    assert decision.verdict is Verdict.INVALID
    assert "candidate repeat 1" in decision.reasons[0].text


def test_samples_need_a_temperature_and_no_looks() -> None:
    with pytest.raises(ValueError, match="temperature above 0"):
        make_policy(METRICS, sampling={"samples": 2})
    with pytest.raises(ValueError, match=r"looks need sampling\.samples"):
        make_policy(METRICS, sampling={"temperature": 1.0, "samples": 2}, looks=[0.5])


@pytest.mark.parametrize(("loss", "most"), [(0.03, {Verdict.ACCEPT: 0.05}), (0.0, {Verdict.REJECT: 0.05})])
def test_error_rates_of_sampled_turns(loss: float, most: dict[Verdict, float]) -> None:
    # Turns differ in difficulty; the candidate loses a tenth of what the baseline can, in a part of the scenarios.
    runs, turns, rng = 150, make_turns(300, per_scenario=2), np.random.default_rng(11)
    shares = dict.fromkeys(Verdict, 0.0)
    for _ in range(runs):
        rate = rng.beta(9, 1, size=300)  # 0.9 on average
        hit = np.repeat(rng.random(150) < 0.3, 2)
        worse = rate * (1 - hit * loss / 0.3 / 0.9)
        before, after = (rng.random((300, 4)) < side[:, None] for side in (rate, worse))
        shares[decided(turns, before, after).metrics[0].verdict] += 1 / runs
    for verdict, rate in most.items():
        assert shares[verdict] <= rate + 3 * (0.05 * 0.95 / runs) ** 0.5
