"""A diagnosis for the terminal, and as GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.reporting import words
from pipeline.reporting.diagnosis import phrases
from pipeline.reporting.diagnosis.facts import DiagnosisRecord
from pipeline.reporting.markdown import escape
from pipeline.reporting.terminal import STYLES, places, section
from pipeline.visible import visible

Rows = list[list[str]]
PARTS = ["part", "drift", "of all", "same words", "promoted to", "extra"]
SLICES = ["slice", "lost", "measured", "drift", "worst part"]
CURVE = ["promoted", "extra bytes", "drift", "left", "same words"]


def part_rows(record: DiagnosisRecord, most: int | None = phrases.SHOWN) -> Rows:
    """The worst parts."""
    return [
        [
            part.name,
            phrases.drift(part.alone.drift),
            phrases.percent(record.share([part])),
            phrases.same(part.alone, record),
            phrases.level(part),
            words.size(part.extra_bytes),
        ]
        for part in record.worst[:most]
    ]


def slice_rows(record: DiagnosisRecord) -> Rows:
    """Slices by lost turns."""
    return [
        [
            row.slice,
            str(row.lost),
            str(row.measured),
            words.NOT_KNOWN if row.drift is None else phrases.drift(row.drift),
            row.worst_part or "",
        ]
        for row in record.slices
    ]


def curve_rows(record: DiagnosisRecord) -> Rows:
    """Promoted parts against the drift that is left."""
    return [
        [
            str(point.promoted),
            words.size(point.extra_bytes),
            phrases.drift(point.measured.drift),
            phrases.percent(point.measured.drift / record.whole.drift) if record.whole.drift else "",
            phrases.same(point.measured, record),
        ]
        for point in record.curve
    ]


def diagnosis_view(
    record: DiagnosisRecord, directory: Path, page: Path, mlflow_run: str | None, notes: Iterable[str]
) -> RenderableType:
    """The diagnosis as a rich renderable for 80 columns; print it with ``crop=False``, so that long paths stay whole.

    :param directory: where the proposed recipe lies.
    :param notes: things that happened on the way.
    """
    parts: list[RenderableType] = [
        Text.assemble("Diagnosis of ", (visible(f"{record.recipe} of {record.model}"), "bold")),
        Text.assemble("diagnosed run: ", (record.verdict.value, f"bold {STYLES[record.verdict]}")),
        *section("What hurts", [phrases.headline(record), phrases.cause(record)]),
        Text(),
        _table(PARTS, part_rows(record)),
        *section("Where", []),
        _table(SLICES, slice_rows(record)[: phrases.SHOWN]),
        *section("What more bits restore", []),
        _table(CURVE, curve_rows(record)),
        Text("drift: nats a token; same words: lost turns with the baseline's every token", style="dim"),
        *section("Proposal", [phrases.proposed(record)]),
        *section("Next step", [phrases.next_step(record)]),
        *section("To bear in mind", [*phrases.notes(record), *notes]),
        Text(),
    ]
    parts += places(
        ("Recipe", str(directory / record.proposal.file) if record.proposal else None),
        ("Page", str(page)),
        ("MLflow run", mlflow_run),
        ("Again", record.command),
        ("Exit code", str(record.tried.exit_code if record.tried else record.exit_code)),
    )
    return Group(*parts)


def _table(titles: Sequence[str], rows: Rows) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        text = number == 0 or title in ("worst part", "promoted to")
        table.add_column(title, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def diagnosis_markdown(record: DiagnosisRecord) -> str:
    """The diagnosis as Markdown."""
    title = f"## Diagnosis of {escape(record.recipe)} of {escape(record.model)} ({record.verdict.value})"
    lines = [
        title,
        "",
        f"- {escape(phrases.headline(record))}",
        f"- {escape(phrases.cause(record))}",
        f"- **Proposal**: {escape(phrases.proposed(record))}",
        f"- **Next step**: {escape(phrases.next_step(record))}",
        *(f"- {escape(note)}" for note in phrases.notes(record)),
        "",
        *_markdown(PARTS, part_rows(record)),
        *_markdown(SLICES, slice_rows(record)),
        *_markdown(CURVE, curve_rows(record)),
    ]
    return "\n".join(lines)


def _markdown(titles: Sequence[str], rows: Rows) -> list[str]:
    if not rows:
        return []
    head = [f"| {' | '.join(titles)} |", f"|{'|'.join([' :-- ', *[' --: '] * (len(titles) - 1)])}|"]
    return [*head, *(f"| {' | '.join(map(escape, row))} |" for row in rows), ""]
