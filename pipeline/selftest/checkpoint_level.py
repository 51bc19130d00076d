"""Checkpoint-level faults: edits of a real candidate, inspected, and served where the inspection finds nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pipeline.errors import GateError, Verdict
from pipeline.evidence.record import read_decision
from pipeline.gate import Gate, Request
from pipeline.inspection import Finding, Severity, inspect_artifact
from pipeline.inspection.hardware import load_hardware
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.selftest.catalogue import Fault, Result, decided, raised
from pipeline.selftest.copies import Copy
from pipeline.selftest.report import Sound
from pipeline.store import Store

MODEL = "demo"
RECIPE = "fp8-dynamic"
"""The recipe of the candidate that a fault spoils, where its module names no other."""
STAGE = "selftest"
_VERDICTS = {Severity.FATAL: Verdict.REJECT, Severity.PARITY: Verdict.INVALID}
"""What a finding argues for; others decide nothing."""


def run_faults(store: Store, faults: Sequence[Fault], progress: Progress) -> list[Sound | Result]:
    """Make the candidates, then spoil and judge a copy for every fault; unspoilt ones must pass the inspection."""
    found: list[Sound | Result] = []

    @cache
    def gate(recipe: str) -> Gate:
        made = Gate(Request(MODEL, recipe), store, progress)
        found.append(_sound(made))
        return made

    for number, fault in enumerate(faults):
        progress.advance(STAGE, number, len(faults))
        with tempfile.TemporaryDirectory(prefix="selftest-", dir=store.root) as folder:
            found.append(run_fault(gate(getattr(fault.module, "RECIPE", RECIPE)), fault, Path(folder) / "candidate"))
    progress.advance(STAGE, len(faults), len(faults))
    return found


def run_fault(gate: Gate, fault: Fault, folder: Path) -> Result:
    """Spoil a copy of the gate's candidate in ``folder``, inspect it and, if that lets it pass, serve and decide."""
    copy = Copy.of(gate.candidate.path, gate.baseline.path, folder)
    fault.module.edit(copy)
    try:
        if found := _findings(gate, copy.path):
            return _inspected(fault, found)
        return decided(fault, read_decision(_decision(gate, copy)))
    except GateError as error:
        return raised(fault, error)


def _findings(gate: Gate, candidate: Path) -> list[Finding]:
    """What the inspection finds that decides something."""
    found = inspect_artifact(candidate, gate.baseline.path, hardware_targets=load_hardware(), turns=gate.golden.turns)
    return [finding for finding in found if finding.severity in _VERDICTS]


def _inspected(fault: Fault, found: Sequence[Finding]) -> Result:
    """The result of a fault that the inspection found: the gravest finding decides."""
    verdict = _VERDICTS[found[0].severity]
    arguing = [finding for finding in found if _VERDICTS[finding.severity] == verdict]
    checks = tuple(dict.fromkeys(f"inspect {finding.check}" for finding in arguing))
    return Result(fault, verdict, checks, f"{found[0].where}: {found[0].text}")


def _decision(gate: Gate, copy: Copy) -> Path:
    """The decision record on a spoilt candidate, through the engine."""
    spoilt = Gate(gate.request, gate.store, gate.progress)
    spoilt.candidate = read_checkpoint(copy.path, "selftest", template_override=gate.baseline.template, quantized=True)
    return spoilt.decision.path / "decision.json"


def _sound(gate: Gate) -> Sound:
    found = _findings(gate, gate.candidate.path)
    name = f"inspection of {gate.recipe.name}"
    if not found:
        return Sound(name, Verdict.ACCEPT, "nothing found")
    return Sound(name, _VERDICTS[found[0].severity], f"{found[0].check}: {found[0].text}")
