"""All checks of a golden set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators import evaluate
from evaluators.turn import Reply, Status, ToolCall, Turn
from pipeline.golden.across import Across
from pipeline.golden.complaints import Complaint
from pipeline.golden.contamination import SeenText
from pipeline.golden.examining import Examiner
from pipeline.golden.manifest import check_manifest
from pipeline.golden.reading import Record
from pipeline.golden.source import open_source
from pipeline.progress import Progress, Silent
from pipeline.settings import PROJECT_ROOT

MOST_COMPLAINTS = 5_000
"""Complaints kept; a set with more faults than this is not mended one by one."""


def calibration_files() -> list[Path]:
    """The texts that quantizers are calibrated with."""
    return sorted((PROJECT_ROOT / "golden_sets" / "calibration").glob("*.jsonl"))


@dataclass(frozen=True, slots=True)
class Survey:
    """What a check saw: complaints in file order, and counts over the transcripts without errors."""

    complaints: tuple[Complaint, ...]
    transcripts: int
    scenarios: int
    turns: int
    slice_counts: Mapping[str, int]


def check(root: Path | str, against: Iterable[Path] | None = None, progress: Progress | None = None) -> list[Complaint]:
    """The complaints of :func:`survey`."""
    return list(survey(root, against, progress).complaints)


def survey(root: Path | str, against: Iterable[Path] | None = None, progress: Progress | None = None) -> Survey:
    """Check a set in one pass and bounded memory.

    :param against: JSON-lines files of calibration or training data that no golden transcript may
        stand in; none given: :func:`calibration_files`.
    :raises GoldenSetError: there is no set to check.
    """
    show = progress or Silent()
    source = open_source(root)
    complaints = list(check_manifest(source))
    library, found = source.library()
    complaints += found
    seen = SeenText()
    complaints += seen.add_files(calibration_files() if against is None else against)
    examiner, across = Examiner(library), Across()
    count, turns, scenarios, slices = 0, 0, set[str](), Counter[str]()
    for record in source.records():
        count += 1
        if isinstance(record, Complaint):
            complaints.append(record)
        else:
            examined = examiner.examine(record)
            complaints += examined.complaints
            if examined.turns:
                complaints += across.add(record, examined.turns)
                complaints += gold_fails(record, examined.turns)
                complaints += seen.check(record)
                turns += len(examined.turns)
                scenarios.add(record.data["scenario"])
                slices.update(name for turn in examined.turns for name in turn.slices)
        if count % 1000 == 0:
            show.say("check", f"{count:,} transcripts read, {len(complaints):,} complaints")
        if len(complaints) > MOST_COMPLAINTS:
            stop = f"stopped here after {len(complaints):,} complaints"
            complaints.append(Complaint(record.file, record.line, record.id, "", stop))
            break
    else:
        complaints += across.near_duplicates()
    if not count and not complaints:
        complaints.append(Complaint(source.shown, 0, "", "", "no transcripts in it"))
    return Survey(tuple(complaints), count, len(scenarios), turns, dict(sorted(slices.items())))


def gold_fails(record: Record, turns: Sequence[Turn]) -> Iterator[Complaint]:
    """Complain about golden replies that fail what their own turn expects."""
    for turn in turns:
        reply = gold_reply(turn)
        if reply is None:
            continue
        for outcome in evaluate(turn, reply):
            if outcome.status not in (Status.PASSED, Status.NOT_APPLICABLE):
                index = turn.id.rpartition("#")[2]
                why = "; ".join(outcome.evidence[:3])
                yield record.complain(
                    f"messages[{index}]",
                    f"the golden reply itself fails {outcome.metric}: {outcome.label}{': ' + why if why else ''}",
                )


def gold_reply(turn: Turn) -> Reply | None:
    """The golden assistant message as if a model had sent it; None where none is on record."""
    content, calls = turn.gold.get("content") or "", turn.gold.get("tool_calls", ())
    if not content and not calls:
        return None
    return Reply(
        turn_id=turn.id,
        content=content,
        tool_calls=tuple(ToolCall(call["function"]["name"], call["function"]["arguments"]) for call in calls),
        finish_reason="tool_calls" if calls else "stop",
    )
