"""What `bench serve` found: figures are read only where every request was answered in full."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from load_samples import SETTINGS, requests, told
from pydantic import ValidationError

from pipeline.errors import LoadError
from pipeline.load import bench
from pipeline.load.settings import LoadSettings, load_load_settings
from pipeline.serving.plan import EnginePlan

PLAN = EnginePlan("vllm", "1", "cpu", "none", (), {}, None, Path("/venv/bin/python"), "e", 1, 1, False)


def read(path: Path, count: int = 12, **changes: Any) -> dict[str, Any]:
    path.write_text(json.dumps(told(count, **changes)), encoding="utf-8")
    return bench.read_result(path, requests(12), SETTINGS, Path("/logs/server.log"))


def test_figures(tmp_path: Path) -> None:
    found = read(tmp_path / "r.json", ttfts=[0.01 * n for n in range(12)])
    assert (found["ttft_p50_ms"], found["e2el_p99_ms"], found["goodput"]) == (15.0, 19.9, 3.5)
    # Short prompts are requests 0, 3, 6, 9: 95th percentile of 0, 30, 60, 90 ms, 0.85 of the way from 60 to 90.
    assert found["ttft_p95_ms_by_length"]["short"] == pytest.approx(85.5)
    assert found["keeps_slo"] is True
    assert found["in_flight"] == 3  # one begins every 100 ms and takes 250 ms


@pytest.mark.parametrize(
    ("starts", "latencies", "most"),
    [([5.0], [1.0], 1), ([0, 1, 2], [1, 1, 1], 1), ([0, 0, 0, 9], [3, 2, 1, 1], 3), ([0, 2, 1], [5, 1, 0.5], 2)],
)
def test_requests_in_flight(starts: list[float], latencies: list[float], most: int) -> None:
    """One that begins as another ends finds its place free."""
    assert bench.most_in_flight(starts, latencies) == most


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"failed": 1, "completed": 11, "errors": ["", "Traceback\nValueError: no room"]}, "1 of 12 .* ValueError: no"),
        ({"failed": 12, "completed": 0}, "12 of 12 requests failed"),  # prints 0.00 ms, and exits with 0
        ({"completed": 11}, "0 of 12 requests failed under load, 11 completed"),
        ({"output_lens": [5] * 11 + [4]}, "1 of 12 replies under load are not as long"),
        ({"output_lens": [256] * 12}, "12 of 12 replies under load are not as long"),  # the default of `bench serve`
        ({"ttfts": []}, "figures of single requests are missing"),
        ({"latencies": [0.1] * 11}, "figures of single requests are missing"),
        ({"p95_ttft_ms": float("nan")}, "ttft_p95_ms cannot be"),
        ({"request_goodput": None}, "cannot read"),
    ],
)
def test_errors_make_it_invalid_not_fast(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=message):
        read(tmp_path / "r.json", **changes)


def test_who_failed_is_told_where_the_server_says_why(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as raised:
        read(tmp_path / "r.json", failed=1, completed=11)
    assert "See /logs/server.log." in raised.value.remedy


def test_a_missing_result_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot read"):
        bench.read_result(tmp_path / "none.json", requests(3), SETTINGS, tmp_path / "log")


@pytest.mark.parametrize(
    ("changes", "kept"),
    [({}, True), ({"p95_ttft_ms": 101.0}, False), ({"p95_tpot_ms": 21.0}, False), ({"p99_ttft_ms": 5000.0}, True)],
)
def test_the_service_level_is_kept_at_p95(changes: dict[str, Any], kept: bool, tmp_path: Path) -> None:
    assert read(tmp_path / "r.json", **changes)["keeps_slo"] is kept


def arguments(settings: LoadSettings, repeat: int = 0) -> str:
    paths = Path("/ckpt"), Path("/d.jsonl"), Path("/r/run.json")
    return " ".join(bench.command(PLAN, "http://127.0.0.1:1", *paths, settings, 4, repeat))


def test_the_command_line() -> None:
    line = arguments(SETTINGS)
    for part in (
        "bench serve --backend openai",
        "--num-prompts 12",
        "--max-concurrency 4",
        "--ignore-eos --temperature 0",
        "--goodput ttft:100 tpot:20 e2el:900",
        "--skip-chat-template --disable-shuffle",
        "--custom-output-len=-1",
        "--ready-check-timeout-sec 0",
        "--result-dir /r --result-filename run.json",
    ):
        assert part in line
    assert "--request-rate" not in line


def test_think_time_becomes_an_arrival_rate() -> None:
    thoughtful = SETTINGS.model_validate(
        {**SETTINGS.model_dump(), "arrivals": {"think_time_s": 7.1, "burstiness": 0.5}}
    )
    assert thoughtful.request_rate(4) == pytest.approx(4 / (7.1 + 0.9))  # Little's law: users / (think + response)
    line = arguments(thoughtful)
    assert "--request-rate 0.5 --burstiness 0.5" in line
    assert "--max-concurrency" not in line  # who arrives waits at the server, where it is timed


def test_no_think_time_is_no_think_time_of_zero() -> None:
    """64 users who never pause would be 6.4 requests a second at a limit of 10 s, whatever the server could bear."""
    with pytest.raises(ValidationError, match="null means that each user asks again at once"):
        LoadSettings.model_validate({"arrivals": {"think_time_s": 0}})


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"arrivals": {"think_time_s": 1.0e308}}, "arrive over inf s, and it is stopped after 3,600"),
        ({"arrivals": {"think_time_s": 1000.0}}, "sweep.prompts_per_user 4 the requests of one run arrive over 4040 s"),
        (
            {"arrivals": {"think_time_s": 800.0}, "cpu": {"sweep": {"prompts_per_user": 5}}},
            r"cpu\.sweep\.prompts_per_user 5 the requests",
        ),
        ({"arrivals": {"burstiness": 1.0e308}}, "less than or equal to 1000"),
        ({"sweep": {"users": [100_000_000_000]}}, "less than or equal to 100000"),
        ({"sweep": {"users": [1, 100_000], "prompts_per_user": 11}}, "above 1,000,000 requests in one run"),
        ({"sweep": {"repeats": 10**9}}, "less than or equal to 1000"),
        *(({name: 1.0e308}, "less than or equal to 3600000") for name in ("ttft_ms", "tpot_ms", "e2el_ms")),
    ],
)
def test_what_cannot_end_is_refused_before_it_begins(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        LoadSettings.model_validate(settings)


def test_think_time_of_minutes() -> None:
    LoadSettings.model_validate({"arrivals": {"think_time_s": 889.0}, "cpu": {"sweep": {"prompts_per_user": 2}}})


def test_both_sides_of_a_pair_are_asked_at_the_same_moments_and_each_repeat_at_others() -> None:
    assert [f"--seed {repeat} " in arguments(SETTINGS, repeat) for repeat in (0, 3)] == [True, True]


def test_how_long_a_sweep_with_think_time_takes() -> None:
    thoughtful = SETTINGS.model_validate({**SETTINGS.model_dump(), "arrivals": {"think_time_s": 7.1}})
    # 2 levels, 3 repeats, 2 sides, cold and warm: 24 runs. At 4 users 12 requests, one every 8 / 4 s: 24 s.
    assert thoughtful.least_seconds() == pytest.approx(24 * 24)
    assert SETTINGS.least_seconds() is None


def test_a_bench_that_fails_is_told_by_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "bench.log"
    with pytest.raises(LoadError, match=r"exit 3\): no such model"):
        bench.run([sys.executable, "-c", "print('no such model'); raise SystemExit(3)"], {}, log)


def test_the_shipped_settings() -> None:
    settings = load_load_settings()
    assert settings.sweep.users == (1, 8, 16, 32, 48, 64)
    small = settings.on("cpu")
    assert small.sweep.users[-1] <= 4 and small.cpu is None and small.arrivals == settings.arrivals
    assert settings.on("cuda").sweep == settings.sweep
