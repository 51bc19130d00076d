"""What a delivery pipeline reads: one line of JSON, the job's page, the review's record."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_samples import Sample, sample, unmeasured
from test_report_drift import drift
from test_report_junit import RESOURCE

from pipeline.errors import GoldenSetError, Verdict
from pipeline.reporting.delivery import add_step_summary, failure_line, failure_markdown, result_line
from pipeline.reporting.html import render
from pipeline.reporting.junit import junit_xml
from pipeline.reporting.markdown import summary_markdown
from pipeline.reporting.review import review_markdown
from pipeline.reporting.terminal import summary_text

WAIVER = "Known regression in refunds, waived by A. Person until 2030-01-31"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_result_is_one_line_of_json(verdict: Verdict) -> None:
    made = sample(verdict)
    line = result_line(made.decision, replace(made.run, report=Path("/runs/x/report.html"), mlflow_run="r1"))
    assert "\n" not in line
    told = json.loads(line)
    assert (told["verdict"], told["exit_code"]) == (verdict, made.decision["exit_code"])
    assert (told["directory"], told["mlflow_run"], told["recipe"]) == ("/runs/x", "r1", made.run.recipe)
    assert told["digests"]["golden_set"] == "5a" * 32
    assert told["metrics"]["policy_adherence"]["margin"] == 0.03


def test_a_run_without_figures_has_a_line_too() -> None:
    assert json.loads(result_line(unmeasured().decision, unmeasured().run))["digests"]["candidate"] is None


def test_a_broken_run_is_a_line_without_a_verdict() -> None:
    error = GoldenSetError("a.jsonl:3: bad\nline", "Mend it.")
    assert json.loads(failure_line(error)) == {
        **{"verdict": None, "exit_code": 2},
        "error": {"type": "GoldenSetError", "message": "a.jsonl:3: bad\nline"},
    }
    assert "\n" not in failure_line(error)
    assert "Exit code 2" in failure_markdown(error) and "Mend it." in failure_markdown(error)


def test_the_summary_is_added_to_the_page_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "summary"
    page.write_text("of an earlier step\n", "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert add_step_summary("## ACCEPT") is None
    assert page.read_text("utf-8") == "of an earlier step\n## ACCEPT\n"


def test_without_such_a_page_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert add_step_summary("## ACCEPT") is None


def test_a_page_that_cannot_be_written_is_told_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such"))
    assert "could not be written" in (add_step_summary("## ACCEPT") or "")


def test_a_long_summary_stays_below_what_the_page_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert add_step_summary("é" * 900_000) is None
    data = (tmp_path / "summary").read_bytes()
    assert len(data) < 1024 * 1024
    assert data.decode("utf-8").endswith("takes no more)\n\n")


@pytest.mark.parametrize("made", [*map(sample, Verdict), unmeasured()], ids=[*Verdict, "unmeasured"])
def test_the_review_has_every_section_and_labels_its_figures(made: Sample) -> None:
    text = review_markdown(made.decision, made.run)
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        *("Workload", "Quality gate", "Service objectives", "Facts", "Assumptions", "Acceptance", "Rollback")
    ]
    assert f"**{made.decision['verdict']}.**" in text
    facts = text.split("## Facts")[1].split("## Assumptions")[0]
    assert all(
        line.endswith(("*(measured)*", "*(declared)*", "*(estimated)*"))
        for line in facts.splitlines()
        if line.startswith("- ")
    )


def test_the_review_tells_of_drift_load_and_general_ability_where_they_were_measured() -> None:
    made = sample(Verdict.ACCEPT)
    row = dict(made.decision["metrics"][0]) | {"metric": "general.sums", "n": 200}
    changes: dict[str, Any] = {
        "drift": drift(),
        "general": {"suite": "own", "items": 200, "tasks": {}, "metrics": [row], "lost": []},
        "load": {
            "most_users": {"baseline": 8, "candidate": 16},
            "suggested_max_num_seqs": {"baseline": 8, "candidate": 16},
            "reference_users": 8,
            "baseline_spread": {"ttft_p95_ms": 0.04, "itl_p95_ms": 0.02, "output_throughput": 0.01},
            "sweep": {"repeats": 3, "users": [16, 32]},
            "representative": True,
        },
        "resources": [
            RESOURCE | {"name": "weight_bytes", "state": "better"},
            RESOURCE | {"name": "ttft_p95", "state": "better", "baseline": [80.0] * 3, "candidate": [40.0] * 3},
        ],
    }
    text = html.unescape(review_markdown(made.decision | changes, made.run).replace("\\", ""))
    parts = dict(part.split("\n", 1) for part in text.split("## ")[1:])
    assert "lies 0.0123 nats from the baseline on average" in parts["Drift"]
    assert "general.sums:" in parts["General ability"] and "of 200 items" in parts["General ability"]
    assert "candidate keeps the service level up to 16 users: set max_num_seqs to 16" in parts["Load"]
    assert "Time to first token, p95: 80 ms -> 40 ms, 50.0 % better" in parts["Load"]
    assert "Weights: 200.0 MB -> 100.0 MB" in parts["Facts"] and "Weights" not in parts["Load"]
    assert all(line.endswith("*(measured)*") for line in parts["Load"].splitlines() if line)


def test_a_waiver_is_shown_everywhere_and_changes_no_verdict() -> None:
    made = sample(Verdict.REJECT)
    run = replace(made.run, waivers=(WAIVER,))
    page = render(made.decision, run, turns={}, flips=[], baseline={}, candidate={})
    texts = [
        summary_text(made.decision, run),
        summary_markdown(made.decision, run),
        review_markdown(made.decision, run),
    ]
    for text in [page, *texts]:
        flat = " ".join(text.split())
        assert "waived by A. Person until 2030-01-31" in flat
        assert "no ACCEPT" in flat and "REJECT" in flat
    junit = junit_xml(made.decision, run, flips=[], critical_turns=[], checks={})
    assert f'<property name="waiver" value="{WAIVER}" />' in junit
    assert json.loads(result_line(made.decision, run))["waivers"] == [WAIVER]
    assert json.loads(result_line(made.decision, run))["verdict"] == "REJECT"
