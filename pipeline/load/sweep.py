"""The sweep: every level, baseline and candidate right after one another, again and again.

A B A B: what the machine does to one measurement (another tenant, heat, a background job) it mostly does to the next
as well, so that the ratio of a pair keeps still where the figures drift. Where both servers fit at once they are up all
the time and sides alternate level by level; else, on a GPU, each repeat starts one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.load import bench
from pipeline.load.settings import LoadSettings
from pipeline.load.workload import Workload
from pipeline.progress import Progress
from pipeline.serving.metrics import forget_prefixes, watching
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server

SIDES = ("baseline", "candidate")
PHASES = ("cold", "warm")
"""With an empty prefix cache, and again with the same prompts."""


@dataclass(frozen=True, slots=True)
class Served:
    """A checkpoint and how it is served."""

    path: Path
    digest: str
    plan: EnginePlan

    def for_load(self) -> Served:
        """Served as it ships: without the batch-invariant mode of scoring; with the switch that empties caches."""
        invariant = {"VLLM_BATCH_INVARIANT": "0"} if "VLLM_BATCH_INVARIANT" in self.plan.environment else {}
        environment = {**self.plan.environment, **invariant, "VLLM_SERVER_DEV_MODE": "1"}
        plan = replace(self.plan, environment=environment, speed_representative=self.plan.device == "cuda")
        return replace(self, plan=plan)


def sweep(
    sides: Mapping[str, Served],
    *,
    together: bool,
    settings: LoadSettings,
    workload: Workload,
    directory: Path,
    logs: Path,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Measure; one entry a run: side, repeat, users, phase, figures of the clients and of the server.

    :param together: both servers may be up at once.
    :param directory: where data sets go, and what a run that went well leaves.
    :param logs: where servers and runs write; what a failed run wrote stays here.
    :raises LoadError: a request failed.
    :raises ServerError: a server did not start, or died.
    """
    runs: list[dict[str, Any]] = []
    total = settings.sweep.repeats * len(settings.sweep.users) * len(SIDES) * len(PHASES)
    if (seconds := settings.least_seconds()) is not None:
        progress.say("load", f"with think time the {total} runs take {seconds / 60:,.0f} minutes and the start of each")

    def measure(server: Server, side: str, repeat: int, users: int) -> None:
        for phase in PHASES:
            if phase == "cold":
                forget_prefixes(server)
            name = f"{side}-{repeat}-{users}-{phase}"
            runs.append(
                {
                    "side": side,
                    "repeat": repeat,
                    "users": users,
                    "phase": phase,
                    **_run(server, settings, workload, users, repeat, logs / f"{name}.json", directory),
                }
            )
            for written in logs.glob(f"{name}.*"):
                written.rename(directory / written.name)
            progress.advance("load", len(runs), total)

    levels, repeats = settings.sweep.users, range(settings.sweep.repeats)
    if together:
        with ExitStack() as stack:
            up = {side: stack.enter_context(_server(sides[side], side, logs, progress)) for side in SIDES}
            for repeat in repeats:
                for users in levels:
                    for side in SIDES:
                        measure(up[side], side, repeat, users)
    else:
        for repeat in repeats:
            for side in SIDES:
                with _server(sides[side], side, logs, progress) as server:
                    for users in levels:
                        measure(server, side, repeat, users)
    return runs


@contextmanager
def _server(served: Served, side: str, logs: Path, progress: Progress) -> Iterator[Server]:
    with Server(served.plan, served.path.resolve(), logs / f"server-{side}.log", progress, f"load {side}") as server:
        yield server


def _run(
    server: Server,
    settings: LoadSettings,
    workload: Workload,
    users: int,
    repeat: int,
    result: Path,
    directory: Path,
) -> dict[str, Any]:
    count = users * settings.sweep.prompts_per_user
    dataset = directory / f"{result.stem}.jsonl"
    workload.write(dataset, count)
    arguments = bench.command(server.plan, server.url, server.model, dataset, result, settings, users, repeat)
    with watching(server) as watch:
        bench.run(arguments, server.plan.process_environment(), result.with_suffix(".log"))
    sent: Sequence[Any] = [workload.requests[n % len(workload.requests)] for n in range(count)]
    found, told = bench.read_result(result, sent, settings, server.log), watch.facts()
    return {**found, "max_num_seqs": server.plan.max_num_seqs, "server": told}
