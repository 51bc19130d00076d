"""Comparing what was recorded with what was derived again, field by field and line by line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.bundle.layout import Difference

SHOWN = 120
"""Characters shown of a value."""
MOST = 20
"""Differences named of one record; an edited verdict drags few figures with it, an edited reply may drag many."""
_KEYS = ("metric", "slice", "code", "turn_id", "check")
"""Fields by which an entry of a list is called; else it is called by its number."""


def fields(where: str, recorded: Any, derived: Any) -> list[Difference]:
    """Fields of a JSON value that differ from what was derived again."""
    found = list(itertools.islice(_fields(where, recorded, derived), MOST + 1))
    return found if len(found) <= MOST else [*found[:MOST], Difference(where, "differs in further fields")]


def _fields(where: str, recorded: Any, derived: Any) -> Iterator[Difference]:
    if isinstance(recorded, Mapping) and isinstance(derived, Mapping):
        for name in sorted(recorded.keys() | derived.keys()):
            if name not in derived:
                yield Difference(f"{where}.{name}", f"recorded {_shown(recorded[name])}, not derived")
            elif name not in recorded:
                yield Difference(f"{where}.{name}", f"derived {_shown(derived[name])}, not recorded")
            else:
                yield from _fields(f"{where}.{name}", recorded[name], derived[name])
    elif isinstance(recorded, list) and isinstance(derived, list):
        if len(recorded) != len(derived):
            yield Difference(where, f"recorded {len(recorded)} entries, derived {len(derived)}")
        for number, (one, other) in enumerate(zip(recorded, derived, strict=False)):
            yield from _fields(f"{where}[{_called(other, number)}]", one, other)
    elif (type(recorded) is not type(derived) and not _numbers(recorded, derived)) or recorded != derived:
        yield Difference(where, f"recorded {_shown(recorded)}, derived {_shown(derived)}")


def lines(where: str, recorded: Path, derived: Path) -> list[Difference]:
    """Lines of two *.jsonl files that differ, called by turn and metric."""
    found = list(itertools.islice(_lines(where, recorded, derived), MOST + 1))
    return found if len(found) <= MOST else [*found[:MOST], Difference(where, "differs in further lines")]


def _lines(where: str, recorded: Path, derived: Path) -> Iterator[Difference]:
    with recorded.open("rb") as one, derived.open("rb") as other:
        for number, (old, new) in enumerate(itertools.zip_longest(one, other), 1):
            if old == new:
                continue
            if old is None or new is None:
                yield Difference(
                    f"{where}:{number}", "recorded, not derived" if new is None else "derived, not recorded"
                )
                return
            try:
                before, after = json.loads(old), json.loads(new)
            except (ValueError, RecursionError):
                yield Difference(f"{where}:{number}", "is not JSON, or nested too deeply to be read")
                continue
            called = " ".join(str(after[key]) for key in ("turn_id", "metric") if key in after)
            yield from _fields(f"{where}:{number} ({called})", before, after)


def _numbers(one: Any, other: Any) -> bool:
    """1 and 1.0 are the same figure, True and 1 are not."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))


def _called(entry: Any, number: int) -> str:
    names = [str(entry[key]) for key in _KEYS if key in entry] if isinstance(entry, Mapping) else []
    return " ".join(names) or str(number)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
