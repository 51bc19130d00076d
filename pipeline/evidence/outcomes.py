"""Reading ``outcomes.jsonl``: one outcome a line, strict, because a decision rests on every line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evaluators.turn import Outcome, Status
from pipeline.errors import RecordError

_REMEDY = "Run the evaluate stage again; if it stays, remove its kept output first."
_STATUSES = {status.value: status for status in Status}


def read_outcomes(path: Path) -> list[Outcome]:
    """Read all outcomes of one side. Repeated texts are shared, so a million lines stay small.

    :raises RecordError: unreadable, or a line that is not an outcome, named by file and number.
    """
    shared: dict[str, str] = {}
    outcomes = []
    try:
        with path.open(encoding="utf-8") as handle:
            for number, line in enumerate(handle, 1):
                if not line.strip():
                    continue
                try:
                    outcomes.append(_outcome(json.loads(line), shared))
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise RecordError(f"{path}:{number}: not an outcome: {error!r}", _REMEDY) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot read: {error}", _REMEDY) from error
    return outcomes


def _outcome(value: Any, shared: dict[str, str]) -> Outcome:
    texts = [value[name] for name in ("turn_id", "metric", "label")]
    evidence = value["evidence"]
    if not isinstance(evidence, list) or not all(isinstance(text, str) for text in (*texts, *evidence)):
        raise TypeError("turn_id, metric, label and evidence hold text")
    turn_id, metric, label = (shared.setdefault(text, text) for text in texts)
    return Outcome(turn_id, metric, _STATUSES[value["status"]], label, tuple(evidence))
