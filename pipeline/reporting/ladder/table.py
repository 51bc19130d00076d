"""A ladder for the terminal, and as GitHub-flavoured Markdown."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.reporting import words
from pipeline.reporting.ladder import phrases
from pipeline.reporting.ladder.facts import Against, Candidate, Judgement, LadderRecord
from pipeline.reporting.ladder.pareto import text_plot
from pipeline.reporting.markdown import escape
from pipeline.reporting.terminal import STYLES, places, section, typed
from pipeline.visible import visible

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
        Text(f"Ladder of {visible(record.model)}"),
        Text(),
        _table(record),
        Text(
            "worst metric: the one whose lower limit is nearest to its margin or furthest beyond it; lower, margin: "
            "percentage points; b: outcomes passed -> failed, c: failed -> passed, over the gating metrics",
            style="dim",
        ),
        *_cost(record),
        *_plots(record),
        *section("To bear in mind", [*phrases.notes(record), *notes]),
        *section("Next step", [typed(phrases.next_step(record))]),
        Text(),
    ]
    parts += places(
        ("Page", str(page)),
        ("MLflow run", mlflow_run),
        ("Sign off", _signing(record)),
        ("Again", record.command),
        ("Exit code", str(record.exit_code)),
    )
    return Group(*parts)


def _signing(record: LadderRecord) -> str | None:
    """The command that signs the chosen candidate's run off; ``latest`` is the ladder itself."""
    runs = [each.judgement.run for each in record.candidates if each.recipe == record.chosen and each.judgement]
    return f'make signoff RUN={runs[0]} BY="..." NOTE="..."' if runs else None


def _plots(record: LadderRecord) -> list[RenderableType]:
    """Bytes, and speed where it was measured, against headroom."""
    drawn = [text_plot(record.candidates, against) for against in Against]
    return [part for lines in drawn if lines for part in (Text(), Text(visible("\n".join(lines))))]


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
    return [*(Text(visible(cell)) for cell in cells), state]


def _cost(record: LadderRecord) -> list[RenderableType]:
    """What candidates took to make, how far they drift and how fast they are, as far as it was measured."""
    titles = {"made in": phrases.made_in, "drift": phrases.drift, "speed": phrases.speed}
    told = {
        title: [text(candidate.judgement) for candidate in record.candidates]
        for title, text in titles.items()
        if any(text(judged) for judged in record.judgements)
    }
    if not told:
        return []
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("candidate", no_wrap=True, overflow="ellipsis", max_width=40)
    for title in told:
        table.add_column(title, justify="right", no_wrap=True)
    for candidate, *cells in zip(record.candidates, *told.values(), strict=True):
        if any(cells):
            table.add_row(visible(candidate.recipe), *cells)
    legend = "drift: mean divergence of next tokens, nats"
    if _loaded(record):
        legend += "; speed: requests a second within the service level, the baseline's being 1"
    return [Text(), table, Text(legend, style="dim")]


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
    """The lines of the Markdown table: bytes, time, drift, pass rates of the gating metrics, flips, limit, verdict."""
    judged = next((each for each in record.judgements if each.replayed), None)
    rows = judged.metrics if judged else ()
    titles = [f"{escape(words.metric_title(row.metric))}, %" for row in rows]
    cost = ["made in", "drift, nats", *(["speed"] if _loaded(record) else [])]
    head = ["build", "weights", *cost, *titles, "worse / better", "lower limit, worst metric (margin)", "verdict"]
    lines = [_line(head), _line([":--", *["--:"] * (len(head) - 3), ":--", ":--"])]
    if judged:
        rates = [words.percent(row.baseline_rate) for row in rows]
        before = ["", "", *(["1.00"] if _loaded(record) else [])]
        lines.append(_line([BASELINE, words.size(judged.baseline_weight_bytes), *before, *rates, "", "", ""]))
    return [
        *lines,
        *(_line(_markdown_cells(candidate, len(titles), _loaded(record))) for candidate in record.candidates),
    ]


def _loaded(record: LadderRecord) -> bool:
    return any(judged.speed is not None for judged in record.judgements)


def _markdown_cells(candidate: Candidate, metrics: int, loaded: bool) -> list[str]:
    judged = candidate.judgement
    cells = [escape(candidate.recipe), words.size(candidate.weight_bytes)]
    cells += [phrases.made_in(judged), phrases.drift(judged), *([phrases.speed(judged)] if loaded else [])]
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
