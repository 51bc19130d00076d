"""What a sweep shows: pairs by repeat, the load at which latencies are compared, and how many sequences to allow."""

from __future__ import annotations

from typing import Any

import pytest
from load_samples import SETTINGS, run, whole_sweep

from pipeline.load import summary
from pipeline.reporting.curves import load_curves, ticks
from pipeline.reporting.load import SERVER_HEAD, notes, rows, server_rows, tables, ttft_rows
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
    full = [running("candidate", r, 32, most) for r, most in enumerate((11.0, 12.0))]  # a cache for 12, say
    assert summary.suggested_max_num_seqs(full, "candidate") == 12


def running(side: str, repeat: int, users: int, most: float | None) -> dict[str, Any]:
    """A run whose server was seen to run so many requests at most."""
    made = run(side, repeat, users)
    return made | {"server": made["server"] | {"most_running": most}}


def test_what_no_poll_saw_is_not_known() -> None:
    unseen = [running(side, r, 4, None) for side in ("baseline", "candidate") for r in range(2)]
    facts = summary.load_facts(unseen, SETTINGS, {"digest": "d"}, representative=True)
    assert facts["suggested_max_num_seqs"] == {"baseline": None, "candidate": None}
    assert [row[3] for row in server_rows(facts)] == ["-", "-"]
    assert "was not seen, so no max_num_seqs is suggested." in " ".join(notes(facts))
    partly = [running("baseline", r, 4, most) for r, most in enumerate((None, 3.0))]
    assert summary.suggested_max_num_seqs(partly, "baseline") == 3
    assert summary.curves([*partly, *unseen[2:]])[0]["server"]["most_running"] == 3


def test_when_requests_came_is_told() -> None:
    """Users who pause make fewer requests than the same number who do not: their curves are not to be held together."""
    closed = summary.load_facts(whole_sweep(), SETTINGS, {"digest": "d"}, representative=True)
    assert notes(closed)[0] == "Each user asked again as soon as the reply was there."
    settings = SETTINGS.model_validate({**SETTINGS.model_dump(), "arrivals": {"think_time_s": 7.1, "burstiness": 0.5}})
    thoughtful = summary.load_facts(whole_sweep(), settings, {"digest": "d"}, representative=True)
    told = notes(thoughtful)[0]
    assert "think for 7.1 s (burstiness 0.5) and wait 0.9 s" in told
    assert "0.125 at 1 user, 0.5 at 4 users" in told and "somewhat more often" in told  # users / (7.1 + 0.9)


def test_prompts_that_are_sent_twice_in_a_run_are_told() -> None:
    """3 requests of a user: 3 at the first level, 12 at the second, of 9 different ones."""
    workload = {name: {"requests": 3} for name in ("short", "medium", "long")}
    told = " ".join(notes(summary.load_facts(whole_sweep(), SETTINGS, workload, representative=True)))
    assert "There are 9 different requests" in told and ": 3 of 12 at 4 users." in told
    enough = {name: {"requests": 4} for name in workload}
    assert "different" not in " ".join(notes(summary.load_facts(whole_sweep(), SETTINGS, enough, representative=True)))


def test_the_warm_cache_and_the_middle_are_shown_as_well() -> None:
    runs = [
        made | ({"itl_p99_ms": 77.0, "e2el_p50_ms": 55.0} if made["phase"] == "warm" else {"e2el_p99_ms": 99.0})
        for made in whole_sweep()
    ]
    shown = {title: (head, lines) for title, head, lines in tables(facts_of(runs), wide=True)}
    head, cold = shown["Under load, prefix cache empty at the start (ms)"]
    warm = shown["Again with the same prompts, prefix cache warm (ms)"][1]
    assert head[5:11] == ("ITL p50", "p95", "p99", "reply p50", "p95", "p99")
    assert cold[0][5:11] == ("10", "10", "10", "10", "10", "99")
    assert warm[0][5:11] == ("10", "10", "77", "55", "10", "10")
    assert all(len(line) == len(head) for _, (head, lines) in shown.items() for line in lines)
    assert all(len(line) == len(head) for _, head, lines in tables(facts_of(runs)) for line in lines)


def facts_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return summary.load_facts(runs, SETTINGS, {"digest": "d"}, representative=True)


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
        and "Requests of a run: 3 at 1 user, 12 at 4 users. Tables show medians of 3 repeats" in told
    )
    half = facts | {"most_users": {"baseline": 1, "candidate": None}}
    assert notes(half)[1] == "The baseline keeps the service level up to 1 user: set max_num_seqs to 4."
    assert notes(half)[2] == "The candidate keeps the service level at no number of users."
    assert [row[:2] for row in rows(facts)] == [(s, u) for u in ("1", "4") for s in ("baseline", "candidate")]
    assert all(len(row) == len(SERVER_HEAD) for row in server_rows(facts))
    one_user = list(ttft_rows(facts))[:2]
    assert one_user == [("baseline", "1", "8", "10", "12", "10", "10"), ("candidate", "1", "8", "10", "12", "90", "90")]
