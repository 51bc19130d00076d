"""A load test by itself: both sides under load, with a page, a run in MLflow, and no verdict."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.comparing.comparing import CompareRequest, Comparison, begun
from pipeline.evidence.record import resource_rows
from pipeline.progress import Progress
from pipeline.reporting.load_page import render_load
from pipeline.reporting.record import ResourceRow
from pipeline.reporting.words import gain_lines
from pipeline.runs import new_directory
from pipeline.stages.load import LOAD, read_load
from pipeline.statistics.benefit import resource_results
from pipeline.statistics.facts import Benefit
from pipeline.store import Store

PAGE = "load.html"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load test came to.

    :ivar told: the ``load`` part of a decision record.
    :ivar gains: what each resource gains, in words.
    :ivar problem: why it is not in MLflow.
    """

    told: dict[str, Any]
    gains: list[str]
    page: Path
    problem: str | None


def measure_load(request: CompareRequest, store: Store, progress: Progress) -> Loaded:
    """Put load on both sides and keep what they bear, as a page and in MLflow; no verdict.

    :raises GateError: bad input, a server that does not start, or a request that failed.
    """
    comparison = Comparison(request, store, progress)
    baseline, candidate, name, tracker = begun(comparison, "load")
    try:
        tracker.start({"model": baseline, "recipe": candidate})
        output = comparison.load()
        told, resources = read_load(output)
        judged = resource_results(Benefit(None, None, resources), comparison.policy.benefit, comparison.policy.alpha)
        gains = gain_lines([ResourceRow.model_validate(row) for row in resource_rows(judged)])
        directory = new_directory(store.root / "loads", name)
        shutil.copy2(output.path / LOAD, directory)
        page = directory / PAGE
        page.write_text(render_load(told, baseline, candidate, gains), encoding="utf-8")
        tracker.load(told)
        tracker.artifacts(page, directory / LOAD)
    except BaseException as error:
        tracker.finish(error)
        raise
    return Loaded(told, gains, page, tracker.finish())
