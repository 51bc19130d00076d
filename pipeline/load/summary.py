"""What a sweep shows: curves, what each resource came to in every pair, and a number of sequences to allow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from pipeline.load.settings import LoadSettings
from pipeline.load.sweep import SIDES
from pipeline.statistics.facts import Resource

Run = Mapping[str, Any]
CURVE = (
    *("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p95_ms"),
    *("itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "e2el_p50_ms", "e2el_p95_ms", "e2el_p99_ms"),
    *("request_throughput", "output_throughput", "goodput"),
)
NOT_REPRESENTATIVE = "measured on a machine whose speed is not representative"


def curves(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """By side, phase and level: the median of each figure over the repeats, its least and its most."""
    points = []
    for side in SIDES:
        for phase, users in sorted({(run["phase"], run["users"]) for run in runs}):
            some = _some(runs, side, phase, users)
            figures = {name: [run[name] for run in some] for name in CURVE}
            points.append(
                {
                    "side": side,
                    "phase": phase,
                    "users": users,
                    "keeps_slo": all(run["keeps_slo"] for run in some),
                    **{name: median(values) for name, values in figures.items()},
                    "spread": {name: [min(values), max(values)] for name, values in figures.items()},
                    "ttft_p95_ms_by_length": {
                        length: median(run["ttft_p95_ms_by_length"][length] for run in some)
                        for length in sorted(set.intersection(*(set(run["ttft_p95_ms_by_length"]) for run in some)))
                    },
                    "server": {name: _most(run["server"][name] for run in some) for name in some[0]["server"]},
                }
            )
    return points


def most_users(runs: Sequence[Run], side: str) -> int | None:
    """The largest level up to which a side keeps the service level in every repeat; None: not even the first."""
    kept = None
    for users in sorted({run["users"] for run in runs}):
        if not all(run["keeps_slo"] for run in _some(runs, side, "cold", users)):
            break
        kept = users
    return kept


def suggested_max_num_seqs(runs: Sequence[Run], side: str) -> int | None:
    """The most sequences that ran at once while a side kept the service level; None: it never did, or nobody saw.

    Not the number of users: some of them think, and what the server queues is in no batch.
    """
    users = most_users(runs, side)
    if users is None:
        return None
    seen = [run for run in _some(runs, side, "cold", users) if run["server"]["most_running"]]
    most = (min(int(r["in_flight"]), int(r["max_num_seqs"]), int(r["server"]["most_running"])) for r in seen)
    return max(most, default=None)


def reference_users(runs: Sequence[Run]) -> int:
    """The load at which latencies are compared: the most that the baseline bears, else the lowest level."""
    return most_users(runs, "baseline") or min(run["users"] for run in runs)


def resources(runs: Sequence[Run], representative: bool) -> tuple[Resource, ...]:
    """Throughput within the service level (the best level of each repeat), and p95 latencies at the reference load."""
    users = reference_users(runs)
    repeats = sorted({run["repeat"] for run in runs})

    def best(side: str) -> tuple[float, ...]:
        return tuple(max(run["goodput"] for run in _cold(runs, side) if run["repeat"] == r) for r in repeats)

    def at_reference(side: str, name: str) -> tuple[float, ...]:
        return tuple(run[name] for run in sorted(_some(runs, side, "cold", users), key=lambda run: run["repeat"]))

    def made(name: str, figures: tuple[tuple[float, ...], ...], where: str) -> Resource:
        note = where if representative else f"{where}; {NOT_REPRESENTATIVE}"
        return Resource(name, figures[0], figures[1], varies=True, counted=representative, note=note)

    at = f"at {users} users"
    return (
        made("throughput_at_slo", tuple(best(side) for side in SIDES), "best level of each repeat"),
        made("ttft_p95", tuple(at_reference(side, "ttft_p95_ms") for side in SIDES), at),
        made("itl_p95", tuple(at_reference(side, "itl_p95_ms") for side in SIDES), at),
    )


def noise(runs: Sequence[Run]) -> dict[str, float]:
    """How far the baseline's repeats lie apart at the reference load: (most - least) / median, by figure."""
    some = _some(runs, "baseline", "cold", reference_users(runs))
    values = {name: [run[name] for run in some] for name in ("ttft_p95_ms", "itl_p95_ms", "output_throughput")}
    return {name: (max(v) - min(v)) / median(v) if median(v) else 0.0 for name, v in values.items()}


def load_facts(
    runs: Sequence[Run], settings: LoadSettings, workload: Mapping[str, Any], representative: bool
) -> dict[str, Any]:
    """The ``load`` part of a decision record, as JSON values."""
    return {
        "slo": {name: getattr(settings, name) for name in ("ttft_ms", "tpot_ms", "e2el_ms")},
        "sweep": settings.sweep.model_dump(mode="json"),
        "arrivals": settings.arrivals.model_dump(mode="json"),
        "requests_per_s": {str(users): settings.request_rate(users) for users in settings.sweep.users},
        "workload": dict(workload),
        "representative": representative,
        "reference_users": reference_users(runs),
        "most_users": {side: most_users(runs, side) for side in SIDES},
        "suggested_max_num_seqs": {side: suggested_max_num_seqs(runs, side) for side in SIDES},
        "baseline_spread": noise(runs),
        "curves": curves(runs),
    }


def _most(values: Iterable[float | None]) -> float | None:
    """The largest of those that are known; None where none is."""
    return max((value for value in values if value is not None), default=None)


def _cold(runs: Sequence[Run], side: str) -> list[Run]:
    return [run for run in runs if (run["side"], run["phase"]) == (side, "cold")]


def _some(runs: Sequence[Run], side: str, phase: str, users: int) -> list[Run]:
    return [run for run in runs if (run["side"], run["phase"], run["users"]) == (side, phase, users)]
