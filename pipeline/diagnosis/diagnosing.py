"""One diagnosis from its request to its record."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.diagnosis import measure, turns
from pipeline.diagnosis.findings import Measurements
from pipeline.diagnosis.keeping import keep_diagnosis, track_diagnosis, write_reports
from pipeline.diagnosis.parts import Part, layers_of, parts_of, smoothed
from pipeline.diagnosis.proposal import as_file, as_yaml, eight_bit_scheme, propose
from pipeline.diagnosis.turns import LostTurn
from pipeline.errors import RecipeError, UsageError
from pipeline.evidence.record import DECISION_FILE, FLIPS_FILE, read_decision
from pipeline.gate import Gate
from pipeline.progress import Progress
from pipeline.quantizers.fit import fit_recipe
from pipeline.reporting.diagnosis.facts import DiagnosisRecord, Proposal, Tried
from pipeline.request import Request
from pipeline.runner import run
from pipeline.runs import slug
from pipeline.serving.records import read_replies
from pipeline.settings import Recipe
from pipeline.stages.serve_replay import REPLIES
from pipeline.store import Store
from pipeline.tracking import Tracker


@dataclass(frozen=True, slots=True)
class DiagnosisResult:
    """What a diagnosis came to. ``directory`` holds record, page, Markdown and the proposed recipe."""

    record: DiagnosisRecord
    directory: Path
    mlflow_run: str | None
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of the proposal's verdict where it was gated, else of the diagnosed run's."""
        return self.record.tried.exit_code if self.record.tried else self.record.exit_code


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to diagnose: at most so many lost turns, the share of the drift to take away, and whether to go on."""

    turns: int = 12
    restore: float = 0.75
    run: bool = False


def diagnose(request: Request, wanted: Wanted, store: Store, progress: Progress) -> DiagnosisResult:
    """Find which parts of the candidate hurt, write the recipe to try next, and gate it where that is asked for.

    :param request: as of the run to diagnose, which is made first where it is missing.
    :raises UsageError: the run lost no turn, or ended before anything was replayed.
    :raises RecipeError: a candidate that cannot be taken apart.
    :raises GateError: bad input or a broken stage.
    """
    gate = Gate(request, store, progress)
    if gate.recipe.backend != "llmcompressor":
        raise RecipeError(
            f"recipe {gate.recipe.name}: only what llm-compressor wrote can be taken apart",
            "Diagnose the recipe that replaces it (int4-awq for int4-autoawq).",
        )
    gate.measure()
    decision = read_decision(gate.decision.path / DECISION_FILE)
    lost = _lost(gate, decision)
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug(request.model)}-{slug(gate.recipe.name)}-diagnosis"
    tracker = Tracker(f"quant-gate/{request.model}", name)
    command = _command(request, wanted)
    try:
        facts = {"model": request.model, "recipe": gate.recipe.name, "command": command}
        tracker.start({**facts, "turns": wanted.turns, "restore": wanted.restore}, {"diagnosis": "true"})
        record, recipe = _record(gate, decision, lost, wanted, command, tracker)
        directory = keep_diagnosis(record, as_yaml(recipe, command) if recipe else "", store, name)
        if wanted.run and record.proposal:
            progress.say("diagnose", f"gating {record.proposal.name}")
            tried = _tried(replace(request, recipe=str(directory / record.proposal.file)), store, progress, tracker)
            record = record.model_copy(update={"tried": tried})
            write_reports(record, directory)
        track_diagnosis(record, directory, tracker)
    except BaseException as error:
        tracker.finish(error)
        raise
    problem = tracker.finish()
    notes = (f"Not recorded in MLflow: {problem}",) if problem else ()
    return DiagnosisResult(record, directory, tracker.run_id, notes)


def _lost(gate: Gate, decision: Mapping[str, Any]) -> list[LostTurn]:
    """The turns that the candidate lost."""
    if gate.early:
        raise UsageError(
            f"nothing to diagnose: the run was {decision['verdict']} before anything was replayed: "
            f"{decision['reasons'][0]['text']}",
            "Mend that first.",
        )
    gating = [metric for metric, policy in gate.policy.metrics.items() if policy.gating]
    lost = turns.read_lost(gate.decision.path / FLIPS_FILE, gating)
    if not lost:
        raise UsageError(
            f"nothing to diagnose: recipe {gate.recipe.name} lost no turn on a gating metric "
            f"(verdict {decision['verdict']})",
            "Its report says what argues against it.",
        )
    return lost


def _record(
    gate: Gate, decision: Mapping[str, Any], lost: Sequence[LostTurn], wanted: Wanted, command: str, tracker: Tracker
) -> tuple[DiagnosisRecord, Recipe | None]:
    by_id = {turn.id: turn for turn in gate.golden.turns}
    replies = read_replies(gate.replays("baseline")[0].path / REPLIES)
    chosen = turns.choose(lost, wanted.turns)
    fitted = fit_recipe(gate.recipe, gate.baseline)
    eight_bit = eight_bit_scheme(gate.recipe)
    parts = parts_of(fitted, gate.baseline, gate.candidate, eight_bit)
    with tracker.stage("diagnose") as stage:
        output, found = measure.run(
            gate.store,
            baseline=gate.baseline,
            candidate=gate.candidate,
            layers=layers_of(fitted, gate.baseline),
            parts=parts,
            turns=turns.as_lines(chosen, by_id, replies),
            eight_bit=eight_bit,
            kv=gate.recipe.kv_cache is not None,
            restore=wanted.restore,
            progress=gate.progress,
        )
        stage.output(output)
        stage.artifacts(output.path / measure.MEASUREMENTS)
    measured = Measurements(found, parts)
    recipe, reason = _proposed(gate, parts, measured, eight_bit)
    proposal = None
    if recipe is not None:
        proposal = Proposal(
            name=recipe.name,
            file=f"{recipe.name}.yaml",
            recipe=as_file(recipe),
            weight_bytes=fit_recipe(recipe, gate.baseline).predicted_bytes,
            predicted=measured.predicted,
        )
    record = DiagnosisRecord(
        model=gate.request.model,
        recipe=gate.recipe.name,
        command=command,
        verdict=decision["verdict"],
        exit_code=decision["exit_code"],
        golden_set=gate.golden.name,
        baseline_bytes=gate.baseline.weight_bytes,
        candidate_bytes=gate.candidate.weight_bytes,
        smoothed=smoothed(gate.recipe),
        lost=len(lost),
        agreement=found["agreement"],
        tokens=found["tokens"],
        device=found["device"],
        whole=measured.whole,
        goal=found["goal"],
        restore=wanted.restore,
        kv=measured.kv(),
        turns=measured.turn_facts(lost),
        slices=measured.slices(lost, by_id),
        parts=measured.part_facts(),
        curve=measured.curve(),
        proposal=proposal,
        no_proposal=reason,
    )
    return record, recipe


def _proposed(gate: Gate, parts: Sequence[Part], measured: Measurements, eight_bit: str) -> tuple[Recipe | None, str]:
    """The recipe to try next, or why there is none."""
    instead = "Take an 8-bit recipe (fp8-dynamic, int8-w8a8)." if gate.recipe.int4 else "Keep serving the baseline."
    if measured.whole.drift == 0:
        return None, "The candidate's weights cause no drift on the lost turns: look at how both sides were served."
    if not measured.enough:
        return None, f"No number of promoted parts takes enough of the drift away. {instead}"
    keeps_kv = bool(measured.found["keeps_kv"])
    recipe = propose(gate.recipe, parts, measured.promoted, eight_bit, keeps_kv=keeps_kv)
    size, limit = fit_recipe(recipe, gate.baseline).predicted_bytes, _simpler_bytes(gate, eight_bit)
    if size >= limit:
        return None, f"Enough promoted parts make {size:,} bytes, and a simpler build takes {limit:,}. {instead}"
    return recipe, ""


def _simpler_bytes(gate: Gate, eight_bit: str) -> int:
    """Bytes of the build that a proposal must be smaller than: for INT4 all at 8 bits, else the baseline."""
    if not gate.recipe.int4:
        return gate.baseline.weight_bytes
    facts = gate.recipe.model_dump(include={"name", "description", "ignore"})
    recipe = Recipe.model_validate({**facts, "method": "rtn", "scheme": eight_bit})
    return fit_recipe(recipe, gate.baseline).predicted_bytes


def _tried(request: Request, store: Store, progress: Progress, tracker: Tracker) -> Tried:
    """Gate the proposal."""
    result = run(request, store, progress)
    if result.facts.mlflow_run:
        tracker.adopt(result.facts.mlflow_run)
    return Tried(
        verdict=result.verdict,
        exit_code=result.exit_code,
        why=result.decision["reasons"][0]["text"],
        weight_bytes=result.decision["candidate"]["weight_bytes"],
        run=result.directory.name,
        mlflow_run=result.facts.mlflow_run,
    )


def _command(request: Request, wanted: Wanted) -> str:
    """The shell command that repeats the diagnosis: the options of a run are the same."""
    words, default = ["quant-gate", "diagnose", *shlex.split(request.command)[2:]], Wanted()
    if wanted.turns != default.turns:
        words += ["--turns", str(wanted.turns)]
    if wanted.restore != default.restore:
        words += ["--restore", f"{wanted.restore:g}"]
    return shlex.join([*words, "--run"] if wanted.run else words)
