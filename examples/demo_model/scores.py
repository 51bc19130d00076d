"""Pass rates of a replay on golden families that had training templates and on those that had none.

Run ``python examples/demo_model/scores.py OUTCOMES`` with the main environment; ``OUTCOMES`` is the ``outcomes.jsonl``
in the directory that ``quant-gate evaluate --model demo`` prints. The result is Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from generate import BUSINESSES, HERE, SUPPORT, held_out_families

from evaluators import METRICS
from evaluators.turn import Outcome, Status
from pipeline import golden
from pipeline.evidence.outcomes import read_outcomes

GROUPS = ("all", "trained families", "held-out families")


def trained_families(business: str) -> set[str]:
    """Families that have at least one training template."""
    lines = (HERE / "businesses" / f"{business}.txt").read_text(encoding="utf-8").splitlines()
    return {line.split("|")[2].strip() for line in lines if line.startswith("== ")}


def scenario_groups() -> dict[str, str]:
    """Map each scenario to the group of its family. A family without templates counts as held out, named so or not."""
    groups = {}
    for business in BUSINESSES:
        trained = trained_families(business) - held_out_families(business)
        for path in (SUPPORT / "transcripts").glob(f"{business}-*.jsonl"):
            for line in path.read_text(encoding="utf-8").splitlines():
                transcript = json.loads(line)
                known = transcript["meta"]["family"] in trained
                groups[transcript["scenario"]] = GROUPS[1] if known else GROUPS[2]
    return groups


def rates(outcomes: Iterable[Outcome]) -> dict[str, dict[str, tuple[int, int]]]:
    """Passed and scored turns by metric, by group and by slice (``metric -> column -> (passed, scored)``)."""
    turns = {turn.id: turn for turn in golden.load(str(SUPPORT)).turns}
    groups = scenario_groups()
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for outcome in outcomes:
        if outcome.status is Status.NOT_APPLICABLE:
            continue
        turn = turns[outcome.turn_id]
        for column in (GROUPS[0], groups[turn.scenario], *turn.slices):
            counts[outcome.metric][column][0] += outcome.status is Status.PASSED
            counts[outcome.metric][column][1] += 1
    return {metric: {name: (pair[0], pair[1]) for name, pair in columns.items()} for metric, columns in counts.items()}


def table(measured: dict[str, dict[str, tuple[int, int]]], columns: Iterable[str]) -> str:
    """Markdown: one row a column of ``measured``, one column a metric."""
    metrics = [metric for metric in METRICS if metric in measured]
    lines = ["| turns | " + " | ".join(metrics) + " |", "|---" * (len(metrics) + 1) + "|"]
    for column in columns:
        cells = []
        for metric in metrics:
            passed, scored = measured[metric].get(column, (0, 0))
            cells.append(f"{passed / scored:.1%} ({passed}/{scored})" if scored else "-")
        lines.append(f"| {column} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outcomes", type=Path)
    measured = rates(read_outcomes(parser.parse_args().outcomes))
    slices = sorted({column for columns in measured.values() for column in columns} - set(GROUPS))
    print(table(measured, GROUPS), table(measured, slices), sep="\n\n")


if __name__ == "__main__":
    main()
