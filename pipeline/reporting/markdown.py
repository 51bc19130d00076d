"""The summary as GitHub-flavoured Markdown, for a pull request or a pipeline's job page."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from pipeline.reporting import words
from pipeline.reporting.drift import drift_summary
from pipeline.reporting.facts import RunFacts
from pipeline.reporting.general import general_lines
from pipeline.reporting.record import DecisionRecord, MetricRow, read_record
from pipeline.visible import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~@])")


def summary_markdown(decision: Mapping[str, Any], run: RunFacts) -> str:
    """Render the summary.

    :raises RecordError: the record cannot be shown.
    """
    record = read_record(decision)
    lines = [
        f"## {record.verdict.value}: {words.headline(record)}",
        "",
        f"{escape(run.recipe)} of {escape(run.model)}. {escape(words.tested(record))}",
        "",
        *_bullets("Waived, which is no ACCEPT", list(run.waivers)),
        *_bullets("Why", [reason.text for reason in record.reasons]),
        *_bullets("What would change it", [record.to_change]),
        *_bullets("Next step", [words.next_step(record, run)]),
        *metric_table(record),
        *_bullets("General ability", general_lines(record.general)),
        *_bullets("Drift of next-token distributions", drift_summary(record.drift)),
        *_bullets("Risk and gain", [*words.risk(record), *(words.gains(record) or [words.gain(record)])]),
        *_bullets("Critical turns that the candidate fails", list(record.critical.failed)),
        *_bullets("Lost turns to read first", words.worst_flips(record)),
        *_bullets("Noise floor", words.noise(record)),
        *_bullets("Inspection of the candidate", [words.finding(found) for found in record.findings]),
        *_bullets("The verdict is conditional on", list(record.conditions)),
        *_bullets("To bear in mind", words.caveats(record, run.notes)),
        f"Run it again: {code(run.command)}. Exit code {record.exit_code}.",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that Markdown and the HTML in it leave alone, on one line."""
    one_line = " ".join(visible(text).split())
    return _MARKUP.sub(r"\\\1", html.escape(one_line, quote=False))


def code(text: str) -> str:
    """Text in a code font, whatever is in it, on one line."""
    one_line = html.escape(" ".join(visible(text).split()))
    return f"<code>{_MARKUP.sub(lambda found: f'&#{ord(found[0])};', one_line)}</code>"


def _bullets(title: str, lines: list[str]) -> list[str]:
    return [f"**{title}**", "", *(f"- {escape(line)}" for line in lines), ""] if lines else []


def metric_table(record: DecisionRecord) -> list[str]:
    """The metrics as lines of a table, with an empty line after them."""
    limit = f"lower limit ({words.confidence(record)})"
    head = f"| metric | verdict | turns | baseline % | candidate % | difference | {limit} | margin | worse | better |"
    rule = "| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | --: |"
    return [head, rule, *(_row(row) for row in record.metrics), ""]


def _row(row: MetricRow) -> str:
    verdict = "not gating" if not row.gating else row.verdict.value if row.verdict else "none"
    cells = [
        escape(row.metric),
        verdict,
        str(row.n),
        words.percent(row.baseline_rate),
        words.percent(row.candidate_rate),
        words.points(row.difference),
        words.limit_points(row.lower, row.margin),
        words.points(-row.margin),
        str(row.b),
        str(row.c),
    ]
    return f"| {' | '.join(cells)} |"
