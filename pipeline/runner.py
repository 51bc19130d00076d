"""The whole job: one gate from the request to the verdict, tracked, and its record kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.bundle import gathering
from pipeline.bundle.layout import EVIDENCE_FILE
from pipeline.errors import Verdict
from pipeline.evidence.record import read_decision
from pipeline.gate import Gate
from pipeline.progress import Progress
from pipeline.reporting import RunFacts
from pipeline.request import Request
from pipeline.runs import TRACKED, KeptRun, keep, slug, write_kept_run
from pipeline.serving import variables
from pipeline.stages.traces import flipped
from pipeline.store import Store
from pipeline.tracking import Tracker


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to. ``directory`` holds copies of the decision record and the reports."""

    verdict: Verdict
    exit_code: int
    decision: dict[str, Any]
    facts: RunFacts
    directory: Path


def run(request: Request, store: Store, progress: Progress) -> RunResult:
    """Do the whole job of the gate and keep its record.

    :raises GateError: bad input or a broken stage. Nothing that raises can end in a verdict.
    """
    gate = Gate(request, store, progress)
    gate.demand_servable()
    variables.demand_one(variables.of_recipe(gate.recipe), request.combined)
    started = datetime.now(UTC)
    name = f"{started:%Y%m%d-%H%M%S}-{slug(request.model)}-{slug(gate.recipe.name)}"
    tracker = Tracker(f"quant-gate/{request.model}", name)
    gate.tracker = tracker
    try:
        with gate.engine_ahead():
            _ = gate.baseline  # a model that does not exist is answered at once, and leaves no run
            tracker.start({"model": request.model, "recipe": gate.recipe.name, "command": request.command})
            tracker.golden_set(gate.golden, request.golden)
            gate.measure()
        decision_dir, report_dir = gate.decision.path, gate.report.path
        decision = read_decision(decision_dir / "decision.json")
        candidate = None if gate.settled else str(gate.candidate.path)
        kept = KeptRun(request.model, gate.recipe.name, request.command, candidate, tracker.experiment, tracker.run_id)
        directory = keep(store, name, decision_dir, report_dir, gathering.run(gate).path, run=kept)
        tracker.decision(
            decision,
            [directory / file for file in (*TRACKED, EVIDENCE_FILE)],
            flipped(decision_dir / "flips.jsonl", gate.golden, gate.replies_paths),
        )
    except BaseException as error:
        tracker.finish(error)
        raise
    problem = tracker.finish()
    write_kept_run(directory, replace(kept, mlflow_run=tracker.run_id))  # None where it was not recorded after all
    facts = RunFacts(request.model, request.recipe, request.command)
    facts = replace(
        facts,
        report=directory / "report.html",
        decision=directory / "decision.json",
        mlflow_run=tracker.run_id,
        notes=(f"Not recorded in MLflow: {problem}",) if problem else (),
    )
    verdict = Verdict(decision["verdict"])
    return RunResult(verdict, int(decision["exit_code"]), decision, facts, directory)
