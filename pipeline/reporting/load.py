"""The load test in words and tables, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

HEAD = ("side", "users", "TTFT p95", "ITL p95", "reply p95", "req/s", "tok/s", "good/s", "SLO")
_FIGURES = ("ttft_p95_ms", "itl_p95_ms", "e2el_p95_ms", "request_throughput", "output_throughput", "goodput")
WIDE_HEAD = (
    *("side", "users", "TTFT p50", "p95", "p99", "ITL p50", "p95", "p99", "reply p50", "p95", "p99"),
    *("req/s", "tok/s", "good/s", "SLO"),
)
"""The same where there is room for it."""
_WIDE_FIGURES = (
    *("ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms"),
    *("e2el_p50_ms", "e2el_p95_ms", "e2el_p99_ms", "request_throughput", "output_throughput", "goodput"),
)
SERVER_HEAD = ("side", "users", "waiting", "running", "KV use %", "queue s", "preemptions", "prefix hits %")
LENGTHS = ("short", "medium", "long")
TTFT_HEAD = ("side", "users", *LENGTHS, "all", "all, warm")


def rows(load: Mapping[str, Any], phase: str = "cold", *, wide: bool = False) -> Iterator[tuple[str, ...]]:
    """The client's figures of every level, as text under :data:`HEAD` or :data:`WIDE_HEAD`.

    :param phase: ``cold``, with an empty prefix cache at the start, or ``warm``.
    """
    for point in _of(load, phase):
        figures = (_figure(point[name]) for name in (_WIDE_FIGURES if wide else _FIGURES))
        yield (point["side"], str(point["users"]), *figures, "kept" if point["keeps_slo"] else "not kept")


def _figure(value: float) -> str:
    """Three digits at least, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def server_rows(load: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """What the servers told of every level, as text under :data:`SERVER_HEAD`."""
    for point in _of(load, "cold"):
        told = point["server"]
        yield (
            point["side"],
            str(point["users"]),
            _seen(told["most_waiting"], ".0f"),
            _seen(told["most_running"], ".0f"),
            _seen(told["most_kv_cache_use"], ".1f", 100),
            f"{told['mean_queue_s']:.3f}",
            f"{told['preemptions']:.0f}",
            f"{100 * told['prefix_cache_hit_rate']:.0f}",
        )


def _seen(value: float | None, form: str, factor: int = 1) -> str:
    """What was polled while load was on; a dash where no poll was answered."""
    return "-" if value is None else format(factor * value, form)


def ttft_rows(load: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """TTFT at p95 by the length of prompts and, for all, with a warm prefix cache, as text under :data:`TTFT_HEAD`."""
    warm = {(point["side"], point["users"]): point["ttft_p95_ms"] for point in _of(load, "warm")}
    for point in _of(load, "cold"):
        by_length = point["ttft_p95_ms_by_length"]
        lengths = (_figure(by_length[name]) if name in by_length else "-" for name in LENGTHS)
        at = point["side"], point["users"]
        yield (at[0], str(at[1]), *lengths, _figure(point["ttft_p95_ms"]), _figure(warm[at]))


def tables(
    load: Mapping[str, Any], *, wide: bool = False
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Every table with its title and its head.

    :param wide: with more percentiles than a terminal has room for.
    """
    head = WIDE_HEAD if wide else HEAD
    yield "Under load, prefix cache empty at the start (ms)", head, list(rows(load, wide=wide))
    yield "Again with the same prompts, prefix cache warm (ms)", head, list(rows(load, "warm", wide=wide))
    yield "TTFT p95 by the length of the prompt (ms)", TTFT_HEAD, list(ttft_rows(load))
    yield "The servers", SERVER_HEAD, list(server_rows(load))


def notes(load: Mapping[str, Any]) -> list[str]:
    """What must be known beside the tables."""
    lines = [*_arrivals(load), *_repeated(load)]
    lines += [_level(load, side, users) for side, users in load["most_users"].items()]
    lines.append(f"Latencies are compared at {_users(load['reference_users'])}.")
    lines += _requests(load)
    spread = load["baseline_spread"]
    lines.append(
        f"Noise, most less least of the baseline's {load['sweep']['repeats']} repeats there: TTFT p95 "
        f"{100 * spread['ttft_p95_ms']:.0f} %, ITL p95 {100 * spread['itl_p95_ms']:.0f} %, tokens a second "
        f"{100 * spread['output_throughput']:.0f} %."
    )
    if not load["representative"]:
        lines.append("Measured on a CPU: these speeds say nothing of a GPU, and count for no verdict.")
    return lines


def _requests(load: Mapping[str, Any]) -> list[str]:
    """How many requests a figure rests on; a record from before it was kept says nothing."""
    sweep = load["sweep"]
    if (each := sweep.get("prompts_per_user")) is None:
        return []
    sent = ", ".join(f"{users * each} at {_users(users)}" for users in sweep["users"])
    return [
        f"Requests of a run: {sent}. Tables show medians of {sweep['repeats']} repeats; what is gained is reckoned "
        "with their geometric means."
    ]


def _arrivals(load: Mapping[str, Any]) -> list[str]:
    """When requests came; a record from before it was kept says nothing."""
    if (rates := load.get("requests_per_s")) is None:
        return []
    think, burstiness = load["arrivals"]["think_time_s"], load["arrivals"]["burstiness"]
    if think is None:
        return ["Each user asked again as soon as the reply was there."]
    told = ", ".join(f"{_figure(rate)} at {_users(int(users))}" for users, rate in rates.items())
    return [
        f"Requests came at random, whether or not others were answered: users think for {think:g} s (burstiness "
        f"{burstiness:g}) and wait {load['slo']['e2el_ms'] / 1000:g} s, the longest reply that the level allows. "
        f"Requests a second: {told}. Users who are answered faster than that would ask somewhat more often."
    ]


def _repeated(load: Mapping[str, Any]) -> list[str]:
    """At which levels the golden turns did not suffice, so that prompts were sent again to a cache that knew them."""
    workload = load.get("workload", {})
    distinct = sum(workload[name]["requests"] for name in LENGTHS if name in workload)
    if not distinct:
        return []
    sent = {users: users * load["sweep"]["prompts_per_user"] for users in load["sweep"]["users"]}
    told = [f"{n - distinct} of {n} at {_users(users)}" for users, n in sent.items() if n > distinct]
    if not told:
        return []
    return [
        f"There are {distinct} different requests, so some repeat a prompt of the same run, which the prefix cache may "
        f"hold whole although it was empty at the start: {', '.join(told)}."
    ]


def _level(load: Mapping[str, Any], side: str, users: int | None) -> str:
    if not users:
        return f"The {side} keeps the service level at no number of users."
    all_kept = users == max(load["sweep"]["users"])
    up_to = f"{_users(users)}, the most that were tried" if all_kept else _users(users)
    kept, suggested = f"The {side} keeps the service level up to {up_to}", load["suggested_max_num_seqs"][side]
    if suggested is None:
        return f"{kept}; how many sequences its server ran at once was not seen, so no max_num_seqs is suggested."
    return f"{kept}: set max_num_seqs to {suggested}{' or more' if all_kept else ''}."


def _users(number: int) -> str:
    return f"{number} user{'s' if number > 1 else ''}"


def load_view(load: Mapping[str, Any], gains: Sequence[str]) -> RenderableType:
    """Tables, notes, and what each resource gains."""
    shown: list[RenderableType] = []
    for title, head, lines in tables(load):
        shown += [_table(title, head, lines), Text()]
    return Group(*shown, *(Text(line) for line in (*notes(load), *gains)))


def _table(title: str, head: Sequence[str], lines: Sequence[tuple[str, ...]]) -> Table:
    table = Table(
        box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False, title=title, title_justify="left"
    )
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def _of(load: Mapping[str, Any], phase: str) -> list[Mapping[str, Any]]:
    return sorted((p for p in load["curves"] if p["phase"] == phase), key=lambda p: (p["users"], p["side"]))
