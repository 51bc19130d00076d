"""Reply-level faults through the real stages: records are kept, read, compared, scored and decided as in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.digests import digest_of
from pipeline.errors import GateError
from pipeline.evidence.record import BaselineFacts, CandidateFacts, RecordContext, read_decision
from pipeline.progress import Silent
from pipeline.selftest.case import ENGINE, Case, Records
from pipeline.selftest.catalogue import Fault, Result, decided, raised
from pipeline.serving.records import write_records
from pipeline.stages import decide, evaluate, serve_replay
from pipeline.stages.comparability import Conditions, comparable
from pipeline.store import StageOutput, Store


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
    """The decision record of a case, through the stages evaluate and decide."""
    replays = {
        "baseline": keep(store, case.baseline, ENGINE),
        "repeat": keep(store, case.repeat, ENGINE),
        "candidate": keep(store, case.candidate, case.engine),
    }
    outcomes = {
        side: evaluate.run(store, case.golden, kept.path, kept.key, side, Silent()).path / evaluate.OUTCOMES
        for side, kept in replays.items()
    }
    baseline, *others = (Conditions.of(kept.path) for kept in replays.values())
    output = decide.run(
        store,
        golden=case.golden,
        baseline_outcomes_path=outcomes["baseline"],
        candidate_outcomes_path=outcomes["candidate"],
        policy=case.policy,
        context=_context(case),
        repeat_outcomes_paths=[outcomes["repeat"]] * case.policy.noise.repeats,
        findings=comparable(baseline, dict(zip(("repeat", "candidate"), others, strict=True))),
    )
    return output.path / "decision.json"


def keep(store: Store, records: Records, engine: Mapping[str, Any]) -> StageOutput:
    """A replay as its stage keeps it; the same one is kept once."""

    def build(directory: Path) -> None:
        write_records(directory / serve_replay.REPLIES, records.values())
        (directory / serve_replay.ENGINE).write_text(json.dumps(engine), encoding="utf-8")

    lines = sorted(record.line() for record in records.values())
    return store.make(serve_replay.STAGE, {"records": digest_of(lines), "engine": digest_of(engine)}, build)


def _context(case: Case) -> RecordContext:
    before, after = case.weight_bytes
    return RecordContext(
        baseline=BaselineFacts("selftest", None, "0" * 64, before),
        candidate=CandidateFacts("1" * 64, after, {"name": "selftest"}),
        engine={
            "name": "recorded",
            "version": "1",
            "device": "none",
            "flags": [],
            "environment": {},
            "notes": ["golden replies, not an engine's"],
            "speed_representative": False,
        },
    )
