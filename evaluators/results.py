"""Small makers of outcomes and of readable evidence, shared by the evaluators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from evaluators.turn import Outcome, Status, Turn

EVIDENCE_LENGTH = 160
"""Longest quotation in a piece of evidence, in characters."""


def not_applicable(turn: Turn, metric: str) -> Outcome:
    """The metric does not read this turn."""
    return Outcome(turn.id, metric, Status.NOT_APPLICABLE, "not_applicable")


def passed(turn: Turn, metric: str, label: str, evidence: Iterable[str] = ()) -> Outcome:
    """The metric passed, in the way that ``label`` names."""
    return Outcome(turn.id, metric, Status.PASSED, label, tuple(evidence))


def failed(turn: Turn, metric: str, label: str, evidence: Iterable[str] = ()) -> Outcome:
    """The metric failed, in the way that ``label`` names."""
    return Outcome(turn.id, metric, Status.FAILED, label, tuple(evidence))


def unscorable(turn: Turn, metric: str, label: str, evidence: str) -> Outcome:
    """The metric should have been read, but could not be."""
    return Outcome(turn.id, metric, Status.UNSCORABLE, label, (evidence,))


def clip(text: str, length: int = EVIDENCE_LENGTH) -> str:
    """``text`` on one line, shortened, and free of lone surrogates (they cannot be written as UTF-8)."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
    return line if len(line) <= length else line[: length - 1] + "…"


def quote(text: str, length: int = EVIDENCE_LENGTH) -> str:
    """``text`` clipped, between quotation marks."""
    return f"“{clip(text, length)}”"


def shown(value: Any) -> str:
    """A JSON value as short text."""
    return clip(json.dumps(value, ensure_ascii=False, default=str))


def text_of(message: Any) -> str:
    """The text of a chat message; the text parts of a multi-part one, joined by line breaks."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(_part_texts(content)) if isinstance(content, list) else ""


def _part_texts(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
