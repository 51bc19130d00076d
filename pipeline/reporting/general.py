"""General ability in words."""

from __future__ import annotations

from pipeline.reporting import words
from pipeline.reporting.record import General, MetricRow


def general_lines(general: General | None) -> list[str]:
    """One line a task: how both sides did, what that bounds, and what it comes to."""
    return [] if general is None else [_line(row) for row in general.metrics]


def what_was_asked(general: General) -> str:
    """Suite, number of items and versions, in a sentence."""
    versions = sorted({str(task.get("lm_eval")) for task in general.tasks.values()})
    return (
        f"{general.items:,} items of the suite {general.suite} (lm-eval {', '.join(versions)}), asked of both builds "
        f"under the same conditions and compared item by item."
    )


def task_of(general: General, row: MetricRow) -> str:
    """The lm-eval task behind a row, with its version and the figure that says pass."""
    task = general.tasks.get(row.metric.partition(".")[2], {})
    known = task.get("versions") or {}
    version = known.get(task.get("task"), next(iter(known.values()), None))
    return f"{task.get('task')} {version}: {task.get('metric')}"


def _line(row: MetricRow) -> str:
    if row.lower is None or row.baseline_rate is None or row.candidate_rate is None:
        return f"{row.metric}: not measured."
    verdict = "not gating" if not row.gating else row.verdict.value if row.verdict else "none"
    unscorable = row.unscorable_baseline + row.unscorable_candidate
    rates = f"{words.percent(row.baseline_rate)} -> {words.percent(row.candidate_rate)} %"
    return (
        f"{row.metric}: {rates} of {row.n:,} items, "
        f"{words.points(row.difference)} points (lower limit {words.limit_points(row.lower, row.margin)}, margin "
        f"{words.points(-row.margin)}; {row.b} lost, {row.c} gained): {verdict}"
        + (f"; {unscorable} answers are missing." if unscorable else ".")
    )
