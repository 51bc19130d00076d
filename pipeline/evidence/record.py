"""The decision record: ``decision.json`` and ``flips.jsonl``.

``decision.json`` follows ``decision.schema.json`` (JSON Schema draft 2020-12) and is deterministic: keys
sorted, computed figures rounded to :data:`DIGITS` decimals, times only under ``times``. What a user or a
configuration gave (policy, recipe, engine) is written as given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
from jsonschema import Draft202012Validator

from evaluators.turn import Outcome
from pipeline.errors import VERDICT_EXIT_CODES, RecordError, Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.facts import Benefit, Decision, Flip, MetricResult, Resource, ResourceResult, SliceResult

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet

SCHEMA_VERSION = 1
DECISION_FILE = "decision.json"
FLIPS_FILE = "flips.jsonl"

DIGITS = 6
"""Decimals of a computed figure: a ten-thousandth of a percentage point. Verdicts use unrounded figures."""

TOUR = (
    "This policy is for a tour: what it accepts is not for customers. Gate your own model by configs/gate.yaml, with "
    "golden transcripts of your own (README.md)."
)
_REMEDY = "The record is damaged, was edited or comes from another version: run the decide stage again."


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """The unquantized side: where it came from, its checkpoint digest, bytes of its weight files (None: not known)."""

    source: str
    revision: str | None
    digest: str
    weight_bytes: int | None


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """The quantized side; ``recipe`` as loaded. Digest and bytes are None where none was made."""

    digest: str | None
    weight_bytes: int | None
    recipe: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordContext:
    """What the record says beside the decision itself.

    :ivar engine: ``EnginePlan.facts()``.
    :ivar inputs: further digests by name (replies, environments, ...).
    :ivar findings: what the inspection and the servers' logs showed, as JSON values, the gravest first.
    :ivar resources: what serving costs and yields on both sides beside the weight bytes.
    :ivar conditions: what the verdict is conditional on: facts that were declared instead of measured, and what
        differs between the sides by intent.
    :ivar load: what the load test measured, as JSON values; None where there was none.
    :ivar weights_declared: a side's weight bytes were stated by the user.
    :ivar drift: figures of next-token distributions (``drift.json``); None where they were not compared.
    :ivar general: suite, tasks and metrics of general ability (``general.json``); None where it was not measured.
    :ivar ship: what to do next on an ACCEPT; None: what the decision says, which is to sign off the run.
    :ivar times: times of any kind; the one part that may differ between equal runs.
    """

    baseline: BaselineFacts
    candidate: CandidateFacts
    engine: Mapping[str, Any]
    inputs: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    resources: Sequence[Resource] = ()
    conditions: Sequence[str] = ()
    load: Mapping[str, Any] | None = None
    weights_declared: bool = False
    drift: Mapping[str, Any] | None = None
    general: Mapping[str, Any] | None = None
    ship: str | None = None
    times: Mapping[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """Everything but the times, as JSON values."""
        return {
            "baseline": asdict(self.baseline),
            "candidate": {**asdict(self.candidate), "recipe": dict(self.candidate.recipe)},
            "engine": dict(self.engine),
            "inputs": dict(self.inputs),
            "findings": [dict(finding) for finding in self.findings],
            "drift": None if self.drift is None else _rounded(dict(self.drift)),
            "general": None if self.general is None else dict(self.general),
            "conditions": list(self.conditions),
            "load": None if self.load is None else dict(self.load),
        }

    @property
    def benefit(self) -> Benefit | None:
        """What both sides cost and yield; None where no candidate was made."""
        if self.candidate.digest is None:
            return None
        before, after = self.baseline.weight_bytes, self.candidate.weight_bytes
        return Benefit(before, after, tuple(self.resources), self.weights_declared)


def build_record(
    decision: Decision,
    *,
    golden: GoldenSet,
    policy: GateSettings,
    context: RecordContext,
    inputs: Mapping[str, str],
) -> dict[str, Any]:
    """The decision record as JSON values, validated.

    :param inputs: digests that the deciding stage knows itself; joined with those of ``context``.
    :raises RecordError: the result does not follow the schema (a fault of the program).
    """
    lost = sum(flip.lost for flip in decision.flips)
    critical = decision.critical
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "verdict": decision.verdict.value,
        "exit_code": decision.exit_code,
        "reasons": [
            {
                "code": reason.code.value,
                "verdict": reason.verdict.value,
                "metric": reason.metric,
                "text": reason.text,
                "figures": _rounded(dict(reason.figures or {})),
            }
            for reason in decision.reasons
        ],
        "next_step": _next_step(decision, policy, context),
        "to_change": decision.to_change,
        "look": decision.look,
        "golden_set": {
            "name": golden.name,
            "digest": golden.digest,
            "transcripts": golden.transcript_count,
            "scenarios": golden.scenarios,
            "turns": len(golden.turns),
            "slices": dict(golden.slice_counts),
        },
        "policy": policy.model_dump(mode="json"),
        "metrics": [metric_row(result) for result in decision.metrics],
        "slices": [_slice(row) for row in decision.slices],
        "critical": {
            "turns": critical.turns,
            "passed_by_baseline": critical.passed_by_baseline,
            "failed": list(critical.failed),
            "kept": list(critical.kept),
            "unstable": list(critical.unstable),
            "upper_limit": _rounded(critical.upper_limit),
            "by_chance": _rounded(critical.by_chance),
            "rejected_at": critical.rejected_at,
        },
        "scenarios_wiped_out": list(decision.scenarios_wiped_out),
        "resources": resource_rows(decision.resources),
        "accounting": asdict(decision.accounting),
        "flips": {"pass_to_fail": lost, "fail_to_pass": len(decision.flips) - lost},
        "worst_flips": [{**asdict(flip), "metrics": list(flip.metrics)} for flip in decision.worst],
        **context.identity(),
        "inputs": {**context.inputs, **inputs},
        "times": dict(context.times),
    }
    _validate(record, "decision record")
    return record


def _next_step(decision: Decision, policy: GateSettings, context: RecordContext) -> str:
    if decision.verdict is not Verdict.ACCEPT:
        return decision.next_step
    return (context.ship or decision.next_step) if policy.release else TOUR


def write_record(directory: Path, record: Mapping[str, Any], decision: Decision) -> None:
    """Write ``decision.json`` and ``flips.jsonl`` into ``directory``."""
    text = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    (directory / DECISION_FILE).write_text(text + "\n", encoding="utf-8")
    with (directory / FLIPS_FILE).open("w", encoding="utf-8") as handle:
        for flip in decision.flips:
            handle.write(json.dumps(_flip(flip), sort_keys=True, ensure_ascii=False) + "\n")


def read_decision(path: Path) -> dict[str, Any]:
    """Read a ``decision.json`` and check it: schema, exit code of its verdict, reasons that argue for it.

    :raises RecordError: unreadable, not following the schema, or contradicting itself.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path}: cannot read the decision record: {error}", _REMEDY) from error
    _validate(record, str(path))
    verdict = Verdict(record["verdict"])
    if record["exit_code"] != VERDICT_EXIT_CODES[verdict]:
        raise RecordError(f"{path}: exit_code {record['exit_code']} is not that of {verdict}", _REMEDY)
    if record["reasons"][0]["verdict"] != verdict:
        raise RecordError(f"{path}: the weightiest reason argues for another verdict than {verdict}", _REMEDY)
    metrics = [*record["metrics"], *(record.get("general") or {}).get("metrics", ())]
    if verdict is Verdict.ACCEPT and any(m["gating"] and m["verdict"] != verdict for m in metrics):
        raise RecordError(f"{path}: ACCEPT, though a gating metric is not", _REMEDY)
    return dict(record)


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of ``decision.json``."""
    return dict(json.loads(files("pipeline.evidence").joinpath("decision.schema.json").read_text(encoding="utf-8")))


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


@cache
def _fast_validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.dumps(schema()))


def _validate(record: Any, where: str) -> None:
    if _fast_validator().is_valid(record):
        return
    faults = sorted(_validator().iter_errors(record), key=lambda fault: fault.json_path)
    if faults:
        text = "; ".join(f"{fault.json_path}: {fault.message}" for fault in faults[:5])
        raise RecordError(f"{where}: does not follow the schema: {text}", _REMEDY)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} has no place in a record")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0  # + 0.0 turns -0.0 into 0.0
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _significant(value: float) -> float:
    """Tails of probability keep digits, not decimals."""
    return float(f"{value:.{DIGITS}g}")


def metric_row(result: MetricResult) -> dict[str, Any]:
    """One metric as it stands in a record."""
    limits = result.limits
    changes = result.flips_to_change or {}
    return {
        "metric": result.metric,
        "gating": result.gating,
        "verdict": result.verdict.value,
        "n": result.n,
        "clusters": result.clusters,
        "baseline_passed": _rounded(result.baseline_passed),
        "candidate_passed": _rounded(result.candidate_passed),
        "baseline_rate": _rounded(result.baseline_rate),
        "candidate_rate": _rounded(result.candidate_rate),
        "difference": _rounded(result.difference),
        "lower": _rounded(limits.lower) if limits else None,
        "upper": _rounded(limits.upper) if limits else None,
        "limits": None
        if limits is None
        else {
            "deciding": limits.deciding,
            "tango": _rounded(limits.tango),
            "exact": _rounded(limits.exact),
            "tango_clustered": _rounded(limits.tango_clustered),
            "cluster_t": _rounded(limits.cluster_t),
        },
        "design_effect": _rounded(result.design_effect),
        "mcnemar_p": _rounded(result.mcnemar_p),
        "margin": result.margin,
        "floor": result.floor,
        "b": _rounded(result.b),
        "c": _rounded(result.c),
        "unscorable_baseline": result.unscorable_baseline,
        "unscorable_candidate": result.unscorable_candidate,
        "n_to_decide": result.n_to_decide,
        "n_planned": result.n_planned,
        "flips_to_change": {verdict.value: count for verdict, count in changes.items()},
        "noise": None if result.noise is None else _rounded(asdict(result.noise)),
        "looks": [
            {**asdict(test), "p": _significant(test.p), "level": _significant(test.level)} for test in result.looks
        ],
    }


def _slice(row: SliceResult) -> dict[str, Any]:
    return {
        "slice": row.slice,
        "metric": row.metric,
        "n": row.n,
        "b": _rounded(row.b),
        "c": _rounded(row.c),
        "baseline_rate": _rounded(row.baseline_passed / row.n),
        "candidate_rate": _rounded(row.candidate_passed / row.n),
        "difference": _rounded((row.c - row.b) / row.n),
        "lower": _rounded(row.lower),
        "upper": _rounded(row.upper),
        "p_adjusted": _rounded(row.p_adjusted),
        "flagged": row.flagged,
    }


def resource_rows(results: Sequence[ResourceResult]) -> list[dict[str, Any]]:
    """The ``resources`` part of a record, as JSON values."""
    return [_resource(result) for result in results]


def _resource(result: ResourceResult) -> dict[str, Any]:
    limits = {name: getattr(result, name) for name in ("change", "lower", "upper", "gain")}
    finite = {name: _rounded(v) if v is not None and math.isfinite(v) else None for name, v in limits.items()}
    sides = {"baseline": list(result.baseline), "candidate": list(result.candidate)}
    return {**asdict(result), **sides, **finite, "state": result.state.value}


def _flip(flip: Flip) -> dict[str, Any]:
    def side(outcome: Outcome) -> dict[str, Any]:
        return {"label": outcome.label, "evidence": list(outcome.evidence)}

    return {
        "turn_id": flip.turn_id,
        "metric": flip.metric,
        "direction": "pass_to_fail" if flip.lost else "fail_to_pass",
        "critical": flip.critical,
        "scenario": flip.scenario,
        "slices": list(flip.slices),
        "baseline": side(flip.baseline),
        "candidate": side(flip.candidate),
    }
