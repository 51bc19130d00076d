"""Importers: transcripts that people already have, in the golden form.

Each importer imports what it can and says of everything else why not. What it makes is then held to
the same checks as a hand-written transcript; what fails them is dropped with the complaint as reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.golden.across import Across
from pipeline.golden.examining import Examiner
from pipeline.golden.importers.bfcl import read_bfcl
from pipeline.golden.importers.common import Draft, Dropped, Options
from pipeline.golden.importers.openai_chat import read_openai
from pipeline.golden.importers.real_cases import read_real_cases
from pipeline.golden.importers.tau2 import read_tau2
from pipeline.golden.reading import Library, Record
from pipeline.golden.redact import redact

FORMATS: Mapping[str, Callable[[Path, Options], Iterator[Draft | Dropped]]] = {
    "openai": read_openai,
    "real-cases": read_real_cases,
    "bfcl": read_bfcl,
    "tau2": read_tau2,
}

__all__ = ["FORMATS", "Draft", "Dropped", "Imported", "Options", "import_transcripts"]


@dataclass(frozen=True, slots=True)
class Imported:
    """One transcript that was imported."""

    data: dict[str, Any]


def import_transcripts(
    form: str, paths: Iterable[Path], options: Options, *, redacted: bool = False, region: str = "US"
) -> Iterator[Imported | Dropped]:
    """Import files of one format, one case at a time; every case comes back, imported or dropped.

    :param form: a key of :data:`FORMATS`.
    :param redacted: replace personal data, see :func:`pipeline.golden.redact.redact`.
    :param region: where phone numbers without a country code belong (ISO 3166, two letters).
    :raises InputError: a file that cannot be read at all.
    """
    examiner, across = Examiner(Library({}, {})), Across(near=False)
    for path in paths:
        for draft in FORMATS[form](path, options):
            if isinstance(draft, Dropped):
                yield draft
                continue
            data = redact(draft.data, region) if redacted else draft.data
            yield _judged(Record(draft.file, draft.line, data), examiner, across)


def _judged(record: Record, examiner: Examiner, across: Across) -> Imported | Dropped:
    examined = examiner.examine(record)
    complaints = list(examined.complaints)
    if examined.turns:
        complaints += across.add(record, examined.turns)
    if complaints:
        reasons = [f"{c.field}: {c.message}" if c.field else c.message for c in complaints[:3]]
        more = f" (and {len(complaints) - 3} more)" if len(complaints) > 3 else ""
        return Dropped(record.file, record.line, record.id, "; ".join(reasons) + more)
    return Imported(record.data)
