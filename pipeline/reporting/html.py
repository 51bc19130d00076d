"""The HTML report: one self-contained page for the release manager, then for the engineer.

Model output, golden data and file names are all untrusted: Jinja escapes everything, and hidden characters
are made visible in the finished page, so that nothing can be forgotten. The page has no script and its
content security policy allows none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evaluators.turn import Reply, Turn
from pipeline.errors import Verdict
from pipeline.reporting import load, words
from pipeline.reporting.curves import load_curves
from pipeline.reporting.drift import drift_cells, drift_lines, most_drifted
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.flips import flip_view
from pipeline.reporting.forest import ForestRow, forest
from pipeline.reporting.general import task_of, what_was_asked
from pipeline.reporting.record import DecisionRecord, Flip, SliceRow, read_record
from pipeline.visible import visible

SLICES_DRAWN = 24
MINUS = "\u2212"
_NEGATIVE = re.compile(r"(?<!\w)-(?=\d)")
"""The minus of a figure, not the hyphen of a word."""
_COMMAND = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Plot:
    """One forest plot in its two shapes; the style sheet shows the one that fits."""

    wide: Markup
    narrow: Markup


def render(
    decision: Mapping[str, Any],
    run: RunFacts,
    *,
    turns: Mapping[str, Turn],
    flips: Sequence[Flip],
    baseline: Mapping[str, Reply],
    candidate: Mapping[str, Reply],
) -> str:
    """Render the report page.

    :param turns: the golden turns by id; at least those that flipped, like ``baseline`` and ``candidate``.
    :raises RecordError: the record cannot be shown, or a flip belongs to other inputs.
    """
    record = read_record(decision)
    view = flip_view(flips, turns, baseline, candidate)
    numbers = {turn.turn_id: turn.number for turn in view.turns}
    slices = sorted(record.slices, key=_slice_order)
    page = (
        page_environment()
        .get_template("report.html.j2")
        .render(
            record=record,
            run=run,
            view=view,
            numbers=numbers,
            slices_moved=[row for row in slices if row.b or row.c],
            slices_still=[row for row in slices if not (row.b or row.c)],
            metric_plot=_metric_plot(record),
            load=record.load,
            load_plot=load_curves(record.load) if record.load else "",
            slice_plot=_slice_plot(record, slices),
            policy=yaml.safe_dump(record.policy, sort_keys=False, allow_unicode=True),
            recipe=yaml.safe_dump(record.candidate.recipe, sort_keys=False, allow_unicode=True),
            load_words=load,
            headline=words.headline(record),
            level=words.confidence(record),
            caveats=words.caveats(record, run.notes),
            risk=words.risk(record),
            noise=words.noise(record),
            general=_general(record),
            drift_lines=drift_lines(record.drift, {flip.turn_id for flip in flips}) if record.drift else [],
            drifted=most_drifted(record.drift) if record.drift else [],
            drift_rows=[(row, drift_cells(row)) for row in record.drift.rows] if record.drift else [],
            words=words,
        )
    )
    return visible(page)


def _general(record: DecisionRecord) -> dict[str, Any]:
    general = record.general
    if general is None:
        return {}
    rows = [(row, task_of(general, row)) for row in general.metrics]
    return {"asked": what_was_asked(general), "rows": rows, "lost": sum(row.b for row in general.metrics)}


@cache
def page_environment() -> Environment:
    """Jinja for self-contained pages: everything is escaped, the style sheet is at hand as ``css``.

    One for all pages, as it keeps its templates compiled.
    """
    environment = Environment(
        loader=PackageLoader("pipeline.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sign"] = lambda text: _NEGATIVE.sub(MINUS, text)
    environment.filters["commands"] = lambda text: Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))
    environment.filters["arrow"] = lambda text: text.replace("->", "\u2192").replace("(-", f"({MINUS}")
    environment.globals["css"] = Markup(
        (resources.files("pipeline.reporting") / "templates" / "report.css").read_text(encoding="utf-8")
    )
    return environment


def _slice_order(row: SliceRow) -> tuple[bool, float, str, str]:
    return (not row.flagged, row.difference if row.difference is not None else 0.0, row.slice, row.metric)


def _figures(difference: float | None, lower: float | None, upper: float | None) -> str:
    if difference is None:
        return "no turn scored"
    text = f"{words.points(difference, 1)} ({words.points(lower, 1)} to {words.points(upper, 1)})"
    return text.replace("-", MINUS)


def _metric_plot(record: DecisionRecord) -> Plot:
    rows = [
        ForestRow(
            label=words.metric_title(row.metric),
            note=f"{_verdict(row.verdict)}, {row.n:,} turns" if row.gating else f"not gating, {row.n:,} turns",
            figures=_figures(row.difference, row.lower, row.upper),
            difference=row.difference,
            lower=row.lower,
            upper=row.upper,
            margin=row.margin,
            verdict=row.verdict if row.gating else None,
        )
        for row in record.metrics
    ]
    description = "; ".join(f"{row.label}: {row.figures} percentage points, {row.note}" for row in rows)
    return _plot(rows, "fm", "Difference of each metric, candidate minus baseline, against its margin", description)


def _slice_plot(record: DecisionRecord, slices: Sequence[SliceRow]) -> Plot | None:
    gating = {row.metric: row.margin for row in record.metrics if row.gating}
    rows = [
        ForestRow(
            label=row.slice.replace("_", " "),
            note=f"{words.metric_title(row.metric)}, {'loss proved' if row.flagged else f'{row.n:,} turns'}",
            figures=_figures(row.difference, row.lower, row.upper),
            difference=row.difference,
            lower=row.lower,
            upper=row.upper,
            margin=gating[row.metric],
            verdict=Verdict.REJECT if row.flagged else None,
        )
        for row in slices
        if row.metric in gating and (row.b or row.c)
    ][:SLICES_DRAWN]
    if not rows:
        return None
    description = "; ".join(f"{row.label}, {row.note}: {row.figures} percentage points" for row in rows)
    return _plot(rows, "fs", "Difference by slice, candidate minus baseline", description)


def _plot(rows: Sequence[ForestRow], ident: str, title: str, description: str) -> Plot:
    return Plot(
        wide=forest(rows, ident=f"{ident}w", title=title, description=description, narrow=False),
        narrow=forest(rows, ident=f"{ident}n", title=title, description=description, narrow=True),
    )


def _verdict(verdict: Verdict | None) -> str:
    return verdict.value if verdict else "no verdict"
