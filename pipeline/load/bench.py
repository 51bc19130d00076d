"""One run of the engine's own `vllm bench serve`, and what it found.

A run in which requests failed still writes its result file, and its figures look fast: so completed and failed requests
are read before any figure, and anything but all completed is an error.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import LoadError
from pipeline.load.settings import TIMEOUT_S, LoadSettings
from pipeline.load.workload import Request
from pipeline.processes import Group
from pipeline.serving.plan import LAUNCHER, SERVED_NAME, EnginePlan

KINDS = ("ttft", "tpot", "itl", "e2el")
PERCENTILES = (50, 95, 99)


def command(
    plan: EnginePlan,
    url: str,
    checkpoint: Path,
    dataset: Path,
    result: Path,
    settings: LoadSettings,
    users: int,
    repeat: int,
) -> list[str]:
    """The command line. Prompts are sent as text, as they are; replies are as long as the golden ones.

    The number of the repeat is the seed of the intervals between requests, which is all that is drawn here: both
    sides of a pair are asked at the same moments, and each repeat at others.

    Requests that arrive at random do so whether or not others are answered: held back at the client, where
    `bench serve` does not time them, they would make a slow server look fast.
    """
    rate = settings.request_rate(users)
    arrivals = (
        ["--max-concurrency", str(users)]
        if rate is None
        else ["--request-rate", f"{rate:g}", "--burstiness", f"{settings.arrivals.burstiness:g}"]
    )
    return [
        str(plan.python), "-u", str(LAUNCHER), "bench", "serve",
        "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions",
        "--model", SERVED_NAME, "--tokenizer", str(checkpoint),
        "--dataset-name", "custom", "--dataset-path", str(dataset), "--skip-chat-template", "--disable-shuffle",
        "--custom-output-len=-1",  # the lengths of the data set; its default is 256 for all
        "--num-prompts", str(users * settings.sweep.prompts_per_user), "--seed", str(repeat),
        *arrivals,
        "--ready-check-timeout-sec", "0",  # a first request beforehand would fill the empty prefix cache
        "--ignore-eos", "--temperature", "0", "--num-warmups", "0", "--disable-tqdm",
        "--percentile-metrics", ",".join(KINDS), "--metric-percentiles", ",".join(map(str, PERCENTILES)),
        "--goodput", f"ttft:{settings.ttft_ms:g}", f"tpot:{settings.tpot_ms:g}", f"e2el:{settings.e2el_ms:g}",
        "--save-result", "--save-detailed", "--result-dir", str(result.parent), "--result-filename", result.name,
    ]  # fmt: skip


def run(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Run it to its end.

    :raises LoadError: it failed or took longer than an hour.
    """
    with (
        log.open("wb") as output,
        Group(arguments, stdout=output, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise LoadError(f"`bench serve` took longer than {TIMEOUT_S:.0f} s", f"See {log}.") from error
    if code != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
        raise LoadError(f"`bench serve` failed (exit {code}): {' | '.join(tail)}", f"See {log}.")


def read_result(path: Path, requests: Sequence[Request], settings: LoadSettings, server_log: Path) -> dict[str, Any]:
    """Figures of one run: latencies in milliseconds, rates in requests or tokens a second.

    :param requests: what was sent, in order.
    :param server_log: where the server says why it failed.
    :raises LoadError: requests failed, are missing, or a figure is not to be read.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        completed, failed = int(told["completed"]), int(told["failed"])
        if failed or completed != len(requests):
            errors = [error for error in told.get("errors", ()) if error]
            because = f"; the first: {str(errors[0]).strip().splitlines()[-1][:300]}" if errors else ""
            raise LoadError(
                f"{failed} of {len(requests)} requests failed under load, {completed} completed{because}",
                f"See {server_log}. Lower the load in configs/slo.yaml, or give the engine more memory.",
            )
        figures = {f"{kind}_p{p}_ms": float(told[f"p{p}_{kind}_ms"]) for kind in KINDS for p in PERCENTILES} | {
            "request_throughput": float(told["request_throughput"]),
            "output_throughput": float(told["output_throughput"]),
            "goodput": float(told["request_goodput"]),
            "duration_s": float(told["duration"]),
        }
        ttfts, outputs = told["ttfts"], told["output_lens"]
        if any(len(told[name]) != len(requests) for name in ("ttfts", "output_lens", "start_times", "latencies")):
            raise ValueError("figures of single requests are missing")
        in_flight = most_in_flight(told["start_times"], told["latencies"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoadError(
            f"{path}: cannot read what `bench serve` found: {error!r}", "Run the load test again."
        ) from error
    if bad := [name for name, value in figures.items() if not math.isfinite(value) or value < 0]:
        raise LoadError(f"{path}: {', '.join(bad)} cannot be", "Run the load test again.")
    others = sum(got != request.output_tokens for got, request in zip(outputs, requests, strict=True))
    if others:
        raise LoadError(
            f"{others} of {len(requests)} replies under load are not as long as asked for",
            "Both sides must generate the same number of tokens; does the engine follow --ignore-eos?",
        )
    lengths = {request.length for request in requests}
    by_length = {
        length: float(
            np.percentile([t for t, request in zip(ttfts, requests, strict=True) if request.length == length], 95)
            * 1000
        )
        for length in sorted(lengths)
    }
    kept = all(figures[f"{kind}_p95_ms"] <= getattr(settings, f"{kind}_ms") for kind in ("ttft", "tpot", "e2el"))
    return {
        **figures,
        "ttft_p95_ms_by_length": by_length,
        "requests": completed,
        "in_flight": in_flight,
        "keeps_slo": kept,
    }


def most_in_flight(starts: Sequence[float], latencies: Sequence[float]) -> int:
    """The most requests that were under way at one time, seconds."""
    steps = [(start, 1) for start in starts]
    steps += [(start + latency, -1) for start, latency in zip(starts, latencies, strict=True)]
    return max(accumulate(step for _, step in sorted(steps)))
