"""Stage ``replay``: serve a checkpoint and get its reply to every turn of a golden set.

Output directory::

    replies.jsonl   one record per turn, in the order of the golden set
    server.log      the engine's own output (of the last server, when the stage was resumed)
    engine.json     the plan's facts and what the running engine said of itself

A turn that the server refused or left unanswered is a record with an error: it belongs to the result, and
evaluators call it unscorable. Faults of the set-up raise, and the next run sends only what is missing
(:mod:`pipeline.serving.replay` says which is which).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of
from pipeline.errors import ReplayError, ServerError
from pipeline.golden import GoldenSet
from pipeline.progress import Progress, Silent
from pipeline.serving.plan import EnginePlan
from pipeline.serving.records import write_records
from pipeline.serving.replay import build_request, replay, request_digest
from pipeline.serving.server import Server
from pipeline.settings import ReplaySettings, Sampling
from pipeline.store import StageOutput, Store

STAGE = "replay"
ROOM_BYTES = 64 << 20
"""Free space demanded first: on a full disk the engine cannot even write why it died."""
REPLIES, LOG, ENGINE = "replies.jsonl", "server.log", "engine.json"


def inputs(
    *,
    checkpoint_digest: str,
    golden: GoldenSet,
    plan: EnginePlan,
    sampling: Sampling,
    replay_settings: ReplaySettings,
    repeat: int = 0,
) -> dict[str, Any]:
    """What the replies depend on. Of the golden set only the requests: expectations may change without a replay.

    Concurrency belongs to it because it decides what is computed in one batch, and with that the last bits.
    """
    requests = {turn.id: request_digest(build_request(turn, sampling)) for turn in golden.turns}
    return {
        "checkpoint": checkpoint_digest,
        "engine": plan.identity(),
        "requests": digest_of(requests),
        "turns": len(requests),
        "sampling": sampling.model_dump(),
        "concurrency": replay_settings.concurrency,
        "repeat": repeat,
    }


def run(
    store: Store,
    *,
    checkpoint_path: Path,
    checkpoint_digest: str,
    golden: GoldenSet,
    plan: EnginePlan,
    sampling: Sampling,
    replay_settings: ReplaySettings,
    repeat: int = 0,
    progress: Progress | None = None,
    label: str = "replay",
) -> StageOutput:
    """Serve ``checkpoint_path`` and replay ``golden`` through it, or reuse the kept replies.

    :param repeat: 0 sends turns in the golden set's order; n > 0 in the n-th shuffled order (noise floor).
    :param label: what progress is reported as, e.g. ``replay baseline``.
    :raises ServerError: the engine did not start, or died.
    :raises ReplayError: too many turns got no answer.
    """
    shown = progress or Silent()

    def build(directory: Path) -> None:
        log = directory / LOG
        with Server(plan, checkpoint_path.resolve(), log, shown, label) as server:
            shown.say(label, f"engine ready after {server.seconds_to_start:.0f} s")
            facts = server.facts()
            if facts["version"] != plan.version:
                raise ServerError(
                    f"the running engine is version {facts['version']}, the plan says {plan.version}",
                    "Run `make setup`.",
                )
            records = replay(
                url=server.url,
                turns=golden.turns,
                sampling=sampling,
                settings=replay_settings,
                path=directory / REPLIES,
                order_seed=repeat,
                check=server.check,
                progress=shown,
                label=label,
            )
        if len(records) != len(golden.turns):
            raise ReplayError(f"{len(records)} records for {len(golden.turns)} turns")
        write_records(directory / REPLIES, records.values())
        engine = json.dumps({**plan.facts(), "running": facts}, indent=1, sort_keys=True)
        (directory / ENGINE).write_text(engine + "\n", encoding="utf-8")

    declared = inputs(
        checkpoint_digest=checkpoint_digest,
        golden=golden,
        plan=plan,
        sampling=sampling,
        replay_settings=replay_settings,
        repeat=repeat,
    )
    return store.make(STAGE, declared, build, resumable=True, needs_bytes=ROOM_BYTES)
