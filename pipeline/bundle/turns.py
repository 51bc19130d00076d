"""Turns as lines of JSON: what was asked and what was expected, whatever form the golden set has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evaluators.turn import Turn
from pipeline.errors import RecordError
from pipeline.golden import GoldenSet

_REMEDY = "The evidence is damaged, was edited, or comes from another version of quant-gate."


@cache
def _adapter() -> TypeAdapter[Turn]:
    return TypeAdapter(Turn)


def write_turns(path: Path, turns: Iterable[Turn]) -> None:
    """Write one turn a line; sets in order, so that the same turns give the same bytes.

    Names keep their order: evidence lists the arguments of an expected call as the turn does.
    """
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for turn in turns:
            handle.write(json.dumps(turn, default=_plain, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    """What JSON does not know: facts as objects (``asdict`` would copy every message), sets in order."""
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return sorted(value)


def read_turns(path: Path) -> tuple[Turn, ...]:
    """Read them again, equal to those that were written.

    :raises RecordError: a line that is not a turn, named by number.
    """
    turns = []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    turns.append(_adapter().validate_json(line))
                except ValidationError as error:
                    raise RecordError(
                        f"{path.name}:{number}: not a turn: {error.errors()[0]['msg']}", _REMEDY
                    ) from error
    except OSError as error:
        raise RecordError(f"{path.name}: cannot be read: {error}", _REMEDY) from error
    return tuple(turns)


def read_golden(manifest: Mapping[str, Any], turns: tuple[Turn, ...]) -> GoldenSet:
    """The golden set of a bundle. Name, digest and number of transcripts are as recorded; the rest is counted.

    :raises RecordError: the golden manifest is incomplete.
    """
    try:
        return GoldenSet(
            name=str(manifest["name"]),
            root=str(manifest["name"]),
            digest=str(manifest["digest"]),
            transcript_count=int(manifest["transcripts"]),
            scenarios=len({turn.scenario for turn in turns}),
            turns=turns,
            slice_counts=dict(sorted(Counter(name for turn in turns for name in turn.slices).items())),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"golden.json: incomplete: {error!r}", _REMEDY) from error
