"""What a delivery pipeline reads of a run: one line of JSON, and Markdown on the job's own page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import GateError
from pipeline.reporting.facts import RunFacts
from pipeline.secrets import scrubbed

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable by which GitHub Actions (and Gitea, Forgejo) name the file that a job's page shows."""
STEP_SUMMARY_BYTES = 1_000_000
"""GitHub shows nothing of a step whose summary is longer than 1 MiB."""


def result_line(decision: Mapping[str, Any], run: RunFacts) -> str:
    """The outcome of a run as one line of JSON. Rates and differences are shares; None where nothing was scored."""
    sides = {name: decision[name] for name in ("baseline", "candidate")}
    return _line(
        {
            "verdict": decision["verdict"],
            "exit_code": decision["exit_code"],
            "reasons": list(dict.fromkeys(reason["code"] for reason in decision["reasons"])),
            "model": run.model,
            "recipe": run.recipe,
            "digests": {name: side["digest"] for name, side in sides.items()}
            | {"golden_set": decision["golden_set"]["digest"]},
            "weight_bytes": {name: side["weight_bytes"] for name, side in sides.items()},
            "metrics": {
                row["metric"]: {name: row[name] for name in ("gating", "verdict", "difference", "lower", "margin", "n")}
                for row in decision["metrics"]
            },
            "critical_turns_failed": len(decision["critical"]["failed"]),
            "waivers": list(run.waivers),
            "directory": str(run.report.parent) if run.report else None,
            "mlflow_run": run.mlflow_run,
        }
    )


def failure_line(error: GateError) -> str:
    """A run that broke, as one line of JSON in the same form: without a verdict, which it never reached."""
    kind = type(error).__name__
    told = {"type": kind, "message": scrubbed(error.message)}
    return _line({"verdict": None, "exit_code": error.exit_code, "error": told})


def failure_markdown(error: GateError) -> str:
    """A run that broke, for the job's page. Fenced, so that nothing in a message becomes markup."""
    fence = "`" * 12
    lines = ["## No verdict: the run broke", "", fence, scrubbed(error.message), scrubbed(error.remedy), fence, ""]
    return "\n".join(lines) + f"\nExit code {error.exit_code}.\n"


def add_step_summary(markdown: str) -> str | None:
    """Append to the job's page where the pipeline has one.

    :return: what went wrong, for people; a page that cannot be written changes no verdict.
    """
    name = os.environ.get(STEP_SUMMARY)
    if not name:
        return None
    text = markdown.encode("utf-8", "replace")[:STEP_SUMMARY_BYTES].decode("utf-8", "ignore")
    if len(text) < len(markdown):
        text += "\n\n(cut off here: the job's page takes no more)\n"
    try:
        with Path(name).open("a", encoding="utf-8") as page:
            page.write(f"{text}\n")
    except OSError as error:
        return f"The job's summary could not be written: {error}"
    return None


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False)
