"""Stage ``replay``: serve a checkpoint and get its reply to every turn of a golden set, once or several times.

Output directory, one for each time::

    replies.jsonl   one record per turn, in the order of the golden set
    server.log      the engine's own output so far (of the last server, when the stage was resumed)
    engine.json     the plan's facts and identity, what the running engine said of itself, and its canary replies

A turn that the server refused or left unanswered is a record with an error: it belongs to the result, and
evaluators call it unscorable. The next run asks again for what was left unanswered. Faults of the set-up raise, and
the next run sends only what is missing (:mod:`pipeline.serving.replay` says which is which).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of
from pipeline.errors import ReplayError, ServerError
from pipeline.golden import GoldenSet
from pipeline.progress import Progress, Silent
from pipeline.secrets import scrub_log, scrubbed
from pipeline.serving import canary
from pipeline.serving.plan import EnginePlan
from pipeline.serving.records import write_records
from pipeline.serving.replay import build_request, lacks_answers, replay, request_digest
from pipeline.serving.server import SETTINGS, Server
from pipeline.settings import ReplaySettings, Sampling
from pipeline.store import StageOutput, Store

STAGE = "replay"
ROOM_BYTES = 64 << 20
"""Free space demanded first: on a full disk the engine cannot even write why it died."""
REPLIES, LOG, ENGINE = "replies.jsonl", "server.log", "engine.json"
Probe = Callable[[Callable[[], Server]], object]
"""Asks a running server for something else than replies, and keeps what it says. It is given the way to the server,
which is started when first asked for: a probe whose output is kept does not ask, and so starts nothing."""


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

    Concurrency belongs to it because it decides what is computed in one batch, and with that the last bits; what was
    read of the running engine, because replies of which less is known cannot be compared.
    """
    requests = {turn.id: request_digest(build_request(turn, sampling)) for turn in golden.turns}
    return {
        "checkpoint": checkpoint_digest,
        "engine": plan.identity(),
        "in_effect": list(SETTINGS),
        "requests": digest_of(requests),
        "turns": len(requests),
        "sampling": sampling.model_dump(),
        "concurrency": replay_settings.concurrency,
        "repeat": repeat,
    }


def named(side: str, number: int) -> str:
    """How the ``number``-th replay (from 0) of a side is called."""
    return f"{side} repeat {number}" if number else side


def repeat_settings(settings: ReplaySettings, repeat: int) -> ReplaySettings:
    """How the ``repeat``-th further replay is sent (0: as the first): at half the concurrency (a single one: at 2)."""
    if repeat == 0:
        return settings
    return settings.model_copy(update={"concurrency": settings.concurrency // 2 or 2})


def repeat_sampling(sampling: Sampling, repeat: int) -> Sampling:
    """The sampling of the ``repeat``-th further replay: where turns are sampled, with a seed of its own."""
    return sampling.model_copy(update={"seed": sampling.seed + repeat}) if sampling.samples > 1 else sampling


def run(
    store: Store,
    *,
    checkpoint_path: Path,
    checkpoint_digest: str,
    golden: GoldenSet,
    plan: EnginePlan,
    sampling: Sampling,
    replay_settings: ReplaySettings,
    repeats: int = 0,
    looks: Sequence[GoldenSet] = (),
    stop: Callable[[int, StageOutput], bool] | None = None,
    probes: Sequence[Probe] = (),
    ahead: Server | None = None,
    progress: Progress | None = None,
    label: str = "replay",
) -> tuple[StageOutput, ...]:
    """Serve ``checkpoint_path`` and replay ``golden`` through it, or reuse the kept replies.

    All replays use one server, which is started only when one of them is not kept yet.

    :param repeats: further replays, each an output of its own: the n-th in the n-th shuffled order, and at another
        concurrency (:func:`repeat_settings`), so that other requests share a batch; other samples of each turn also
        with another seed (:func:`repeat_sampling`).
    :param looks: growing parts of ``golden`` to replay before it, each an output of its own that goes on from the one
        before; none of them where the whole is kept.
    :param stop: asked after each look, with its number from 1 and its output; when it says yes, that output is all.
    :param probes: called one after the other when the whole set is replayed, with the same server.
    :param ahead: an engine that was started already and is held. It serves if it is one for this checkpoint by this
        plan, and is stopped in any case.
    :param label: what progress is reported as, e.g. ``replay baseline``.
    :returns: the output of the first replay, then those of the repeats.
    :raises ServerError: the engine did not start, or died.
    :raises ReplayError: too many turns got no answer.
    """
    shown = progress or Silent()
    with contextlib.ExitStack() as stack:
        if ahead is not None:
            stack.callback(drop, ahead)

        @cache
        def server() -> Server:
            wanted = engine(store, plan, checkpoint_path, shown, label)
            fits = ahead is not None and (ahead.plan, ahead.model) == (wanted.plan, wanted.model)
            return stack.enter_context(_serve(ahead if ahead and fits else wanted, shown, label))

        def declared(part: GoldenSet, repeat: int) -> dict[str, Any]:
            return inputs(
                checkpoint_digest=checkpoint_digest,
                golden=part,
                plan=plan,
                sampling=repeat_sampling(sampling, repeat),
                replay_settings=repeat_settings(replay_settings, repeat),
                repeat=repeat,
            )

        def replayed(part: GoldenSet, repeat: int = 0, before: StageOutput | None = None) -> StageOutput:
            settings, drawn = repeat_settings(replay_settings, repeat), repeat_sampling(sampling, repeat)
            name = named(label, repeat)
            build = partial(
                _replay, server, part, drawn, settings, repeat, before.path if before else None, shown, name
            )
            return store.make(
                STAGE, declared(part, repeat), build, resumable=True, unfinished=lacks, needs_bytes=ROOM_BYTES
            )

        before = None
        for number, part in enumerate([] if store.find(STAGE, declared(golden, 0)) else looks, 1):
            before = replayed(part, before=before)
            if stop is not None and stop(number, before):
                return (before,)
        outputs = (replayed(golden, before=before), *(replayed(golden, repeat) for repeat in range(1, repeats + 1)))
        for probe in probes:
            probe(server)
        return outputs


def engine(store: Store, plan: EnginePlan, checkpoint: Path, progress: Progress, label: str) -> Server:
    """An engine for ``checkpoint``, not started yet. Its log lies outside the outputs, which it outlives."""
    logs = store.root / "serving"
    logs.mkdir(parents=True, exist_ok=True)
    checkpoint = checkpoint.resolve()
    return Server(plan, checkpoint, logs / f"{digest_of(str(checkpoint))[:16]}-{os.getpid()}.log", progress, label)


def drop(server: Server) -> None:
    """Stop an engine that was never used and leave nothing of it; one that was used has seen to itself."""
    if server.held:
        server.stop()
        server.log.unlink(missing_ok=True)


@contextlib.contextmanager
def _serve(server: Server, progress: Progress, label: str) -> Iterator[Server]:
    """The server, up; after a failure its log stays. No secret does: an engine may log what it was given."""
    try:
        with server:
            progress.say(label, f"engine ready after {server.seconds_to_start:.0f} s")
            yield server
    except BaseException:
        scrub_log(server.log)
        raise
    server.log.unlink(missing_ok=True)


def lacks(directory: Path) -> bool:
    """Whether a kept replay lacks answers that the next run asks for again."""
    return lacks_answers(directory / REPLIES)


def _replay(
    serve: Callable[[], Server],
    golden: GoldenSet,
    sampling: Sampling,
    settings: ReplaySettings,
    repeat: int,
    before: Path | None,
    progress: Progress,
    label: str,
    directory: Path,
) -> None:
    """Replay once, going on from the replies in ``before``, and keep replies, engine facts and log in ``directory``."""
    server = serve()
    if before is not None and not (directory / REPLIES).exists():
        shutil.copyfile(before / REPLIES, directory / REPLIES)
    plan, facts = server.plan, server.facts()
    if facts["version"] != plan.version:
        raise ServerError(
            f"the running engine is version {facts['version']}, the plan says {plan.version}", "Run `make setup`."
        )
    answered = {} if repeat else {"canary": canary.ask(server.url)}
    records = replay(
        url=server.url,
        turns=golden.turns,
        sampling=sampling,
        settings=settings,
        path=directory / REPLIES,
        order_seed=repeat,
        check=server.check,
        progress=progress,
        label=label,
    )
    if len(records) != len(golden.turns):
        raise ReplayError(f"{len(records)} records for {len(golden.turns)} turns")
    write_records(directory / REPLIES, records.values())
    told = {**plan.facts(), "identity": plan.identity(), "running": facts, **answered}
    engine = json.dumps(told, indent=1, sort_keys=True)
    (directory / ENGINE).write_text(engine + "\n", encoding="utf-8")
    log = server.log.read_text(encoding="utf-8", errors="replace")
    (directory / LOG).write_text(scrubbed(log), encoding="utf-8")
