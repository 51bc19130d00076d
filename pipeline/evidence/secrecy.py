"""No credential may become part of what is kept of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import RecordError
from pipeline.secrets import find_secret


def demand_no_secrets(root: Path, files: Iterable[Path]) -> None:
    """Refuse files below ``root`` that would give a credential away.

    :raises RecordError: names file and line, and not the secret.
    """
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        if kind := find_secret(text):
            lines = text.split("\n")
            number = next((n for n, line in enumerate(lines, 1) if find_secret(line)), 1)
            raise RecordError(
                f"{path.relative_to(root)}:{number}: {kind} would become part of the evidence",
                "Take it out of the golden set or the settings, have it revoked, and run again.",
            )
