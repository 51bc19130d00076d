"""Stage load: both sides under the same load, in pairs.

Output directory: ``load.json`` (curves, suggestions, the runs themselves), the results and logs of `bench serve`, and
the servers' logs. After a failure the logs, and what the failed run found, stay outside it, below ``serving``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.digests import tree_digest
from pipeline.errors import RecordError
from pipeline.golden import GoldenSet
from pipeline.load import summary
from pipeline.load.settings import LoadSettings
from pipeline.load.sweep import Served, sweep
from pipeline.load.workload import make_workload
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.secrets import scrub_log, scrubbed
from pipeline.serving.plan import can_overlap
from pipeline.statistics.facts import Resource
from pipeline.store import StageOutput, Store

STAGE = "load"
LOAD = "load.json"


def run(
    store: Store,
    *,
    baseline: tuple[Checkpoint, Served],
    candidate: tuple[Checkpoint, Served],
    golden: GoldenSet,
    max_model_len: int,
    settings: LoadSettings,
    progress: Progress,
) -> StageOutput:
    """Measure, or reuse what was measured with the same engines, checkpoints, requests and settings.

    :raises LoadError: a request failed: figures of the others mean nothing.
    :raises ServerError: a server did not start, or died.
    """
    served = {"baseline": baseline[1].for_load(), "candidate": candidate[1].for_load()}
    device = served["baseline"].plan.device
    settings = settings.on(device)
    workload = make_workload(baseline[0], golden.turns, max_model_len)
    heavier = max(checkpoint.weight_bytes for checkpoint, _ in (baseline, candidate))
    inputs = {
        "sides": {name: {"checkpoint": side.digest, "engine": side.plan.identity()} for name, side in served.items()},
        "workload": workload.digest,
        "settings": settings.model_dump(mode="json"),
        "source": source_digest(),
    }

    def build(directory: Path) -> None:
        plans = [side.plan for side in served.values()]
        with _logs(store.root / "serving" / f"load-{directory.stem}-{os.getpid()}", directory) as logs:
            runs = sweep(
                served,
                together=can_overlap(max(plans, key=lambda plan: plan.kv_cache_gib), heavier),
                settings=settings,
                workload=workload,
                directory=directory,
                logs=logs,
                progress=progress,
            )
        facts = summary.load_facts(runs, settings, workload.facts(), device == "cuda")
        text = json.dumps({**facts, "runs": runs}, indent=1, sort_keys=True, allow_nan=False)
        (directory / LOAD).write_text(text + "\n", encoding="utf-8")

    return store.make(STAGE, inputs, build)


@contextmanager
def _logs(logs: Path, directory: Path) -> Iterator[Path]:
    """Where servers and runs write: a failure removes the output, and they say why. Nothing keeps a secret."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    try:
        yield logs
    except BaseException:
        for log in logs.glob("*.log"):
            scrub_log(log)
        raise
    for log in logs.iterdir():
        log.rename(directory / log.name)
    logs.rmdir()
    for log in directory.glob("*.log"):
        log.write_text(scrubbed(log.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")


def read_load(output: StageOutput) -> tuple[dict[str, Any], tuple[Resource, ...]]:
    """The ``load`` part of a record, and the resources.

    :raises RecordError: it cannot be read.
    """
    try:
        told = json.loads((output.path / LOAD).read_text(encoding="utf-8"))
        runs: Sequence[dict[str, Any]] = told.pop("runs")
        return told, summary.resources(runs, bool(told["representative"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{output.path / LOAD}: cannot read: {error!r}", f"Remove {output.path}; run again."
        ) from error


def source_digest() -> str:
    """Digest of the code that measures."""
    package = Path(summary.__file__).parent
    return tree_digest(package.parent, [*package.glob("*.py"), Path(__file__)])
