"""What a sweep shows: pairs by repeat, the load at which latencies are compared, and how many sequences to allow."""

from __future__ import annotations

import pytest
from load_samples import SETTINGS, run, whole_sweep

from pipeline.load import summary
from pipeline.reporting.curves import load_curves, ticks
from pipeline.reporting.load import SERVER_HEAD, notes, rows, server_rows, ttft_rows
from pipeline.settings import BenefitPolicy
from pipeline.statistics.benefit import benefit_reasons, resource_results
from pipeline.statistics.facts import Benefit, ResourceState


def test_the_largest_level_that_keeps_the_service_level_in_every_repeat() -> None:
    levels = {1: True, 8: True, 16: False, 32: True}
    runs = [run("baseline", r, users, keeps_slo=kept or r == 0) for r in range(2) for users, kept in levels.items()]
    assert summary.most_users(runs, "baseline") == summary.suggested_max_num_seqs(runs, "baseline") == 8
    assert summary.reference_users(runs) == 8


def test_only_what_ran_at_once_is_suggested() -> None:
    """Of 32 users who think most are not there; of 32 who do not, a server that runs 16 queues the others."""
    thinking = [run("candidate", r, 32, in_flight=flying) for r, flying in enumerate((7, 9))]
    assert summary.suggested_max_num_seqs(thinking, "candidate") == 9
    queued = [run("candidate", r, 32, max_num_seqs=16) for r in range(2)]
    assert summary.suggested_max_num_seqs(queued, "candidate") == 16


def test_a_side_that_never_keeps_it() -> None:
    runs = [run("baseline", r, users, keeps_slo=False) for r in range(2) for users in (2, 4)]
    assert summary.suggested_max_num_seqs(runs, "baseline") is None
    assert summary.reference_users(runs) == 2


def test_resources_are_paired_by_repeat_whatever_the_order() -> None:
    runs = [
        run("candidate", 1, 4, ttft_p95_ms=22.0, goodput=6.0),
        run("baseline", 0, 4, ttft_p95_ms=10.0, goodput=3.0),
        run("candidate", 0, 4, ttft_p95_ms=11.0, goodput=5.0),
        run("baseline", 1, 4, ttft_p95_ms=20.0, goodput=4.0),
    ]
    by_name = {resource.name: resource for resource in summary.resources(runs, representative=True)}
    assert (by_name["ttft_p95"].baseline, by_name["ttft_p95"].candidate) == ((10.0, 20.0), (11.0, 22.0))
    assert (by_name["throughput_at_slo"].baseline, by_name["throughput_at_slo"].candidate) == ((3.0, 4.0), (5.0, 6.0))
    assert all(resource.counted and resource.varies for resource in by_name.values())


def test_warm_runs_and_a_cpu_do_not_decide() -> None:
    runs = whole_sweep(ttft_p95_ms=1.0)
    resources = summary.resources(runs, representative=False)
    results = resource_results(Benefit(1000, 1000, resources), BenefitPolicy(), 0.05)
    faster = next(result for result in results if result.name == "ttft_p95")
    assert faster.state is ResourceState.BETTER and not faster.counted
    assert "not representative" in faster.note
    assert benefit_reasons(results)[0].code == "NO_BENEFIT"


def test_curves_hold_medians_and_ranges_of_the_repeats() -> None:
    runs = [
        run(side, r, 1, ttft_p95_ms=value) for side in ("baseline", "candidate") for r, value in enumerate((3, 9, 4))
    ]
    point = summary.curves(runs)[0]
    assert (point["side"], point["users"], point["ttft_p95_ms"]) == ("baseline", 1, 4)
    assert point["spread"]["ttft_p95_ms"] == [3, 9]
    assert summary.noise(runs)["ttft_p95_ms"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("most", "last", "steps"),
    [(1124, 1250, 5), (13.7, 15, 6), (57, 60, 6), (0.13, 0.15, 6), (8, 8, 4), (100, 100, 4), (0, 1, 1)],
)
def test_axes_have_round_numbers(most: float, last: float, steps: int) -> None:
    found = ticks(most)
    assert found[0] == 0 and found[-1] == pytest.approx(last) and len(found) == steps + 1


def test_the_page_shows_both_sides_and_the_service_level() -> None:
    facts = summary.load_facts(whole_sweep(ttft_p95_ms=90.0), SETTINGS, {"digest": "d"}, representative=False)
    drawn = str(load_curves(facts))
    assert drawn.count("<svg") == 3 == drawn.count("</svg>")
    assert "baseline" in drawn and "candidate" in drawn and "service level 100 ms" in drawn
    assert "service level 900 ms, above" in drawn  # far above everything measured
    told = " ".join(notes(facts))
    assert (
        "baseline keeps the service level up to 4 users, the most that were tried: set max_num_seqs to 4 or more."
        in told
        and "count for no verdict" in told
    )
    half = facts | {"most_users": {"baseline": 1, "candidate": None}}
    assert notes(half)[0] == "The baseline keeps the service level up to 1 user: set max_num_seqs to 4."
    assert notes(half)[1] == "The candidate keeps the service level at no number of users."
    assert [row[:2] for row in rows(facts)] == [(s, u) for u in ("1", "4") for s in ("baseline", "candidate")]
    assert all(len(row) == len(SERVER_HEAD) for row in server_rows(facts))
    one_user = list(ttft_rows(facts))[:2]
    assert one_user == [("baseline", "1", "8", "10", "12", "10", "10"), ("candidate", "1", "8", "10", "12", "90", "90")]
