"""The decision record of an inference review, as Markdown: what was decided, on what grounds, and how to undo it.

For the folder in which a team keeps its decisions: it reads without the report, and says of every line whether
it was *measured*, *declared* or *estimated*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipeline.reporting import load, words
from pipeline.reporting.drift import drift_summary
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.general import general_lines
from pipeline.reporting.markdown import code, escape, metric_table
from pipeline.reporting.record import DecisionRecord, read_record

MEASURED, DECLARED, ESTIMATED = "measured", "declared", "estimated"
UNLOADED = frozenset({"weight_bytes", "kv_tokens"})
"""Resources that are known without putting load on anything."""
Line = tuple[str, str]
"""Text that is already Markdown, and how it is known; empty where it is neither figure nor claim."""


def review_markdown(decision: Mapping[str, Any], run: RunFacts) -> str:
    """Render the record.

    :raises RecordError: the record cannot be shown.
    """
    record = read_record(decision)
    parts = [
        f"# Decision record: {escape(run.recipe)} of {escape(run.model)}",
        "",
        f"**{record.verdict.value}.** {escape(words.headline(record))}",
        "",
        *_section("Workload", _workload(record)),
        *_section("Quality gate", _gate(record)),
        *metric_table(record),
        *_section("Service objectives", _objectives(record)),
        *_section("Facts", _facts(record)),
        *_section("General ability", ((escape(line), MEASURED) for line in general_lines(record.general))),
        *_section("Drift", ((escape(line), MEASURED) for line in drift_summary(record.drift))),
        *_section("Load", _load(record)),
        *_section("Assumptions", _assumptions(record)),
        *_section("Acceptance", _acceptance(record, run)),
        *_section("Rollback", _rollback(record)),
        f"Run it again: {code(run.command)}",
    ]
    return "\n".join(parts) + "\n"


def _section(title: str, lines: Iterable[Line]) -> list[str]:
    """A heading and its lines; nothing where there are none."""
    items = [f"- {text}{f' *({known})*' if known else ''}" for text, known in lines]
    return [f"## {title}", "", *items, ""] if items else []


def _workload(record: DecisionRecord) -> list[Line]:
    golden, sampling = record.golden_set, record.policy.get("sampling") or {}
    slices = ", ".join(f"{name} {count}" for name, count in sorted(golden.slices.items()))
    lines = [
        (escape(words.tested(record)), MEASURED),
        (f"Turns by slice: {escape(slices) or 'none named'}", DECLARED),
        (f"Critical turns: {record.critical.turns}", DECLARED),
    ]
    if sampling:
        lines.append(("Sampling: " + escape(", ".join(f"{k} {v}" for k, v in sampling.items())), DECLARED))
    return lines


def _gate(record: DecisionRecord) -> list[Line]:
    return [
        (
            "Accepted is a metric whose lower limit lies above minus its margin, on every gating metric; no critical "
            f"turn that the baseline passes may fail. One-sided limits at {escape(words.confidence(record))} "
            "confidence, fixed before the run.",
            DECLARED,
        ),
        ("Rates in %, differences, limits and margins in percentage points: rates measured, limits estimated.", ""),
    ]


def _objectives(record: DecisionRecord) -> list[Line]:
    lines = [
        (f"{escape(name.replace('_', ' '))}: {escape(_terms(terms))}", DECLARED)
        for name, terms in (record.policy.get("benefit") or {}).items()
    ]
    if not record.engine.speed_representative:
        lines.append(("Speed was not representative on this machine: no statement on latency or throughput.", MEASURED))
    return lines or [("None declared.", "")]


def _terms(terms: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in terms.items()) if isinstance(terms, Mapping) else str(terms)


def _facts(record: DecisionRecord) -> list[Line]:
    baseline, candidate, engine = record.baseline, record.candidate, record.engine
    revision = f" at {escape(baseline.revision)}" if baseline.revision else ""
    lines = [
        (f"Baseline {escape(baseline.source)}{revision}, digest {code(baseline.digest)}", MEASURED),
        (f"Candidate digest {code(candidate.digest)}" if candidate.digest else "No candidate was made", MEASURED),
        *(_gains(record, UNLOADED) or [(escape(words.gain(record)), MEASURED)]),
        (f"Golden set {escape(record.golden_set.name)}, digest {code(record.golden_set.digest)}", MEASURED),
        (f"Engine {escape(f'{engine.name} {engine.version} on {engine.device}')}", MEASURED),
        (f"Engine flags, both sides: {code(' '.join(engine.flags))}", DECLARED),
        (escape(words.critical(record)), ESTIMATED if record.replayed else MEASURED),
    ]
    lines += [(escape(line), MEASURED) for line in words.noise(record)]
    lines += [(escape(words.finding(found)), MEASURED) for found in record.findings]
    return lines


def _gains(record: DecisionRecord, names: Collection[str]) -> list[Line]:
    """What the resources of these names gain or cost."""
    rows = [row for row in record.resources if row.name in names]
    known = [DECLARED if row.declared else MEASURED for row in rows]
    return list(zip(map(escape, words.gain_lines(rows)), known, strict=True))


def _load(record: DecisionRecord) -> list[Line]:
    """Both sides under load: what they bear, what is gained, and how far to trust it."""
    if record.load is None:
        return []
    loaded = {row.name for row in record.resources} - UNLOADED
    return [*((escape(line), MEASURED) for line in load.notes(record.load)), *_gains(record, loaded)]


def _assumptions(record: DecisionRecord) -> list[Line]:
    lines = [
        ("The golden transcripts are like what customers ask, slice by slice.", DECLARED),
        ("Scenarios are independent of each other; turns of one scenario need not be.", DECLARED),
        ("Production serves with the same engine version, flags, chat template and sampling.", DECLARED),
        ("The evaluators' rules stand for what customers notice.", DECLARED),
    ]
    power = (record.policy.get("power") or {}).get("flip_rate")
    if power is not None:
        lines.append((f"Planned with a flip rate of {words.percent(float(power))} %.", DECLARED))
    lines += [(escape(line), "") for line in words.caveats(record)]
    return lines


def _acceptance(record: DecisionRecord, run: RunFacts) -> list[Line]:
    known = ESTIMATED if record.replayed else ""
    lines = [(f"Verdict {record.verdict.value}, exit code {record.exit_code}", known)]
    lines += [(escape(reason.text), known) for reason in record.reasons]
    lines += [(f"Risk: {escape(line)}", known) for line in words.risk(record)]
    lines += [(f"Waiver, which is no ACCEPT: {escape(line)}", DECLARED) for line in run.waivers]
    lines += [
        (f"What would change it: {escape(record.to_change)}", known),
        (f"Next step: {escape(words.next_step(record, run))}", ""),
    ]
    return lines


def _rollback(record: DecisionRecord) -> list[Line]:
    baseline = record.baseline
    return [
        (escape(words.rollback(record)), ""),
        (f"Baseline to return to: {escape(baseline.source)}, digest {code(baseline.digest)}", MEASURED),
    ]
