"""Stage ``logprobs``: what one side thinks of each token of golden replies, asked of the server of its replay.

Output directory: ``logprobs.jsonl``, one record (:class:`pipeline.serving.logprobs.TurnLogprobs`) a turn, by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of, file_digest
from pipeline.golden import GoldenSet
from pipeline.inspection.artifact import read_json
from pipeline.inspection.configs import end_ids
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving import logprobs
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import ReplaySettings
from pipeline.store import StageOutput, Store

STAGE = "logprobs"
LOGPROBS = "logprobs.jsonl"


def inputs(checkpoint_digest: str, golden: GoldenSet, plan: EnginePlan, ends: Collection[int]) -> dict[str, Any]:
    """What the records depend on. Of the golden set only what is sent."""
    return {
        "checkpoint": checkpoint_digest,
        "engine": plan.identity(),
        "turns": digest_of([[turn.id, turn.messages, turn.tools, turn.gold] for turn in golden.turns]),
        "ends": sorted(ends),
        "source": file_digest(Path(logprobs.__file__)),
    }


def reply_ends(checkpoint: Checkpoint) -> set[int]:
    """Token ids that end a reply of this checkpoint."""
    folder = checkpoint.path
    return end_ids(read_json(folder / "generation_config.json"), read_json(folder / "config.json")) or set()


def run(
    store: Store,
    serve: Callable[[], Server],
    *,
    checkpoint_digest: str,
    golden: GoldenSet,
    plan: EnginePlan,
    ends: Collection[int],
    settings: ReplaySettings,
    progress: Progress,
    side: str,
) -> StageOutput:
    """Ask the server for every turn of ``golden``, or reuse what is kept.

    :param serve: the way to the running server, see :data:`pipeline.stages.serve_replay.Probe`.
    :param ends: of the baseline, on both sides: the same tokens are compared.
    :param side: how progress names it, e.g. ``baseline``.
    :raises ServerError: the engine died.
    :raises ReplayError: it does not answer.
    """

    def build(directory: Path) -> None:
        server = serve()
        path = directory / LOGPROBS
        records = logprobs.collect(
            url=server.url,
            turns=golden.turns,
            ends=ends,
            settings=settings,
            path=path,
            check=server.check,
            progress=progress,
            label=f"{STAGE} {side}",
        )
        path.write_text("".join(record.line() + "\n" for record in records.values()), encoding="utf-8")

    return store.make(STAGE, inputs(checkpoint_digest, golden, plan, ends), build, resumable=True)
