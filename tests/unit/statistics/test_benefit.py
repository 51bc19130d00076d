"""The benefit rule: gains with their limits, losses beyond their margins, and what cannot be judged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pipeline.errors import Verdict
from pipeline.settings import BenefitPolicy, GateSettings
from pipeline.statistics.benefit import benefit_reasons, change_limits, resource_results
from pipeline.statistics.facts import Benefit, ReasonCode, Resource, ResourceState

POLICY = BenefitPolicy()
QUIET = (10.0, 10.1, 9.9, 10.0)


def latency(candidate: tuple[float, ...], baseline: tuple[float, ...] = QUIET, name: str = "ttft_p95") -> Resource:
    return Resource(name, baseline, candidate, varies=True)


def judged(*resources: Resource, weights: tuple[int | None, int | None] = (1000, 600)) -> tuple[list[str], str]:
    """States by resource, and the verdict that the reasons argue for ("" for none)."""
    results = resource_results(Benefit(*weights, resources), POLICY, 0.05)
    reasons = benefit_reasons(results)
    gravity = [Verdict.INVALID, Verdict.REJECT, Verdict.INCONCLUSIVE]
    verdicts = sorted((reason.verdict for reason in reasons), key=gravity.index)
    return [f"{r.name} {r.state.value}" for r in results], verdicts[0].value if verdicts else ""


def test_limits_by_hand() -> None:
    # ln(.80, .82, .78): mean -0.223352, sd 0.025006; t(0.95, 2) = 2.919986; reach 0.042157.
    change, lower, upper = change_limits((10, 10, 10), (8, 8.2, 7.8), less_is_better=True, level=0.05)
    assert change == pytest.approx(0.20017, abs=2e-5)
    assert lower == pytest.approx(0.16573, abs=2e-5)
    assert upper == pytest.approx(0.23319, abs=2e-5)


def test_limits_are_those_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.lognormal(1, 0.2, 7), rng.lognormal(1.3, 0.2, 7)
    interval = stats.ttest_rel(np.log(after), np.log(before)).confidence_interval(0.90)  # both sides: 5 % each
    _, lower, upper = change_limits(list(before), list(after), less_is_better=False, level=0.05)
    assert (lower, upper) == pytest.approx((math.exp(interval.low) - 1, math.exp(interval.high) - 1))


def test_a_drift_that_both_sides_share_cancels() -> None:
    drift = (1.0, 2.0, 4.0, 8.0)
    _, lower, upper = change_limits(drift, [d * 0.7 for d in drift], less_is_better=True, level=0.05)
    assert lower == pytest.approx(0.3) and upper == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (((), ()), "pairs"),
        (((1.0,), (1.0, 2.0)), "pairs"),
        (((1.0,), (math.nan,)), "finite"),
        (((0.0,), (1.0,)), "pos"),
    ],
)
def test_figures_that_cannot_be_compared(pairs: tuple[tuple[float, ...], tuple[float, ...]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        change_limits(*pairs, less_is_better=True, level=0.05)


@pytest.mark.parametrize(
    ("weights", "state", "verdict"),
    [
        ((1000, 800), "better", ""),  # exactly 20 % less
        ((1000, 801), "held", "REJECT"),
        ((1000, 1050), "held", "REJECT"),  # 5 % more are borne, but nothing is gained
        ((1000, 1051), "worse", "REJECT"),
    ],
)
def test_weight_bytes_alone(weights: tuple[int, int], state: str, verdict: str) -> None:
    assert judged(weights=weights) == ([f"weight_bytes {state}"], verdict)


def test_a_gain_elsewhere_is_a_gain() -> None:
    pool = Resource("kv_tokens", (1000.0,), (1200.0,))
    assert judged(pool, weights=(1000, 1000)) == (["weight_bytes held", "kv_tokens better"], "")
    assert judged(replace(pool, candidate=(1199.0,)), weights=(1000, 1000))[1] == "REJECT"


def test_a_loss_elsewhere_outweighs_a_gain() -> None:
    pool = Resource("kv_tokens", (1000.0,), (940.0,))
    results = resource_results(Benefit(1000, 600, (pool,)), POLICY, 0.05)
    (reason,) = benefit_reasons(results)
    assert (reason.code, reason.verdict) == (ReasonCode.NO_BENEFIT, Verdict.REJECT)
    assert "kv_tokens is worse by at least 6 %; 5 % are borne" in reason.text


def test_a_gain_under_load_needs_its_limit_beyond_the_threshold() -> None:
    steady, wild = (7.0, 7.07, 6.93, 7.0), (4.0, 10.0, 5.0, 9.0)  # 30 % faster each, nearly
    assert judged(latency(steady), weights=(1000, 1000)) == (["weight_bytes held", "ttft_p95 better"], "")
    assert judged(latency(wild), weights=(1000, 1000)) == (["weight_bytes held", "ttft_p95 undecided"], "INCONCLUSIVE")


def test_a_gain_is_open_until_it_is_ruled_out() -> None:
    """30 % more, at 5 % between 21 and 40: at 5 % / 3 only 15.7 is proved, and nobody ruled out the 20 asked for."""
    mean, reach = math.log(1.3), math.log(1.3 / 1.21)
    step = (
        reach * 2 / 2.353363 / math.sqrt(4 / 3)
    )  # four pairs, half up, half down: sd of the log ratio = step * sqrt(4/3)
    more = tuple(10 * math.exp(mean + sign * step) for sign in (1, -1, 1, -1))
    throughput = Resource("throughput_at_slo", (10.0,) * 4, more, varies=True)
    others = (latency(QUIET), latency(QUIET, name="itl_p95"))
    results = resource_results(Benefit(1000, 1000, (throughput, *others)), POLICY, 0.05)
    found = next(result for result in results if result.name == "throughput_at_slo")
    assert (found.change, found.lower, found.upper) == pytest.approx((0.3, 0.21, 0.39669), abs=1e-4)
    assert found.gain == pytest.approx(
        1.3 * (1.21 / 1.3) ** (3.740 / 2.353) - 1, abs=1e-3
    )  # t(1 - 0.05 / 3, 3) = 3.740
    (reason,) = benefit_reasons(results)
    assert (reason.code, reason.verdict) == (ReasonCode.BENEFIT_UNDECIDED, Verdict.INCONCLUSIVE)
    assert "whether anything is gained by its threshold is not decided" in reason.text
    little = replace(throughput, candidate=(11.0, 11.01, 10.99, 11.0))  # 10 % more, and 20 % ruled out
    assert judged(little, *others, weights=(1000, 1000))[1] == "REJECT"
    assert judged(latency((9.0,), (10.0,)), weights=(1000, 1000))[1] == "INCONCLUSIVE"  # a single pair has no limits


def test_noise_that_could_hide_a_loss_is_inconclusive() -> None:
    assert judged(latency((8.0, 12.0, 9.0, 11.0))) == (["weight_bytes better", "ttft_p95 undecided"], "INCONCLUSIVE")
    assert judged(latency((13.0, 13.1, 12.9, 13.0))) == (["weight_bytes better", "ttft_p95 worse"], "REJECT")
    assert judged(latency((9.0,), (10.0,))) == (["weight_bytes better", "ttft_p95 undecided"], "INCONCLUSIVE")


def test_each_of_several_gains_is_tested_at_its_share_of_alpha() -> None:
    # t limits of 4 pairs with sd s of the log ratio: 2.353 * s / 2 at 5 %, 3.740 at 5 % / 3 (t table, df 3).
    candidate = tuple(q * r for q, r in zip(QUIET, (0.70, 0.76, 0.72, 0.75), strict=True))
    alone = resource_results(Benefit(1, 1, (latency(candidate),)), POLICY, 0.05)[1]
    others = (latency(QUIET, name="itl_p95"), latency(QUIET, name="throughput_at_slo"))
    among = {r.name: r for r in resource_results(Benefit(1, 1, (latency(candidate), *others)), POLICY, 0.05)}
    spread = float(np.std(np.log([0.70, 0.76, 0.72, 0.75]), ddof=1)) / 2
    mean = float(np.mean(np.log([0.70, 0.76, 0.72, 0.75])))
    assert alone.gain == pytest.approx(1 - math.exp(mean + 2.3534 * spread), abs=1e-4)
    assert among["ttft_p95"].gain == pytest.approx(1 - math.exp(mean + 3.7405 * spread), abs=1e-3)
    assert among["ttft_p95"].lower == alone.lower


def test_what_does_not_count_is_shown_and_decides_nothing() -> None:
    fast = replace(latency((5.0, 5.0, 5.0, 5.0)), counted=False, note="a CPU")
    slow = replace(latency((50.0, 50.0, 50.0, 50.0), name="itl_p95"), counted=False)
    states, verdict = judged(fast, slow)
    assert states == ["weight_bytes better", "ttft_p95 better", "itl_p95 worse"] and verdict == ""
    assert judged(fast, weights=(1000, 1000))[1] == "REJECT"


def test_nothing_within_the_service_level() -> None:
    def throughput(before: tuple[float, ...], after: tuple[float, ...]) -> tuple[list[str], str]:
        return judged(Resource("throughput_at_slo", before, after, varies=True))

    assert throughput((2.0, 2.0), (0.0, 0.0)) == (["weight_bytes better", "throughput_at_slo worse"], "REJECT")
    assert throughput((0.0, 0.0), (1.0, 1.0))[1] == "INCONCLUSIVE"  # the baseline is no yardstick
    assert throughput((2.0, 2.0), (0.0, 2.0))[1] == "INCONCLUSIVE"


@pytest.mark.parametrize(
    "resource",
    [
        latency((math.nan,) * 4),
        latency((0.0,) * 4),
        latency((9.0, 9.0)),
        Resource("kv_tokens", (), ()),
        Resource("kv_tokens", (1000.0,), (-1.0,)),
    ],
)
def test_impossible_figures_are_invalid(resource: Resource) -> None:
    assert judged(resource)[1] == "INVALID"


def test_nothing_known_is_no_accept() -> None:
    assert judged(weights=(None, 600)) == ([], "INCONCLUSIVE")


def test_only_declared_resources_count() -> None:
    policy = BenefitPolicy.model_validate({"weight_bytes": None, "kv_tokens": {"better": 0.5, "worse": 0.0}})
    results = resource_results(Benefit(1000, 100, (Resource("kv_tokens", (10.0,), (14.0,)),)), policy, 0.05)
    assert [(r.name, r.state) for r in results] == [("kv_tokens", ResourceState.HELD)]
    with pytest.raises(ValueError, match="no resource is declared"):
        BenefitPolicy.model_validate(dict.fromkeys(BenefitPolicy.model_fields))


def test_error_rate_of_a_gain() -> None:
    """A candidate that gains just less than the threshold passes for a gain in at most 5 % of load tests."""
    rng, runs, claimed = np.random.default_rng(11), 600, 0
    for _ in range(runs):
        before = rng.lognormal(0, 0.1, (3, 5))
        after = before * 0.8 * rng.lognormal(0, 0.05, (3, 5))
        names = ("ttft_p95", "itl_p95")
        resources = [latency(tuple(after[i]), tuple(before[i]), name) for i, name in enumerate(names)]
        results = resource_results(Benefit(None, None, tuple(resources)), POLICY, 0.05)
        claimed += any(result.state is ResourceState.BETTER for result in results)
    assert claimed / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_policy_with_a_bare_number_is_told_what_is_meant() -> None:
    with pytest.raises(ValueError, match=r"benefit\.weight_bytes"):
        GateSettings.model_validate({"benefit": {"weight_bytes": 0.2}, "metrics": {"m": {"margin": 0.03}}})
