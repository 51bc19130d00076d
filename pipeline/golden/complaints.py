"""What is wrong with a golden set, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.errors import GoldenSetError
from pipeline.visible import visible

SHOWN = 20
"""Most complaints that one error message lists."""


class Severity(StrEnum):
    """Whether a complaint makes the set unusable."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Complaint:
    """One fault. ``line`` counts from 1 (a row number in files that have no lines); ``field`` is a
    path such as ``messages[3].expect.say[0]``; ``id`` is empty where no transcript id is known.
    """

    file: str
    line: int
    id: str
    field: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        """``file:line: id: field: message``."""
        return visible(f"{self.file}:{self.line}: {self.id or '-'}: {self.field or '-'}: {self.message}")


def raise_errors(name: str, complaints: Iterable[Complaint]) -> None:
    """Raise when any complaint is an error.

    :raises GoldenSetError: lists the first :data:`SHOWN` errors and counts the rest.
    """
    errors = [complaint for complaint in complaints if complaint.severity is Severity.ERROR]
    if not errors:
        return
    lines = [str(error) for error in errors[:SHOWN]]
    if len(errors) > SHOWN:
        lines.append(f"... and {len(errors) - SHOWN} more")
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    raise GoldenSetError(
        f"golden set {name}: {count}\n" + "\n".join(lines),
        f"Mend them; `quant-gate golden check {name}` lists all. docs/golden-sets.md tells how to write a turn.",
    )


def field_path(parts: Iterable[str | int]) -> str:
    """Write a JSON path as ``messages[3].expect``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
