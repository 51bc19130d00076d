"""What a ladder leaves: its record, page and table beside the runs of its candidates, and a run in MLflow."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipeline.reporting.ladder.facts import LADDER_FILE, LadderRecord
from pipeline.reporting.ladder.page import render
from pipeline.reporting.ladder.table import ladder_markdown
from pipeline.runs import keep
from pipeline.store import Store
from pipeline.tracking import Tracker, in_percent

PAGE_FILE, MARKDOWN_FILE = "ladder.html", "ladder.md"


def keep_ladder(record: LadderRecord, store: Store, name: str) -> Path:
    """Write the record, the page and the table, and keep them beside the runs."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / LADDER_FILE).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (work / PAGE_FILE).write_text(render(record), encoding="utf-8")
        (work / MARKDOWN_FILE).write_text(ladder_markdown(record), encoding="utf-8")
        return keep(store, name, work)


def track_ladder(record: LadderRecord, directory: Path, tracker: Tracker) -> None:
    """Log figures by candidate, as ``<figure>/<candidate>``: MLflow draws those of one figure into one chart.

    Limits are percentage points, as in the runs of the candidates.
    """
    figures: dict[str, float | None] = {}
    for candidate in record.candidates:
        if judged := candidate.judgement:
            worst, size = judged.worst, candidate.weight_bytes
            figures[f"weight_megabytes/{candidate.recipe}"] = None if size is None else size / 1e6
            figures[f"headroom/{candidate.recipe}"] = in_percent(worst.headroom) if worst else None
            figures[f"lower_limit/{candidate.recipe}"] = in_percent(worst.lower) if worst else None
            figures[f"quantize_seconds/{candidate.recipe}"] = judged.quantize_s
            figures[f"drift/{candidate.recipe}"] = judged.drift
            figures[f"speed/{candidate.recipe}"] = judged.speed
    tags = {
        "verdict": record.verdict,
        "exit_code": record.exit_code,
        "chosen": record.chosen or "none",
        "mlflow.runName": f"{record.verdict}: ladder ({directory.name})",
        "mlflow.note.content": (directory / MARKDOWN_FILE).read_text(encoding="utf-8"),
    }
    tracker.log(figures, tags)
    tracker.artifacts(*(directory / name for name in (LADDER_FILE, PAGE_FILE, MARKDOWN_FILE)))
