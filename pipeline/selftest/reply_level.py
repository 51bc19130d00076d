"""Reply-level faults through the real stages: records are kept, read, compared, scored and decided as in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of
from pipeline.errors import GateError
from pipeline.evidence.record import DECISION_FILE, BaselineFacts, CandidateFacts, RecordContext, read_decision
from pipeline.golden import GoldenSet
from pipeline.progress import Silent
from pipeline.selftest.case import ENGINE, Case, Records
from pipeline.selftest.catalogue import Fault, Result, decided, raised
from pipeline.serving.records import write_records
from pipeline.settings import GateSettings
from pipeline.stages import decide, evaluate, serve_replay
from pipeline.stages.comparability import Conditions, comparable
from pipeline.store import StageOutput, Store

STAGE = "selftest"


def run_fault(store: Store, fault: Fault, sound: Case) -> Result:
    """Inject ``fault`` into a sound case and let the gate decide.

    A module with ``tamper`` also spoils the candidate's kept replay, which the next run finds.
    """
    tamper = getattr(fault.module, "tamper", None)
    try:
        case = fault.module.inject(sound)
        if tamper is not None:
            tamper(keep(store, case.candidate, case.engine).path)
        return decided(fault, read_decision(decision_of(store, case)))
    except GateError as error:
        return raised(fault, error)


def decision_of(store: Store, case: Case) -> Path:
    """The decision record of a case."""
    repeats = [keep(store, case.repeat, ENGINE)] * case.policy.noise.repeats
    baseline, candidate = keep(store, case.baseline, ENGINE), keep(store, case.candidate, case.engine)
    context = sound_context(case.weight_bytes)
    return judge(store, case.golden, case.policy, context, baseline, repeats, candidate)


def judge(
    store: Store,
    golden: GoldenSet,
    policy: GateSettings,
    context: RecordContext,
    baseline: StageOutput,
    repeats: Sequence[StageOutput],
    candidate: StageOutput,
) -> Path:
    """The decision record on kept replays, through the stages evaluate and decide."""

    def outcomes(replay: StageOutput) -> Path:
        return evaluate.run(store, golden, replay.path, STAGE, Silent()).path / evaluate.OUTCOMES

    others = {f"repeat {number}": replay for number, replay in enumerate(repeats, 1)} | {"candidate": candidate}
    conditions = {side: Conditions.of(replay.path) for side, replay in others.items()}
    output = decide.run(
        store,
        golden=golden,
        baseline_outcomes_path=outcomes(baseline),
        candidate_outcomes_path=outcomes(candidate),
        policy=policy,
        context=context,
        repeat_outcomes_paths=[outcomes(replay) for replay in repeats],
        findings=comparable(Conditions.of(baseline.path), conditions),
    )
    return output.path / DECISION_FILE


def keep(store: Store, records: Records, engine: Mapping[str, Any]) -> StageOutput:
    """A replay as its stage keeps it; the same one is kept once."""

    def build(directory: Path) -> None:
        write_records(directory / serve_replay.REPLIES, records.values())
        (directory / serve_replay.ENGINE).write_text(json.dumps(engine), encoding="utf-8")

    lines = sorted(record.line() for record in records.values())
    return store.make(serve_replay.STAGE, {"records": digest_of(lines), "engine": digest_of(engine)}, build)


def sound_context(weight_bytes: tuple[int, int]) -> RecordContext:
    """What a record says beside the decision; nothing of it but the weight bytes decides anything."""
    before, after = weight_bytes
    return RecordContext(
        baseline=BaselineFacts(STAGE, None, "0" * 64, before),
        candidate=CandidateFacts("1" * 64, after, {"name": STAGE}),
        engine={
            "name": STAGE,
            "version": "1",
            "device": "none",
            "flags": [],
            "environment": {},
            "notes": [],
            "speed_representative": False,
        },
    )
