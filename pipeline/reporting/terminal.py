"""The summary that a person reads in a terminal or a log: verdict, reasons and next step first.

Laid out for 80 columns and complete without colour. Text from models or data is printed as plain text with
control characters made visible, so it can neither style nor steer the terminal.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipeline.errors import Verdict
from pipeline.reporting import words
from pipeline.reporting.drift import drift_summary
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.general import general_lines
from pipeline.reporting.record import DecisionRecord, MetricRow, Reason, read_record
from pipeline.visible import visible

WIDTH = 80
PROGRAM = "quant-gate"
NAMES_SHOWN = 10

STYLES = {
    Verdict.ACCEPT: "green",
    Verdict.REJECT: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.INVALID: "magenta",
}
"""How a verdict is coloured."""


def summary(decision: Mapping[str, Any], run: RunFacts) -> RenderableType:
    """The summary as a rich renderable; print it with ``crop=False``, so that long paths stay whole.

    :raises RecordError: the record cannot be shown.
    """
    record = read_record(decision)
    risk = words.risk(record)
    parts: list[RenderableType] = [
        Text.assemble((record.verdict.value, f"bold {STYLES[record.verdict]}"), "  ", (words.headline(record), "bold")),
        _plain(f"{run.recipe} of {run.model}; {words.tested(record)}"),
        *(section("Waived, which is no ACCEPT", run.waivers) if run.waivers else ()),
        *section("Why", (_why(reason, record) for reason in record.reasons)),
        *section("What would change it", [record.to_change]),
        *section("Next step", [typed(words.next_step(record, run))]),
        Text(),
        _metric_table(record),
        Text(
            f"base, cand: % passed; diff, lower limit ({words.confidence(record)}), margin: percentage points; "
            "b: turns passed -> failed, c: failed -> passed",
            style="dim",
        ),
        *section("Risk and gain", [*risk, *_gain(record)]),
    ]
    if record.general:
        parts += section("General ability", general_lines(record.general))
    if drift := drift_summary(record.drift):
        parts += section("Drift of next-token distributions", drift)
    lost = _some(record.critical.failed)
    if (critical := words.critical(record)) not in risk:
        parts += section("Critical turns", [critical, *lost])
    elif lost:
        parts += section("Critical turns lost", lost)
    if worst := words.worst_flips(record):
        parts += section("Lost turns to read first", worst)
    if noise := words.noise(record):
        parts += section("Noise floor", noise)
    if record.findings:
        parts += section("Inspection of the candidate", map(words.finding, record.findings))
    if record.conditions:
        parts += section("The verdict is conditional on", record.conditions)
    caveats = words.caveats(record, run.notes)
    if caveats:
        parts += section("To bear in mind", caveats)
    parts += [Text(), *_places(record, run)]
    return Group(*parts)


def summary_text(decision: Mapping[str, Any], run: RunFacts) -> str:
    """The summary as plain text, 80 columns, no colour.

    :raises RecordError: the record cannot be shown.
    """
    buffer = io.StringIO()
    console = Console(file=buffer, width=WIDTH, no_color=True, force_terminal=False, legacy_windows=False)
    console.print(summary(decision, run), crop=False)
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def _gain(record: DecisionRecord) -> list[str]:
    return words.gains(record) or [words.gain(record)]


def _why(reason: Reason, record: DecisionRecord) -> str:
    """A reason; one that does not argue for the verdict says what it argues for."""
    return reason.text if reason.verdict == record.verdict else f"(argues for {reason.verdict}) {reason.text}"


def _metric_table(record: DecisionRecord) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("metric", no_wrap=True, overflow="ellipsis", max_width=21)
    for name in ("base", "cand", "diff", "lower", "margin", "b", "c"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in record.metrics:
        table.add_row(*_cells(row), style="" if row.gating else "dim")
    return table


def _cells(row: MetricRow) -> list[RenderableType]:
    if not row.gating:
        verdict = Text("(not gating)")
    elif row.verdict is None:
        verdict = Text("none")
    else:
        verdict = Text(row.verdict.value, style=f"bold {STYLES[row.verdict]}")
    figures = (
        words.percent(row.baseline_rate),
        words.percent(row.candidate_rate),
        words.points(row.difference),
        words.limit_points(row.lower, row.margin),
        words.points(-row.margin),
        str(row.b),
        str(row.c),
    )
    return [_plain(row.metric), *(Text(figure) for figure in figures), verdict]


def section(title: str, lines: Iterable[str]) -> list[RenderableType]:
    """A heading with a list below it; an empty line before."""
    parts: list[RenderableType] = [Text(), Text(title, style="bold")]
    for line in lines:
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row("-", _plain(line))
        parts.append(Padding(grid, (0, 0, 0, 1)))
    return parts


def _places(record: DecisionRecord, run: RunFacts) -> list[RenderableType]:
    return places(
        ("Report", _path(run.report)),
        ("Decision", _path(run.decision)),
        ("MLflow run", run.mlflow_run),
        ("Again", run.command),
        ("Exit code", str(record.exit_code)),
    )


def places(*rows: tuple[str, str | None]) -> list[RenderableType]:
    """Where things are and how to make them again: a line for each that there is."""
    return [
        Text.assemble((f"{name:<11}", "bold"), visible(typed(value)), no_wrap=True, overflow="ignore")
        for name, value in rows
        if value
    ]


def typed(text: str) -> str:
    """``text`` with the commands in it as they can be typed here: the program is seldom on the PATH."""
    program = Path(sys.executable).with_name(PROGRAM)
    if shutil.which(PROGRAM) or not program.exists():
        return text
    return re.sub(rf"(^|`){PROGRAM} ", lambda found: f"{found[1]}{_path(program)} ", text)


def _path(path: Path | None) -> str | None:
    """A path relative to the working directory where it lies below it: short enough to copy."""
    if path is None:
        return None
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _some(names: tuple[str, ...]) -> list[str]:
    shown = list(names[:NAMES_SHOWN])
    return [*shown, f"and {len(names) - NAMES_SHOWN} more"] if len(names) > NAMES_SHOWN else shown


def _plain(text: str) -> Text:
    return Text(visible(text))
