"""Stage ``general``: what one side answers to a suite of lm-eval tasks, asked of the server of its replay.

Output directory, for each entry of the suite::

    samples-<entry>.jsonl   one item a line: what was asked, what was answered, and whether it passed
    facts-<entry>.json      task and figure, versions of lm-eval and of the tasks, number of items, lm-eval's averages

and ``worker.log``, what lm-eval said. Resumable: entries that are there, and answers in lm-eval's cache, are not asked
again. Both sides are asked alike: the concurrency, time-out and seed of the policy, the tasks' own generation settings.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import environments
from pipeline.digests import file_digest
from pipeline.errors import QuantizeError, ReplayError
from pipeline.general.suite import Suite
from pipeline.progress import Progress
from pipeline.quantizers.worker import run_worker
from pipeline.serving.plan import SERVED_NAME, EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import GateSettings
from pipeline.store import StageOutput, Store

STAGE = "general"
WORKER = Path(__file__).resolve().parent.parent / "general" / "worker.py"
ENVIRONMENT = "lm_eval"


def inputs(
    suite: Suite, checkpoint_digest: str, plan: EnginePlan, policy: GateSettings, limit: int | None = None
) -> dict[str, Any]:
    """What the samples depend on. A limited run has an output of its own."""
    return {
        "checkpoint": checkpoint_digest,
        "engine": plan.identity(),
        "suite": {entry: task.model_dump(mode="json") for entry, task in suite.tasks.items()},
        "items": suite.digest,
        "lm_eval": environments.env_digest(ENVIRONMENT),
        "worker": file_digest(WORKER),
        "seed": policy.sampling.seed,
        "concurrency": policy.replay.concurrency,
        "limit": limit,
    }


def run(
    store: Store,
    suite: Suite,
    serve: Callable[[], Server],
    *,
    checkpoint: Path,
    checkpoint_digest: str,
    plan: EnginePlan,
    policy: GateSettings,
    max_model_len: int,
    progress: Progress,
    side: str,
    limit: int | None = None,
) -> StageOutput:
    """Ask the server for every item of the suite, or reuse what is kept.

    :param serve: the way to the running server, see :data:`pipeline.stages.serve_replay.Probe`.
    :param checkpoint: its directory, for the tokenizer.
    :param max_model_len: tokens of prompt and reply together.
    :param side: how progress names it, e.g. ``baseline``.
    :param limit: ask so many items of each task only, to try a suite; such an output decides nothing.
    :raises ServerError: the engine died.
    :raises ReplayError: lm-eval failed; the end of its log is in the message.
    :raises EnvironmentMissing: lm-eval's environment could not be built.
    """

    def build(directory: Path) -> None:
        python = environments.provide(ENVIRONMENT, progress)
        server = serve()
        job = {
            "url": server.url,
            "model": SERVED_NAME,
            "tokenizer": str(checkpoint.resolve() / "tokenizer.json"),
            "max_length": max_model_len,
            "concurrency": policy.replay.concurrency,
            "timeout_s": policy.replay.timeout_s,
            "attempts": policy.replay.attempts,
            "seed": policy.sampling.seed,
            "folder": str(suite.folder) if suite.folder else None,
            "offline": suite.folder is not None or os.environ.get("HF_HUB_OFFLINE") == "1",
            "tasks": {entry: task.model_dump(mode="json", exclude={"items"}) for entry, task in suite.tasks.items()},
            "limit": limit,
            "output": str(directory.resolve()),
        }
        label = f"{STAGE} {side}"
        try:
            run_worker(str(WORKER), job, python=python, folder=directory, stage=label, progress=progress)
        except QuantizeError as error:
            server.check()  # a dead engine is the better reason
            raise ReplayError(f"{label}: {error.message}", error.remedy) from error
        for path in [*directory.glob("cache-*"), directory / "job.json"]:
            path.unlink()
        shutil.rmtree(directory / "datasets", ignore_errors=True)

    return store.make(STAGE, inputs(suite, checkpoint_digest, plan, policy, limit), build, resumable=True)
