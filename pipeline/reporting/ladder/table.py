"""A ladder for the terminal, and as GitHub-flavoured Markdown."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.reporting import words
from pipeline.reporting.ladder import phrases
from pipeline.reporting.ladder.facts import Candidate, Judgement, LadderRecord
from pipeline.reporting.markdown import escape
from pipeline.reporting.terminal import STYLES, section

BASELINE = "BF16"


def ladder_view(record: LadderRecord, page: Path, mlflow_run: str | None, notes: tuple[str, ...]) -> RenderableType:
    """The ladder as a rich renderable for 80 columns; print it with ``crop=False``, so that long paths stay whole.

    :param page: the HTML page.
    :param notes: things that happened on the way.
    """
    parts: list[RenderableType] = [
        Text.assemble(
            (record.verdict.value, f"bold {STYLES[record.verdict]}"), "  ", (phrases.headline(record), "bold")
        ),
        Text(f"Ladder of {words.visible(record.model)}"),
        Text(),
        _table(record),
        Text(
            "worst metric: the one whose lower limit is nearest to its margin or furthest beyond it; lower, margin: "
            "percentage points; b: outcomes passed -> failed, c: failed -> passed, over the gating metrics",
            style="dim",
        ),
        *section("To bear in mind", [*phrases.notes(record), *notes]),
        *section("Next step", [phrases.next_step(record)]),
        Text(),
    ]
    places = [("Page", str(page)), ("MLflow run", mlflow_run), ("Again", record.command)]
    parts += [
        Text.assemble((f"{name:<11}", "bold"), words.visible(value), no_wrap=True, overflow="ignore")
        for name, value in [*places, ("Exit code", str(record.exit_code))]
        if value
    ]
    return Group(*parts)


def _table(record: LadderRecord) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("candidate", no_wrap=True, overflow="ellipsis", max_width=18)
    for name in ("weights", "b", "c", "lower", "margin"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst metric", no_wrap=True, overflow="ellipsis", max_width=18)
    table.add_column("verdict", no_wrap=True)
    for candidate in record.candidates:
        table.add_row(*_cells(candidate), style="" if candidate.judgement else "dim")
    return table


def _cells(candidate: Candidate) -> list[Text]:
    verdict = candidate.verdict if candidate.judgement else None
    state = Text(verdict.value, f"bold {STYLES[verdict]}") if verdict else Text(candidate.state)
    judged = candidate.judgement
    worst = judged.worst if judged else None
    figures = [""] * 5
    if judged and judged.replayed:
        figures = [
            *(f"{count:g}" for count in judged.flips),
            words.limit_points(worst.lower, worst.margin) if worst else words.NOT_KNOWN,
            words.points(-worst.margin) if worst else words.NOT_KNOWN,
            worst.metric if worst else "",
        ]
    cells = [candidate.recipe, words.size(candidate.weight_bytes), *figures]
    return [*(Text(words.visible(cell)) for cell in cells), state]


def ladder_markdown(record: LadderRecord) -> str:
    """The ladder as Markdown: headline, table with a row for the baseline, notes."""
    lines = [
        f"**{record.verdict.value}: {escape(phrases.headline(record))}**",
        "",
        *ladder_table(record),
        "",
        *(f"- {escape(line)}" for line in phrases.notes(record)),
    ]
    return "\n".join(lines) + "\n"


def ladder_table(record: LadderRecord) -> list[str]:
    """The lines of the Markdown table: pass rates of the gating metrics, flips, worst lower limit, verdict, bytes."""
    judged = next((each for each in record.judgements if each.replayed), None)
    rows = judged.metrics if judged else ()
    titles = [f"{escape(words.metric_title(row.metric))}, %" for row in rows]
    head = ["build", "weights", *titles, "worse / better", "lower limit, worst metric (margin)", "verdict"]
    lines = [_line(head), _line([":--", *["--:"] * (len(head) - 3), ":--", ":--"])]
    if judged:
        rates = [words.percent(row.baseline_rate) for row in rows]
        lines.append(_line([BASELINE, words.size(judged.baseline_weight_bytes), *rates, "", "", ""]))
    return [*lines, *(_line(_markdown_cells(candidate, len(titles))) for candidate in record.candidates)]


def _markdown_cells(candidate: Candidate, metrics: int) -> list[str]:
    judged = candidate.judgement
    cells = [escape(candidate.recipe), words.size(candidate.weight_bytes)]
    if judged is None or not judged.replayed:
        return [*cells, *[""] * (metrics + 2), _verdict(candidate)]
    rates = [words.percent(row.candidate_rate) for row in judged.metrics]
    worse, better = judged.flips
    return [*cells, *rates, f"{worse:g} / {better:g}", _limit(judged), _verdict(candidate)]


def _limit(judged: Judgement) -> str:
    worst = judged.worst
    if worst is None:
        return words.NOT_KNOWN
    limit, margin = words.limit_points(worst.lower, worst.margin), words.points(-worst.margin)
    return f"{limit}, {escape(words.metric_title(worst.metric))} ({margin})"


def _verdict(candidate: Candidate) -> str:
    return candidate.verdict.value if candidate.judgement and candidate.verdict else candidate.state.value


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
