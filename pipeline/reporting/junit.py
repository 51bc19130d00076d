"""The verdict as JUnit XML, for the test pages of GitLab, GitHub, Jenkins and their like.

A case for the verdict itself, so that the file is green exactly when the gate says ACCEPT, then one for each
metric, slice of a gating metric, general task, resource, critical turn and artifact check. What proves nothing (a
metric that does not gate, a slice too small to tell, a turn that the baseline fails too, a check that did not run) is
*skipped*, never passed.

There is no standard. The form is the subset that the schema of Jenkins' xUnit plug-in (``junit-10.xsd``) allows.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.errors import Verdict
from pipeline.reporting import words
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.record import DecisionRecord, Finding, Flip, MetricRow, read_record
from pipeline.visible import visible

SERVED_CHECKS = "server-"
"""What the names of checks begin with that look at the running servers, not at files."""

BENEFIT = ("NO_BENEFIT", "BENEFIT_UNDECIDED")
"""Codes of the reasons that speak of cost and gain."""

Result = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class Case:
    """One test case. ``message`` is one line; ``text`` may be longer."""

    name: str
    result: Result = "passed"
    type: str = ""
    message: str = ""
    text: str = ""


def junit_xml(
    decision: Mapping[str, Any],
    run: RunFacts,
    *,
    flips: Sequence[Flip],
    critical_turns: Sequence[str],
    checks: Mapping[str, str],
) -> str:
    """Render the file.

    :param critical_turns: ids of all critical turns of the golden set.
    :param checks: name of every artifact check, and what it looks for.
    :raises RecordError: the record cannot be shown.
    """
    record = read_record(decision)
    root = ET.Element("testsuites", name=visible(f"quant-gate: {run.recipe} of {run.model}"))
    suites = {
        "gate": [_verdict(record, run)],
        "metrics": [_metric(row, record) for row in record.metrics],
        "slices": list(_slices(record)),
        "general_ability": [
            _metric(row, record, "items") for row in (record.general.metrics if record.general else ())
        ],
        "benefit": list(_benefit(record)),
        "critical_turns": [_critical(turn, record, flips) for turn in sorted(critical_turns)],
        "artifact_checks": [_check(name, aim, record) for name, aim in checks.items()],
    }
    for name, cases in filter(lambda suite: suite[1], suites.items()):
        _suite(root, name, cases, _properties(record, run) if name == "gate" else {})
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(root: ET.Element, name: str, cases: Sequence[Case], properties: Mapping[str, str]) -> None:
    def count(result: Result) -> str:
        return str(sum(case.result == result for case in cases))

    suite = ET.SubElement(root, "testsuite", name=name, tests=str(len(cases)))
    suite.attrib |= {"failures": count("failure"), "errors": count("error"), "skipped": count("skipped")}
    if properties:
        listed = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(listed, "property", name=key, value=visible(value))
    for case in cases:
        shown = ET.SubElement(suite, "testcase", name=visible(case.name), classname=f"quant-gate.{name}")
        if case.result != "passed":
            outcome = ET.SubElement(shown, case.result, message=_one_line(case.message))
            if case.type:
                outcome.set("type", case.type)
            outcome.text = visible(case.text) or None
        elif case.message:
            ET.SubElement(shown, "system-out").text = visible(case.message)


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _properties(record: DecisionRecord, run: RunFacts) -> dict[str, str]:
    return {
        "verdict": record.verdict.value,
        "exit_code": str(record.exit_code),
        "model": run.model,
        "recipe": run.recipe,
        "baseline.digest": record.baseline.digest,
        "candidate.digest": record.candidate.digest or "",
        "golden_set": record.golden_set.name,
        "golden_set.digest": record.golden_set.digest,
        "engine": f"{record.engine.name} {record.engine.version} on {record.engine.device}",
        "command": run.command,
        **({"waiver": "; ".join(run.waivers)} if run.waivers else {}),
    }


def _result(verdict: Verdict | None) -> Result:
    """How a verdict shows: INVALID, or none where one is due, is an error of the test, not of what was tested."""
    if verdict is Verdict.ACCEPT:
        return "passed"
    return "error" if verdict in (Verdict.INVALID, None) else "failure"


def _verdict(record: DecisionRecord, run: RunFacts) -> Case:
    lines = [reason.text for reason in record.reasons]
    lines += [f"Next step: {words.next_step(record, run)}", f"What would change it: {record.to_change}"]
    headline = f"{record.verdict.value}: {words.headline(record)}"
    return Case("verdict", _result(record.verdict), record.verdict.value, headline, "\n".join(lines))


def _metric(row: MetricRow, record: DecisionRecord, asked: str = "turns") -> Case:
    if not record.replayed:
        return Case(row.metric, "skipped", message="nothing was replayed")
    figures = (
        f"{words.percent(row.baseline_rate)} % -> {words.percent(row.candidate_rate)} % of {row.n} {asked}, "
        f"difference {words.points(row.difference)} points (lower limit {words.limit_points(row.lower, row.margin)}, "
        f"margin {words.points(-row.margin)}), {row.b} worse, {row.c} better"
    )
    if not row.gating:
        return Case(row.metric, "skipped", message=f"not gating: {figures}")
    own = [reason.text for reason in record.reasons if reason.metric == row.metric]
    verdict = row.verdict.value if row.verdict else "no verdict"
    return Case(row.metric, _result(row.verdict), verdict, figures, "\n".join(own))


def _slices(record: DecisionRecord) -> Iterator[Case]:
    """Slices of gating metrics: failed where a loss is proved, passed where one beyond the margin is ruled out."""
    margins = {row.metric: row.margin for row in record.metrics if row.gating}
    for row in record.slices:
        if row.metric not in margins:
            continue
        margin = margins[row.metric]
        name = f"{row.slice}: {row.metric}"
        figures = (
            f"difference {words.points(row.difference)} points (limits {words.limit_points(row.lower, margin)} and "
            f"{words.limit_points(row.upper, margin)}, margin {words.points(-margin)}) on {row.n} turns, "
            f"{row.b} worse, {row.c} better"
        )
        if row.flagged:
            yield Case(name, "failure", "SLICE_LOSS", figures)
        elif row.lower is not None and row.lower >= -margin:
            yield Case(name, message=figures)
        else:
            yield Case(name, "skipped", message=f"proves nothing by itself: {figures}")


def _benefit(record: DecisionRecord) -> Iterator[Case]:
    """Whether anything is gained, and of each resource whether it is borne."""
    argued = [reason for reason in record.reasons if reason.code in BENEFIT]
    if argued:
        reason = argued[0]
        yield Case("gain", _result(reason.verdict), reason.code, reason.text, "\n".join(each.text for each in argued))
    elif any(row.counted and row.state == "better" for row in record.resources):
        yield Case("gain", message="a resource is better by its threshold, and none that counts is worse")
    else:
        yield Case("gain", "skipped", message="not judged: the run was settled before")
    for row, line in zip(record.resources, words.gains(record), strict=True):
        if not row.counted:
            yield Case(row.name, "skipped", message=line)
        elif row.state in ("better", "held"):
            yield Case(row.name, message=line)
        else:
            yield Case(row.name, "error" if row.state == "impossible" else "failure", row.state, line)


def _critical(turn_id: str, record: DecisionRecord, flips: Iterable[Flip]) -> Case:
    facts = record.critical
    if turn_id in facts.failed:
        lost = [flip for flip in flips if flip.turn_id == turn_id and flip.direction == "pass_to_fail"]
        said = [f"{flip.metric}: {flip.baseline.label} -> {flip.candidate.label}" for flip in lost]
        evidence = [f"{flip.metric}: {line}" for flip in lost for line in flip.candidate.evidence]
        message = "; ".join(said) or "the baseline passes this turn, the candidate fails it"
        return Case(turn_id, "failure", "CRITICAL_TURN", message, "\n".join(evidence))
    if turn_id in facts.kept:
        return Case(turn_id)
    if not record.replayed:
        why = "nothing was replayed"
    elif turn_id in facts.unstable:
        why = "proves nothing: the baseline itself passes it in some repeats only"
    else:
        why = "proves nothing: not passed by the baseline, or not answered usably by both sides"
    return Case(turn_id, "skipped", message=why)


def _check(name: str, aim: str, record: DecisionRecord) -> Case:
    found = [finding for finding in record.findings if finding.check == name]
    text = "\n".join(f"{finding.where}: {finding.text}. {finding.remedy}" for finding in found)
    results: dict[str, Result] = {"fatal": "failure", "parity": "error"}
    for severity, result in results.items():
        if grave := [finding for finding in found if finding.severity == severity]:
            return Case(name, result, severity, _where(grave), text)
    if unseen := [finding for finding in found if finding.severity == "note"]:
        return Case(name, "skipped", "note", _where(unseen), text)
    if record.candidate.digest is None:
        return Case(name, "skipped", message="there was no candidate to inspect")
    if name.startswith(SERVED_CHECKS) and not record.replayed:
        return Case(name, "skipped", message="nothing was served")
    return Case(name, message=f"warning: {text}" if found else f"looked for: {aim}; found nothing")


def _where(findings: Sequence[Finding]) -> str:
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{findings[0].where}: {findings[0].text}{more}"
