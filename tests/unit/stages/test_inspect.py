"""The inspection in a gate: what it finds settles the verdict before anything is replayed, and is in every report."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from gate_fakes import FakeMachine, write_golden, write_policy
from typer.testing import CliRunner

from pipeline import cli
from pipeline.errors import RecordError, Verdict
from pipeline.evidence.record import read_decision
from pipeline.inspection import CHECKS, Finding, Severity
from pipeline.progress import Silent
from pipeline.reporting.findings import findings_view
from pipeline.request import Request
from pipeline.runner import run
from pipeline.stages import inspect
from pipeline.statistics.facts import ReasonCode
from pipeline.store import Store
from pipeline.tracking.facts import metrics_of

BROKEN = Finding(
    "scale-value", Severity.FATAL, "model.layers.0.q_proj", "3 scales are NaN", "Quantize again.", {"n": 3}
)
UNFAIR = Finding("tokenizer-ids", Severity.PARITY, "tokenizer.json", "2 texts differ", "Copy the tokenizer's files.")
ODD = Finding("size", Severity.WARNING, "candidate", "12% more than predicted", "Look for modules left.")


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    golden = write_golden(tmp_path / "orders")
    return Request("some/model", golden=str(golden), policy=write_policy(tmp_path / "gate.yaml"))


@pytest.mark.parametrize(
    ("findings", "verdict", "code", "exit_code"),
    [
        ((BROKEN,), Verdict.REJECT, "ARTIFACT_BROKEN", 10),
        ((UNFAIR,), Verdict.INVALID, "ARTIFACT_DIFFERS", 30),
        ((BROKEN, UNFAIR, ODD), Verdict.REJECT, "ARTIFACT_BROKEN", 10),
    ],
)
def test_findings_settle_the_verdict_before_the_candidate_is_served(
    machine: FakeMachine,
    request_: Request,
    store: Store,
    findings: tuple[Finding, ...],
    verdict: Verdict,
    code: str,
    exit_code: int,
) -> None:
    machine.findings = findings
    result = run(request_, store, Silent())
    assert (result.verdict, result.exit_code) == (verdict, exit_code)
    assert "start candidate" not in machine.done
    record = read_decision(result.directory / "decision.json")
    assert [reason["code"] for reason in record["reasons"]] == [code]
    assert record["reasons"][0]["text"].startswith(f"{findings[0].check}: {findings[0].where}: {findings[0].text}")
    assert record["findings"] == [finding.as_json() for finding in findings]
    assert record["candidate"]["digest"] == machine.candidate_digest
    assert record["accounting"] == {"turns": 0, "baseline_scored": 0, "candidate_scored": 0}
    for file in ("report.html", "summary.txt", "summary.md"):
        text = (result.directory / file).read_text(encoding="utf-8").replace("\\", "")
        assert findings[0].check in text and "Inspection of the candidate" in text, file


def test_a_refused_candidate_stops_the_baseline(machine: FakeMachine, request_: Request, store: Store) -> None:
    """The baseline's replay is held until the candidate was refused: it must not go on after that."""
    refused = threading.Event()
    machine.findings = (BROKEN,)
    machine.hooks = {"inspect": refused.set, "baseline": lambda: refused.wait(60) or pytest.fail("not inspected")}
    assert run(request_, store, Silent()).verdict is Verdict.REJECT


def test_warnings_are_told_and_decide_nothing(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.findings = (ODD,)
    machine.warning = "(EngineCore pid=1) WARNING 11-30 12:09:40 [awq.py:1] Layer 'x' falling back to slow kernels.\n"
    result = run(request_, store, Silent())
    assert result.verdict is Verdict.ACCEPT
    assert [finding["check"] for finding in result.decision["findings"]] == ["size", "server-log"]
    assert "12% more than predicted" in (result.directory / "report.html").read_text(encoding="utf-8")
    figures = metrics_of(result.decision)
    assert [figures[f"gate/findings.{s}"] for s in ("fatal", "parity", "warning")] == [0, 0, 2]


def test_a_candidate_that_stammers_is_broken(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.canary = ("!",) * 16
    result = run(request_, store, Silent())
    assert result.verdict is Verdict.REJECT
    assert [reason["code"] for reason in result.decision["reasons"]] == ["ARTIFACT_BROKEN"]
    assert [finding["check"] for finding in result.decision["findings"]] == ["server-canary"]


def test_nothing_found_is_said_too(machine: FakeMachine, request_: Request, store: Store) -> None:
    result = run(request_, store, Silent())
    assert result.decision["findings"] == []
    assert "No check found anything." in (result.directory / "report.html").read_text(encoding="utf-8")


def test_reasons_name_check_place_and_remedy() -> None:
    (reason,) = inspect.reasons([UNFAIR, ODD])
    assert (reason.code, reason.verdict) == (ReasonCode.ARTIFACT_DIFFERS, Verdict.INVALID)
    assert reason.text == "tokenizer-ids: tokenizer.json: 2 texts differ. Copy the tokenizer's files."
    assert [r.code for r in inspect.reasons([UNFAIR, BROKEN])] == [ReasonCode.ARTIFACT_BROKEN]
    assert inspect.reasons([ODD]) == []


@pytest.mark.parametrize("text", ["{", "[1]", '[{"check": "no-such", "severity": "fatal"}]', '[{"check": "size"}]'])
def test_findings_that_cannot_be_read_are_no_all_clear(tmp_path: Path, text: str) -> None:
    (tmp_path / "findings.json").write_text(text)
    with pytest.raises(RecordError, match=r"findings\.json: cannot read findings"):
        inspect.read_findings(tmp_path / "findings.json")


def test_findings_survive_being_written(tmp_path: Path) -> None:
    (tmp_path / "findings.json").write_text(json.dumps([finding.as_json() for finding in (BROKEN, ODD)]))
    assert inspect.read_findings(tmp_path / "findings.json") == (BROKEN, ODD)


def test_only_known_checks_can_be_found() -> None:
    with pytest.raises(ValueError, match="no such check"):
        Finding("made-up", Severity.FATAL, "x", "y", "z")
    for check, (severity, meaning) in CHECKS.items():
        assert check == check.lower() and isinstance(severity, Severity) and meaning


@pytest.mark.parametrize(("findings", "exit_code"), [((), 0), ((ODD,), 0), ((UNFAIR,), 30), ((BROKEN, UNFAIR), 10)])
def test_the_command_alone(
    machine: FakeMachine,
    request_: Request,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    findings: tuple[Finding, ...],
    exit_code: int,
) -> None:
    monkeypatch.setenv("QUANT_GATE_HOME", str(store.root))
    given: list[object] = []

    def look(candidate: Path, *rest: object, **options: object) -> tuple[Finding, ...]:
        given.append((candidate, options["recipe"]))
        return findings

    monkeypatch.setattr(cli.inspect, "look", look)
    words = ["inspect", "some/candidate", "--baseline", "some/model", "--golden", request_.golden]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == exit_code, done.output
    assert given == [(Path("some/candidate"), None)]
    assert all(finding.check in done.output and finding.remedy in done.output for finding in findings)
    assert f"{len([f for f in findings if f.severity is Severity.FATAL])} fatal" in done.output


def test_text_of_a_finding_cannot_steer_the_terminal() -> None:
    from rich.console import Console

    console = Console(record=True, width=100)
    console.print(findings_view([{**ODD.as_json(), "where": "a\x1b[31m\u202eb"}], "c"))
    assert "\x1b[31m" not in console.export_text() and "\u202e" not in console.export_text()
