"""Result files in the form of vLLM 0.32's `bench serve`, and runs of a sweep, with figures that a test chooses."""

from __future__ import annotations

from typing import Any

from pipeline.load.settings import LoadSettings
from pipeline.load.workload import CLASSES, Request

SETTINGS = LoadSettings.model_validate(
    {"ttft_ms": 100, "tpot_ms": 20, "e2el_ms": 900, "sweep": {"users": [1, 4], "prompts_per_user": 3, "repeats": 3}}
)


def requests(count: int) -> list[Request]:
    return [Request(f"t{n}", CLASSES[n % 3], f"prompt {n}", 10 + n, 5) for n in range(count)]


def told(count: int, **changes: Any) -> dict[str, Any]:
    """A result file: every request completed, 50 ms to the first token."""
    figures = {f"p{p}_{kind}_ms": 10.0 + p / 10 for kind in ("ttft", "tpot", "itl", "e2el") for p in (50, 95, 99)}
    result = {
        "completed": count,
        "failed": 0,
        "duration": 2.5,
        "request_throughput": 4.0,
        "output_throughput": 80.0,
        "request_goodput": 3.5,
        "ttfts": [0.05] * count,
        "start_times": [0.1 * n for n in range(count)],
        "latencies": [0.25] * count,
        "output_lens": [5] * count,
        "errors": [""] * count,
        **figures,
    }
    return {**result, **changes}


def run(side: str, repeat: int, users: int, phase: str = "cold", **changes: Any) -> dict[str, Any]:
    """One entry of a sweep."""
    names = [f"{kind}_p{p}_ms" for kind in ("ttft", "tpot", "itl", "e2el") for p in (50, 95, 99)]
    return {
        "side": side,
        "repeat": repeat,
        "users": users,
        "phase": phase,
        **dict.fromkeys(names, 10.0),
        "request_throughput": float(users),
        "output_throughput": 20.0 * users,
        "goodput": float(users),
        "duration_s": 1.0,
        "ttft_p95_ms_by_length": {"long": 12.0, "medium": 10.0, "short": 8.0},
        "requests": 3 * users,
        "in_flight": users,
        "max_num_seqs": 64,
        "keeps_slo": True,
        "server": {
            "most_running": float(users),
            "most_waiting": 0.0,
            "most_kv_cache_use": 0.25,
            "preemptions": 0.0,
            "prefix_cache_hit_rate": 0.5,
            "mean_queue_s": 0.01,
            "failed": 0.0,
            "rejected": 0.0,
        },
        **changes,
    }


def whole_sweep(**candidate: Any) -> list[dict[str, Any]]:
    """Both sides, three repeats, two levels, cold and warm; ``candidate`` changes that side's runs."""
    return [
        run(side, repeat, users, phase, **(candidate if side == "candidate" else {}))
        for repeat in range(3)
        for users in (1, 4)
        for side in ("baseline", "candidate")
        for phase in ("cold", "warm")
    ]
