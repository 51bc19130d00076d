"""Checkpoint-level faults: edits of a real candidate, inspected, and served where the inspection finds nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pipeline.errors import GateError, StageError, Verdict
from pipeline.evidence.record import DECISION_FILE, read_decision
from pipeline.gate import Gate
from pipeline.inspection import Finding
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.request import Request
from pipeline.selftest.catalogue import Fault, Result, Sound, decided, raised
from pipeline.selftest.copies import Copy
from pipeline.selftest.reply_level import judge, sound_context
from pipeline.stages import inspect, serve_replay
from pipeline.store import Store

MODEL, RECIPE = "demo", "fp8-dynamic"
"""What a candidate is made of and by, where a fault's module names no other ``SOURCE`` or ``RECIPE``."""
STAGE = "selftest"


def run_faults(store: Store, faults: Sequence[Fault], progress: Progress) -> list[Sound | Result]:
    """Spoil and judge a copy of a candidate for every fault.

    Candidates that are not spoilt must pass the inspection, and the baseline must be accepted in its own place.
    """

    @cache
    def gate(model: str, recipe: str) -> Gate:
        return _gate(Request(model, recipe), store, progress)

    recipes = dict.fromkeys([RECIPE, *(_recipe(fault) for fault in faults)])
    found: list[Sound | Result] = [_inspected_sound(gate(MODEL, recipe)) for recipe in recipes]
    found.append(_served_again(gate(MODEL, RECIPE)))
    for number, fault in enumerate(faults):
        progress.advance(STAGE, number, len(faults))
        right = gate(MODEL, _recipe(fault))
        source = gate(getattr(fault.module, "SOURCE", MODEL), right.request.recipe)
        if source is not right and source.baseline.digest == right.baseline.digest:
            raise StageError(
                f"{fault.name}: {source.request.model} is {MODEL}", "Restore the adapter of the demo model."
            )
        with tempfile.TemporaryDirectory(prefix="selftest-", dir=store.root) as folder:
            found.append(run_fault(right, fault, source.candidate.path, Path(folder) / "candidate"))
    progress.advance(STAGE, len(faults), len(faults))
    return found


def _gate(request: Request, store: Store, progress: Progress) -> Gate:
    """The gate of the demo model, without floors: whether its baseline is good enough is not what is tested here."""
    gate = Gate(request, store, progress)
    metrics = {name: rule.model_copy(update={"floor": 0.0}) for name, rule in gate.policy.metrics.items()}
    gate.policy = gate.policy.model_copy(update={"metrics": metrics})
    return gate


def _recipe(fault: Fault) -> str:
    return str(getattr(fault.module, "RECIPE", RECIPE))


def run_fault(gate: Gate, fault: Fault, candidate: Path, folder: Path) -> Result:
    """Spoil a copy of ``candidate`` in ``folder``, inspect it and, if that lets it pass, serve and decide."""
    copy = Copy.of(candidate, gate.baseline.path, folder)
    fault.module.edit(copy)
    try:
        if found := _findings(gate, copy.path):
            return _inspected(fault, found)
        return decided(fault, read_decision(_decision(gate, copy)))
    except GateError as error:
        return raised(fault, error)


def _findings(gate: Gate, candidate: Path) -> list[Finding]:
    """What the inspection finds that decides something, as far as it argues for the gravest verdict."""
    found = inspect.look(
        candidate,
        gate.baseline,
        golden=gate.golden,
        recipe=gate.recipe,
        template_override=None,
        progress=gate.progress,
    )
    deciding = [finding for finding in found if finding.severity.verdict is not None]
    return [finding for finding in deciding if finding.severity is deciding[0].severity]


def _inspected(fault: Fault, found: Sequence[Finding]) -> Result:
    """The result of a fault that the inspection found."""
    told = tuple(f"inspect {finding.check}: {finding.where}: {finding.text}" for finding in found)
    return Result(fault, str(found[0].severity.verdict), told)


def _decision(gate: Gate, copy: Copy) -> Path:
    """The decision record on a spoilt candidate, through the engine."""
    spoilt = _gate(gate.request, gate.store, gate.progress)
    spoilt.candidate = read_checkpoint(copy.path, "selftest", template_override=gate.baseline.template, quantized=True)
    return spoilt.decision.path / DECISION_FILE


# --- what must be accepted ---------------------------------------------------------------------


def _inspected_sound(gate: Gate) -> Sound:
    found = _findings(gate, gate.candidate.path)
    name = f"inspection of {gate.recipe.name}"
    if not found:
        return Sound(name, Verdict.ACCEPT, "nothing found")
    return Sound(name, str(found[0].severity.verdict), f"{found[0].check}: {found[0].text}")


def _served_again(gate: Gate) -> Sound:
    """The baseline in the candidate's place: a further replay of it, beside those of the noise floor."""
    baseline, *repeats, again = serve_replay.run(
        gate.store,
        checkpoint_path=gate.baseline.path,
        checkpoint_digest=gate.baseline.digest,
        golden=gate.golden,
        plan=gate.plan,
        sampling=gate.policy.sampling,
        replay_settings=gate.policy.replay,
        repeats=gate.policy.noise.repeats + 1,
        progress=gate.progress,
        label="replay baseline",
    )
    weight_bytes = gate.baseline.weight_bytes, gate.candidate.weight_bytes
    record = judge(gate.store, gate.golden, gate.policy, sound_context(weight_bytes), baseline, repeats, again)
    decision = read_decision(record)
    return Sound("baseline served again", decision["verdict"], decision["reasons"][0]["text"])
