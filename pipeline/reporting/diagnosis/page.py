"""The page of a diagnosis: self-contained, without script, like the reports of gate runs."""

from __future__ import annotations

import yaml

from pipeline.reporting import words
from pipeline.reporting.diagnosis import phrases, table
from pipeline.reporting.diagnosis.facts import DiagnosisRecord
from pipeline.reporting.html import page_environment
from pipeline.visible import visible


def render(record: DiagnosisRecord) -> str:
    """Render the page; it links to ``../RUN/report.html`` of the proposal's gate run."""
    tables = [
        ("parts", "Parts", table.PARTS, table.part_rows(record, None)),
        ("slices", "Slices of the lost turns", table.SLICES, table.slice_rows(record)),
        ("curve", "What more bits restore", table.CURVE, table.curve_rows(record)),
    ]
    found = record.proposal
    page = (
        page_environment()
        .get_template("diagnosis.html.j2")
        .render(
            record=record,
            tables=tables,
            recipe=yaml.safe_dump(found.recipe, sort_keys=False, allow_unicode=True) if found else "",
            phrases=phrases,
            words=words,
        )
    )
    return visible(page)
