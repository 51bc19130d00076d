"""Findings of the inspection, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pipeline.reporting.record import Finding
from pipeline.visible import visible

_STYLES = {"fatal": "bold red", "parity": "bold magenta", "warning": "yellow", "note": "dim"}


def findings_view(findings: Sequence[Mapping[str, Any]], tested: str) -> RenderableType:
    """The findings, each with its remedy, and how many there are of each severity.

    :param findings: as JSON values, in the order to show them.
    :param tested: what was inspected.
    """
    parts: list[RenderableType] = []
    found = [Finding.model_validate(finding) for finding in findings]
    for each in found:
        parts.append(Text.assemble((each.severity, _STYLES[each.severity]), " ", (each.check, "bold")))
        parts += [Padding(Text(visible(line)), (0, 0, 0, 2)) for line in (each.where, each.text, each.remedy)]
    counts = [f"{sum(f.severity == severity for f in found)} {severity}" for severity in _STYLES]
    parts.append(Text(f"{visible(tested)}: {', '.join(counts)}"))
    return Group(*parts)
