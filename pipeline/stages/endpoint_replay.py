"""Stage ``replay`` for an endpoint that somebody else runs: its reply to every turn of a golden set.

The output has the form of :mod:`pipeline.stages.serve_replay`'s, without a server's log. Kept replies are used again
only where the endpoint is still known by the same identity, the fingerprint of its answers among it, and the same was
declared of it. Those of a replay that broke off are taken over only where the endpoint was asked after them, and was
still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of
from pipeline.errors import ReplayError, ServerError
from pipeline.golden import GoldenSet
from pipeline.progress import Progress
from pipeline.serving.endpoint import Endpoint
from pipeline.serving.records import write_records
from pipeline.serving.replay import build_request, replay, request_digest
from pipeline.settings import ReplaySettings, Sampling
from pipeline.stages.serve_replay import ENGINE, REPLIES, STAGE, lacks, repeat_sampling, repeat_settings
from pipeline.store import StageOutput, Store

PROVED = "proved.json"
"""Length and digest of the beginning of the replies after which the endpoint answered the fixed prompts as before."""


def run(
    store: Store,
    *,
    side: str,
    endpoint: Endpoint,
    declared: Mapping[str, Any],
    golden: GoldenSet,
    sampling: Sampling,
    replay_settings: ReplaySettings,
    repeats: int,
    progress: Progress,
    label: str,
) -> tuple[StageOutput, ...]:
    """Replay ``golden`` through ``endpoint``, and ``repeats`` times more in other orders, or reuse the kept replies.

    :param side: ``baseline`` or ``candidate``: neither is ever given the other's replies.
    :param declared: what was said of it; said otherwise, it is another deployment, which is asked anew.
    :raises ServerError: the endpoint no longer answers, or no longer as it did when its fingerprint was taken.
    :raises ReplayError: too many turns got no answer.
    """

    def replayed(repeat: int) -> StageOutput:
        drawn, settings = repeat_sampling(sampling, repeat), repeat_settings(replay_settings, repeat)
        inputs = {
            "side": side,
            "endpoint": endpoint.identity(),
            "declared": dict(declared),
            "requests": digest_of({t.id: request_digest(build_request(t, drawn)) for t in golden.turns}),
            "sampling": drawn.model_dump(),
            "concurrency": settings.concurrency,
            "repeat": repeat,
        }
        name = f"{label} {repeat + 1}" if repeat else label
        build = partial(_replay, endpoint, golden, drawn, settings, repeat, progress, name)
        return store.make(STAGE, inputs, build, resumable=True, unfinished=lacks)

    return tuple(replayed(repeat) for repeat in range(repeats + 1))


def _replay(
    endpoint: Endpoint,
    golden: GoldenSet,
    sampling: Sampling,
    settings: ReplaySettings,
    repeat: int,
    progress: Progress,
    label: str,
    directory: Path,
) -> None:
    replies = directory / REPLIES
    _take_over(directory)
    try:
        records = replay(
            url=endpoint.url,
            turns=golden.turns,
            sampling=sampling,
            settings=settings,
            path=replies,
            order_seed=repeat,
            progress=progress,
            label=label,
            adapt=endpoint.adapt,
            headers=endpoint.headers,
            examine=endpoint.demand_named,
        )
    except BaseException as ending:
        try:
            endpoint.demand_unchanged(patient=isinstance(ending, Exception))  # who interrupts wants to be gone
            _vouch(directory)
        except ServerError as error:
            progress.say(label, f"the replies so far are not taken over: {error.message}")
        raise
    endpoint.demand_unchanged()
    if len(records) != len(golden.turns):
        raise ReplayError(f"{len(records)} records for {len(golden.turns)} turns")
    write_records(replies, records.values())
    _vouch(directory)
    told = {"endpoint": endpoint.identity()}
    (directory / ENGINE).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _take_over(directory: Path) -> None:
    """Leave of the replies so far those that are vouched for: of the others it is not known which model gave them."""
    replies, proved = directory / REPLIES, directory / PROVED
    try:
        mark = json.loads(proved.read_text(encoding="utf-8"))
        head = replies.read_bytes()[: mark["bytes"]]
        known = hashlib.sha256(head).hexdigest() == mark["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        known = False
    if known:
        replies.write_bytes(head)
    else:
        for file in (replies, proved):
            file.unlink(missing_ok=True)


def _vouch(directory: Path) -> None:
    """Say of all replies so far that the endpoint was the same after them."""
    said = (directory / REPLIES).read_bytes() if (directory / REPLIES).exists() else b""
    mark = {"bytes": len(said), "sha256": hashlib.sha256(said).hexdigest()}
    draft = directory / f".{PROVED}"
    draft.write_text(json.dumps(mark) + "\n", encoding="utf-8")
    draft.replace(directory / PROVED)
