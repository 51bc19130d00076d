"""Loading a golden set into turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluators.turn import Turn
from pipeline.golden.across import Across
from pipeline.golden.complaints import Complaint, raise_errors
from pipeline.golden.examining import Examiner
from pipeline.golden.manifest import check_manifest
from pipeline.golden.source import open_source


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A loaded set. ``digest`` is its identity; ``turns`` are sorted by id; ``scenarios`` and
    ``transcript_count`` are numbers; ``slice_counts`` gives the turns in each slice.
    """

    name: str
    root: Path | str
    digest: str
    transcript_count: int
    scenarios: int
    turns: tuple[Turn, ...]
    slice_counts: Mapping[str, int]


def load(root: Path | str) -> GoldenSet:
    """Load a set: a directory, one file of transcripts, a URL, or a hub id.

    Everything that one transcript can show to be wrong is refused here, as are repeated ids,
    repeated turns and contradictions; what is only searched for by :func:`pipeline.golden.check.check`
    (near-duplicates, contamination, golden replies that fail) is not.

    :raises GoldenSetError: lists the faults, each with file, line, id and field.
    """
    source = open_source(root)
    complaints: list[Complaint] = list(check_manifest(source))
    library, found = source.library()
    complaints += found
    examiner, across = Examiner(library), Across(near=False)
    turns: list[Turn] = []
    count = 0
    for record in source.records():
        if isinstance(record, Complaint):
            complaints.append(record)
            continue
        count += 1
        examined = examiner.examine(record)
        complaints += examined.complaints
        if examined.turns:
            complaints += across.add(record, examined.turns)
            turns += examined.turns
    if not count and not complaints:
        complaints.append(Complaint(source.shown, 0, "", "", "no transcripts in it"))
    raise_errors(source.shown, complaints)
    turns.sort(key=lambda turn: turn.id)
    return GoldenSet(
        name=source.name,
        root=root,
        digest=source.digest(),
        transcript_count=count,
        scenarios=len({turn.scenario for turn in turns}),
        turns=tuple(turns),
        slice_counts=dict(sorted(Counter(name for turn in turns for name in turn.slices).items())),
    )
