"""What a golden set holds, and what it can and cannot decide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evaluators.turn import Turn
from pipeline.golden.load import GoldenSet
from pipeline.settings import GateSettings
from pipeline.statistics.planning import plan_metric, turns_read

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English text, used when no tokenizer is at hand."""

FLIP_RATES = (0.02, 0.05, 0.10)
"""Shares of turns where a candidate differs from its baseline: careful 8-bit, usual, and coarse 4-bit builds."""

Tokenizer = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class SliceStats:
    """One slice (or the whole set): numbers of turns, scenarios, prompt tokens (mean, largest), critical turns."""

    name: str
    turns: int
    scenarios: int
    mean_tokens: int
    most_tokens: int
    critical: int


@dataclass(frozen=True, slots=True)
class Power:
    """What the set can decide about one metric.

    ``detectable`` and ``needed`` go with :data:`FLIP_RATES`: the smallest margin that the turns at
    hand can clear, and the turns that the metric's own margin needs.
    """

    metric: str
    gating: bool
    turns: int
    scenarios: int
    margin: float
    detectable: tuple[float, ...]
    needed: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """All counts of a set. ``counted`` says how tokens were counted."""

    name: str
    transcripts: int
    whole: SliceStats
    slices: tuple[SliceStats, ...]
    power: tuple[Power, ...]
    counted: str


def stats(golden: GoldenSet, gate: GateSettings | None = None, tokenizer: Tokenizer | None = None) -> Stats:
    """Count a set.

    :param gate: margins to judge the set by; none: that part is empty.
    :param tokenizer: text -> number of tokens; none: one token per four characters.
    """
    count = tokenizer or (lambda text: -(-len(text) // CHARACTERS_PER_TOKEN))
    tokens = {turn.id: count(_prompt(turn)) for turn in golden.turns}
    names = sorted(golden.slice_counts)
    return Stats(
        name=golden.name,
        transcripts=golden.transcript_count,
        whole=_slice("all turns", golden.turns, tokens),
        slices=tuple(_slice(n, [t for t in golden.turns if n in t.slices], tokens) for n in names),
        power=tuple(_power(golden.turns, gate)) if gate else (),
        counted="by the tokenizer" if tokenizer else f"approximate: characters / {CHARACTERS_PER_TOKEN}",
    )


def _prompt(turn: Turn) -> str:
    return json.dumps([turn.messages, turn.tools], ensure_ascii=False)


def _slice(name: str, turns: Sequence[Turn], tokens: dict[str, int]) -> SliceStats:
    sizes = [tokens[turn.id] for turn in turns]
    return SliceStats(
        name=name,
        turns=len(turns),
        scenarios=len({turn.scenario for turn in turns}),
        mean_tokens=round(sum(sizes) / len(sizes)) if sizes else 0,
        most_tokens=max(sizes, default=0),
        critical=sum(turn.expect.critical for turn in turns),
    )


def _power(turns: Iterable[Turn], gate: GateSettings) -> Iterator[Power]:
    for metric, read in turns_read(turns, gate.metrics).items():
        plans = [plan_metric(metric, read, gate, rate) for rate in FLIP_RATES]
        yield Power(
            metric=metric,
            gating=plans[0].gating,
            turns=plans[0].turns,
            scenarios=plans[0].scenarios,
            margin=plans[0].margin,
            detectable=tuple(plan.detectable for plan in plans),
            needed=tuple(plan.needed for plan in plans),
        )


# --- for the terminal --------------------------------------------------------------------------


def stats_view(found: Stats) -> RenderableType:
    """The counts as tables, with what they mean for the gate in words."""
    table = Table(title=f"{found.name}: {found.transcripts} transcripts", title_justify="left")
    table.add_column("slice")
    for heading in ("turns", "scenarios", "critical", "tokens, mean", "largest"):
        table.add_column(heading, justify="right")
    for part in (found.whole, *found.slices):
        figures = (part.turns, part.scenarios, part.critical, part.mean_tokens, part.most_tokens)
        table.add_row(Text(part.name), *(f"{figure:,}" for figure in figures))
    parts: list[RenderableType] = [table, Text(f"Prompt tokens per turn, {found.counted}.")]
    if found.power:
        parts += [Text(), _power_table(found.power), *(Text(line) for line in verdicts(found.power))]
    return Group(*parts)


def _power_table(power: Sequence[Power]) -> Table:
    table = Table(
        title="Smallest margin that the turns at hand clear (80 % of the time, when nothing is lost)",
        title_justify="left",
        caption="In brackets: the turns that the metric's own margin needs.",
        caption_justify="left",
    )
    table.add_column("metric", no_wrap=True)
    for heading in ("turns", "scenarios", "margin", *(f"if {rate:.0%} flip" for rate in FLIP_RATES)):
        table.add_column(heading, justify="right")
    for row in power:
        cells = [
            Text(f"{least:.1%} ({_count(needed)})", "green" if least <= row.margin else "red")
            for least, needed in zip(row.detectable, row.needed, strict=True)
        ]
        table.add_row(row.metric, f"{row.turns:,}", f"{row.scenarios:,}", f"{100 * row.margin:g}%", *cells)
    return table


def verdicts(power: Sequence[Power]) -> list[str]:
    """One sentence per gating metric: can the set decide its margin?"""
    lines = []
    for row in power:
        if not row.gating:
            continue
        clear = [rate for rate, least in zip(FLIP_RATES, row.detectable, strict=True) if least <= row.margin]
        if clear:
            lines.append(f"{row.metric}: can decide its margin while no more than {clear[-1]:.0%} of the turns flip.")
        else:
            lines.append(
                f"{row.metric}: cannot decide its margin of {100 * row.margin:g}% even if only {FLIP_RATES[0]:.0%} of "
                f"the turns flip: {row.turns:,} turns of {_count(row.needed[0])} needed."
            )
    lines.append("Turns of one scenario count for less than turns of different scenarios: write more scenarios.")
    return lines


def _count(turns: int | None) -> str:
    return "no number" if turns is None else f"{turns:,}"
