"""What a diagnosis leaves: its record, page and table beside the runs, the proposed recipe, and a run in MLflow."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipeline.reporting.diagnosis.facts import DIAGNOSIS_FILE, DiagnosisRecord
from pipeline.reporting.diagnosis.page import render
from pipeline.reporting.diagnosis.table import diagnosis_markdown
from pipeline.runs import keep
from pipeline.store import Store
from pipeline.tracking import Tracker

PAGE_FILE, MARKDOWN_FILE = "diagnosis.html", "diagnosis.md"


def keep_diagnosis(record: DiagnosisRecord, recipe: str, store: Store, name: str) -> Path:
    """Keep the reports and the proposed recipe (text of its file) beside the runs."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_reports(record, work)
        if record.proposal is not None:
            (work / record.proposal.file).write_text(recipe, encoding="utf-8")
        return keep(store, name, work)


def write_reports(record: DiagnosisRecord, directory: Path) -> None:
    """Write record, page and Markdown, in place of earlier ones."""
    (directory / DIAGNOSIS_FILE).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (directory / PAGE_FILE).write_text(render(record), encoding="utf-8")
    (directory / MARKDOWN_FILE).write_text(diagnosis_markdown(record), encoding="utf-8")


def track_diagnosis(record: DiagnosisRecord, directory: Path, tracker: Tracker) -> None:
    """Log drifts as ``<figure>/<what>``, tags and files."""
    figures: dict[str, float | None] = {
        "drift/candidate": record.whole.drift,
        "weight_megabytes/baseline": record.baseline_bytes / 1e6,
        "weight_megabytes/candidate": record.candidate_bytes / 1e6,
        **{f"drift_alone/{part.name.replace('+', '_')}": part.alone.drift for part in record.parts},
    }
    if record.kv is not None:
        figures |= {"drift/kv_cache": record.kv.alone.drift, "drift/weights": record.kv.weights.drift}
    if record.proposal is not None:
        figures |= {
            "drift/proposal": record.proposal.predicted.drift,
            "weight_megabytes/proposal": record.proposal.weight_bytes / 1e6,
        }
    tags = {
        "diagnosis": "true",
        "verdict": record.verdict,
        "proposal": record.proposal.name if record.proposal else "none",
        "proposal_verdict": record.tried.verdict if record.tried else "not run",
        "mlflow.note.content": (directory / MARKDOWN_FILE).read_text(encoding="utf-8"),
    }
    tracker.log(figures, tags)
    files = [DIAGNOSIS_FILE, PAGE_FILE, MARKDOWN_FILE, *([record.proposal.file] if record.proposal else [])]
    tracker.artifacts(*(directory / name for name in files))
