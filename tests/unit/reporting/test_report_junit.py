"""JUnit XML: the schema of a consumer, what another library reads back, and green only for ACCEPT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from lxml import etree
from report_samples import Sample, sample, unmeasured

from pipeline.errors import Verdict
from pipeline.reporting.junit import junit_xml

SCHEMA = Path(__file__).with_name("junit-10.xsd")
"""Of Jenkins' xUnit plug-in (MIT licence, in the file), as pytest ships it for its own tests."""
CHECKS = {"scale-value": "bad scales", "tokenizer-ids": "other ids", "size": "odd size", "server-canary": "no text"}
UNPROVED = "sample-unproved#1"


def rendered(made: Sample, **changes: Any) -> bytes:
    critical = made.decision["critical"]
    turns = [*critical["failed"], *critical["kept"], *critical["unstable"], UNPROVED]
    text = junit_xml(made.decision | changes, made.run, flips=made.flips, critical_turns=turns, checks=CHECKS)
    return text.encode("utf-8")


def read(xml: bytes) -> dict[str, TestCase]:
    """Cases by "suite/name", as junitparser reads them, after the schema accepted the file."""
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    schema.assertValid(etree.fromstring(xml))
    return {f"{suite.name}/{case.name}": case for suite in JUnitXml.fromstring(xml) for case in suite}


def outcome(case: TestCase) -> type | None:
    """Class of the one result of a case; None where it passed."""
    kinds = [type(result) for result in case.result]
    assert len(kinds) < 2
    return kinds[0] if kinds else None


@pytest.mark.parametrize("made", [*map(sample, Verdict), unmeasured()], ids=[*Verdict, "unmeasured"])
def test_it_is_green_for_accept_alone(made: Sample) -> None:
    xml = rendered(made)
    cases = read(xml)
    kinds = {"ACCEPT": None, "REJECT": Failure, "INCONCLUSIVE": Failure, "INVALID": Error}
    assert outcome(cases["gate/verdict"]) is kinds[made.decision["verdict"]]
    spoilt = [name for name, case in cases.items() if outcome(case) in (Failure, Error)]
    assert (not spoilt) == (made.decision["verdict"] == "ACCEPT")
    totals = JUnitXml.fromstring(xml)
    told = (totals.tests, totals.failures + totals.errors)
    assert told == (len(cases), len(spoilt))  # what the file says of itself is what is in it


def test_a_metric_has_its_verdict_and_figures() -> None:
    made = sample(Verdict.REJECT)
    cases = read(rendered(made))
    lost = cases["metrics/policy_adherence"].result[0]
    assert (type(lost), lost.type) == (Failure, "REJECT")
    assert "96 worse, 31 better" in lost.message and "the loss is proved" in lost.text
    assert cases["metrics/free_of_degeneration"].result[0].type == "INCONCLUSIVE"
    assert outcome(cases["metrics/refuses_when_required"]) is None
    assert "184 turns" in cases["metrics/refuses_when_required"].system_out
    assert outcome(cases["metrics/tool_call_valid"]) is Skipped  # it does not gate: neither passed nor failed


def test_a_slice_fails_only_where_a_loss_is_proved_and_passes_only_where_one_is_ruled_out() -> None:
    made = sample(Verdict.REJECT)
    row = {"metric": "policy_adherence", "n": 40, "b": 9, "c": 0, "baseline_rate": 0.9, "candidate_rate": 0.7}
    rows = [
        row
        | {"slice": "refunds", "difference": -0.2, "lower": -0.3, "upper": -0.1, "flagged": True, "p_adjusted": 0.01},
        row | {"slice": "orders", "difference": 0.0, "lower": -0.01, "upper": 0.01, "flagged": False, "p_adjusted": 1},
        row | {"slice": "few", "difference": -0.1, "lower": -0.4, "upper": 0.2, "flagged": False, "p_adjusted": 1},
        row | {"slice": "few", "metric": "tool_call_valid", "difference": 0, "lower": 0, "upper": 0, "flagged": False},
    ]
    cases = read(rendered(made, slices=rows))
    lost = cases["slices/refunds: policy_adherence"].result[0]
    assert (type(lost), lost.type) == (Failure, "SLICE_LOSS")
    assert "difference -20.00 points" in lost.message and "margin -3.00" in lost.message and "9 worse" in lost.message
    assert outcome(cases["slices/orders: policy_adherence"]) is None
    assert outcome(cases["slices/few: policy_adherence"]) is Skipped
    assert "slices/few: tool_call_valid" not in cases  # it does not gate


def test_a_general_task_has_its_verdict_and_figures() -> None:
    made = sample(Verdict.REJECT)
    row = dict(made.decision["metrics"][0]) | {"metric": "general.sums", "n": 200, "verdict": "REJECT", "b": 31, "c": 2}
    general = {"suite": "own", "items": 200, "tasks": {}, "metrics": [row], "lost": []}
    reason = made.decision["reasons"][0] | {"metric": "general.sums", "text": "sums are lost."}
    cases = read(rendered(made, general=general, reasons=[*made.decision["reasons"], reason]))
    lost = cases["general_ability/general.sums"].result[0]
    assert (type(lost), lost.type, lost.text) == (Failure, "REJECT", "sums are lost.")
    assert "of 200 items" in lost.message and "31 worse, 2 better" in lost.message


RESOURCE = {
    **{"baseline": [2e8], "candidate": [1e8], "better": 0.1, "worse": 0.05, "declared": False, "counted": True},
    **{"note": "", "change": 0.5, "lower": 0.5, "upper": 0.5, "gain": 0.5},
}


def test_what_is_gained_and_what_it_costs_are_cases() -> None:
    made = sample(Verdict.REJECT)
    resources = [
        RESOURCE | {"name": "weight_bytes", "state": "better"},
        RESOURCE | {"name": "ttft_p95", "state": "worse", "change": -0.3},
        RESOURCE | {"name": "itl_p95", "state": "worse", "counted": False},
    ]
    text = "ttft_p95 is worse by at least 30 %; 5 % are borne for a gain elsewhere."
    reason = {"code": "NO_BENEFIT", "verdict": "REJECT", "metric": None, "text": text, "figures": {}}
    cases = read(rendered(made, resources=resources, reasons=[reason]))
    assert outcome(cases["benefit/weight_bytes"]) is None
    assert (outcome(cases["benefit/ttft_p95"]), outcome(cases["benefit/itl_p95"])) == (Failure, Skipped)
    assert (cases["benefit/gain"].result[0].type, cases["benefit/gain"].result[0].message) == ("NO_BENEFIT", text)
    held = read(rendered(sample(Verdict.ACCEPT), resources=resources[:1]))
    assert outcome(held["benefit/gain"]) is None


def test_a_critical_turn_is_failed_kept_or_proves_nothing() -> None:
    made = sample(Verdict.REJECT)
    critical = made.decision["critical"] | {"unstable": ["sample-unstable#1"]}
    cases = read(rendered(Sample(made.decision | {"critical": critical}, made.run, made.flips, {}, {}, {})))
    refund = next(flip for flip in made.flips if flip.candidate.label == "wrong_arguments")
    assert refund.turn_id in critical["failed"]
    lost = cases[f"critical_turns/{refund.turn_id}"].result[0]
    assert lost.message == "tool_call_correct: correct -> wrong_arguments"
    assert "got 'SO-48231', expected 'SO-48213'" in lost.text
    assert outcome(cases[f"critical_turns/{critical['kept'][0]}"]) is None
    assert "in some repeats only" in cases["critical_turns/sample-unstable#1"].result[0].message
    assert outcome(cases[f"critical_turns/{UNPROVED}"]) is Skipped


def finding(check: str, severity: str) -> dict[str, str]:
    return {"check": check, "severity": severity, "where": "layers.0", "text": "7 scales are 0", "remedy": "Redo it."}


def test_an_artifact_check_passes_only_when_it_ran_and_found_nothing_grave() -> None:
    made = sample(Verdict.REJECT)
    found = [finding("scale-value", "fatal"), finding("tokenizer-ids", "parity"), finding("size", "warning")]
    cases = read(rendered(made, findings=found))
    assert outcome(cases["artifact_checks/scale-value"]) is Failure
    assert cases["artifact_checks/scale-value"].result[0].message == "layers.0: 7 scales are 0"
    assert outcome(cases["artifact_checks/tokenizer-ids"]) is Error
    assert outcome(cases["artifact_checks/size"]) is None
    assert cases["artifact_checks/size"].system_out.startswith("warning: layers.0")
    assert outcome(read(rendered(made, findings=[finding("size", "note")]))["artifact_checks/size"]) is Skipped


def test_nothing_passes_where_nothing_was_measured() -> None:
    cases = read(rendered(unmeasured()))
    kinds = {name: outcome(case) for name, case in cases.items()}
    assert kinds.pop("gate/verdict") is Failure
    assert set(kinds.values()) == {Skipped}


def test_hostile_text_stays_text() -> None:
    made = sample(Verdict.REJECT)
    nasty = 'a]]>b <failure/> & "c" \x00\x1b[31m \ud800 \u202e d'
    reasons = [made.decision["reasons"][0] | {"text": nasty}]
    case = read(rendered(made, reasons=reasons))["gate/verdict"]
    shown = case.result[0].text.splitlines()[0]
    assert shown == 'a]]>b <failure/> & "c" ⟨U+0000⟩⟨U+001B⟩[31m ⟨U+D800⟩ ⟨U+202E⟩ d'


def test_to_diagnose_takes_the_options_of_the_run() -> None:
    made = sample(Verdict.REJECT)
    made = replace(made, run=replace(made.run, command="quant-gate run --model m --recipe int4-rtn"))
    xml = rendered(made, next_step="Ask `quant-gate diagnose`.").decode("utf-8")
    assert "Next step: Ask `quant-gate diagnose --model m --recipe int4-rtn`." in xml
