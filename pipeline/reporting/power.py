"""What a golden set can decide, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.reporting import words
from pipeline.statistics.planning import CriticalPlan, MetricPlan, PowerPlan
from pipeline.visible import visible


def power_view(plan: PowerPlan, tested: str, items: Sequence[MetricPlan] = ()) -> RenderableType:
    """The plan as tables with their reading in words.

    :param tested: what is planned for, e.g. the name of the golden set.
    :param items: the tasks of general ability, where the policy demands any.
    """
    parts: list[RenderableType] = [
        Text(f"What {visible(tested)} can decide", "bold"),
        Text(),
        _metrics((*plan.metrics, *items)),
        Text(
            "flips: share of turns on which the sides are assumed to differ; decides: smallest margin that is cleared "
            "in 4 runs of 5 when nothing is lost; needed: turns for the margin at hand",
            "dim",
        ),
        Text(),
    ]
    parts += [_critical(plan.critical), Text()] if plan.critical[0].turns else []
    return Group(*parts, _conclusion(plan, items))


def _metrics(rows: Sequence[MetricPlan]) -> Table:
    table = _table("metric")
    for name in ("turns", "scenarios", "flips", "decides", "margin", "needed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        figures = (f"{100 * share:.1f} %" for share in (row.flip_rate, row.detectable, row.margin))
        table.add_row(
            Text(visible(row.metric)),
            f"{row.turns:,}",
            f"{row.scenarios:,}",
            *figures,
            "never" if row.needed is None else f"{row.needed:,}",
            _state(row),
            style="" if row.gating else "dim",
        )
    return table


def _state(row: MetricPlan) -> Text:
    if not row.gating:
        return Text("not gating")
    return Text("enough", "green") if row.adequate else Text("too few", "red")


def _critical(rows: Sequence[CriticalPlan]) -> Table:
    table = _table("critical turns")
    table.add_column("turns", justify="right")
    table.add_column("if all pass, such turns could still fail", justify="right")
    for row in rows:
        limit = f"in at most {words.in_hundred(row.upper_limit)}"
        table.add_row(Text(visible(row.group)), f"{row.turns:,}", limit)
    return table


def _table(first: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=21)
    return table


def _conclusion(plan: PowerPlan, items: Sequence[MetricPlan]) -> Text:
    parts: list[str | tuple[str, str]] = []
    if names := _named(plan.underpowered):
        parts.append((f"Too few turns for {names}: a run would stop at once, INCONCLUSIVE.", "red"))
        parts.append(" Turns in new scenarios help more than new turns in old ones. ")
    if names := _named(row for row in items if row.gating and not row.adequate):
        parts.append((f"Too few items for {names}: a run would hardly accept.", "red"))
    return Text.assemble(*(parts or [("Every gating metric can be decided at its margin.", "green")]))


def _named(rows: Iterable[MetricPlan]) -> str:
    return visible(", ".join(row.metric for row in rows))
