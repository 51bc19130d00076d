"""Calibration conversations: which ones a recipe uses, and their digest.

They come from a directory of JSONL files, one conversation a line: ``{"messages": [...], "tools": [...]}``.
``tools`` and ``policy`` may name a file of a golden set, whose tools and policies a production prompt
holds too. Conversations of a golden set are refused, and so are others that share words with one (see
``golden/contamination.py``): a candidate calibrated on the questions that it is judged by would look better
than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.digests import canonical_json, digest_of
from pipeline.errors import GoldenSetError
from pipeline.golden import GoldenSet
from pipeline.golden.complaints import SHOWN, Complaint, Severity
from pipeline.golden.contamination import SeenText
from pipeline.golden.reading import Library, Record, read_jsonl, read_library
from pipeline.golden.source import open_source


@dataclass(frozen=True, slots=True)
class CalibrationText:
    """The conversations a recipe calibrates on: ``{"messages": [...], "tools": [...]}`` each, and where they stand."""

    digest: str
    available: int
    samples: tuple[dict[str, Any], ...] = field(repr=False)
    places: tuple[str, ...] = field(repr=False)


def select(root: Path, samples: int, seed: int = 0) -> CalibrationText:
    """Choose ``samples`` conversations from the ``*.jsonl`` files in ``root``.

    The choice depends on the conversations and the seed alone, not on files or their order.

    :raises GoldenSetError: no or too few conversations, a broken line, or golden transcripts.
    """
    files = _files(root)
    libraries = _libraries(root)
    found = {}
    for record in _records(files):
        conversation = _conversation(record, libraries)
        found[digest_of([seed, conversation])] = conversation, f"{record.file}:{record.line}"
    if len(found) < samples:
        raise GoldenSetError(
            f"calibration text in {root}: {len(found)} different conversations, the recipe asks for {samples}",
            "Add conversations, or lower `calibration: samples` in the recipe.",
        )
    chosen, places = zip(*(found[key] for key in sorted(found)[:samples]), strict=True)
    return CalibrationText(digest_of(chosen), len(found), chosen, places)


def demand_disjoint(text: CalibrationText, golden: GoldenSet, others: Iterable[Path] = ()) -> None:
    """Refuse calibration text that shares customers' words with a golden set.

    :param golden: the set that the candidate will be judged by.
    :param others: directories of further sets.
    :raises GoldenSetError: names the transcripts, and where the calibration text stands.
    """
    seen = SeenText()
    for place, sample in zip(text.places, text.samples, strict=True):
        seen.add(place, {"messages": sample["messages"]})
    leaks: list[Complaint] = []
    for record in _golden_records(golden, others):
        if isinstance(record, Complaint):
            leaks.append(record)
        else:
            leaks += (complaint for complaint in seen.check(record) if complaint.severity is Severity.ERROR)
    _refuse(leaks, "Take the conversations named last out of the calibration text, or the transcripts out of the set.")


def _golden_records(golden: GoldenSet, others: Iterable[Path]) -> Iterator[Record | Complaint]:
    """Whole transcripts: those of ``golden`` as loaded, those of the other sets as they stand in their files."""
    longest = {turn.transcript_id: turn for turn in sorted(golden.turns, key=lambda turn: len(turn.messages))}
    for name, turn in longest.items():
        yield Record(golden.name, 0, {"id": name, "messages": [*turn.messages, turn.gold]})
    for folder in others:
        yield from open_source(folder).records()


def write(text: CalibrationText, path: Path) -> None:
    """Write the conversations, one a line, for the worker and for the record."""
    path.write_text("".join(canonical_json(sample) + "\n" for sample in text.samples), encoding="utf-8")


def _files(root: Path) -> list[Path]:
    files = sorted(root.glob("*.jsonl"))
    if not files:
        raise GoldenSetError(
            f"calibration text: no *.jsonl file in {root}",
            "Put conversations there, one JSON object a line: "
            '{"messages": [...], "tools": [...]}; never those of a golden set.',
        )
    for file in files:
        for folder in file.resolve().parents:
            if folder.name == "transcripts" or (folder / "transcripts").is_dir():
                raise GoldenSetError(
                    f"calibration text {file} lies inside the golden set {folder}",
                    "Calibrate on other conversations than those the candidate is judged by.",
                )
    return files


def _libraries(root: Path) -> list[Library]:
    """Tools and policies that a conversation may name: of ``root`` itself, then of the golden sets beside it."""
    homes = [
        root,
        *sorted(p for p in root.resolve().parent.iterdir() if (p / "tools").is_dir() and p != root.resolve()),
    ]
    libraries = []
    for home in homes:
        library, complaints = read_library(home)
        _refuse(complaints)
        libraries.append(library)
    return libraries


def _records(files: list[Path]) -> Iterator[Record]:
    for file in files:
        for record in read_jsonl(file):
            if isinstance(record, Complaint):
                _refuse([record])
            else:
                yield record


def _conversation(record: Record, libraries: list[Library]) -> dict[str, Any]:
    messages = record.data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        _refuse([record.complain("messages", "a list of chat messages is needed")])
        raise AssertionError("unreachable")
    if golden := [n for n, message in enumerate(messages) if "expect" in message]:
        _refuse([record.complain(f"messages[{golden[0]}].expect", "a golden transcript cannot be calibration text")])
    policy, tools = record.data.get("policy"), record.data.get("tools") or []
    if isinstance(policy, str):
        text = next((lib.policies[policy].text for lib in libraries if policy in lib.policies), None)
        if text is None:
            _refuse([record.complain("policy", f"no policy {policy!r} here or in a golden set beside")])
        messages = [{"role": "system", "content": text}, *messages]
    if isinstance(tools, str):
        listed = next((lib.tools[tools] for lib in libraries if tools in lib.tools), None)
        if listed is None:
            _refuse([record.complain("tools", f"no tool file {tools!r} here or in a golden set beside")])
        tools = list(listed or ())
    return {"messages": messages, "tools": tools}


def _refuse(complaints: list[Complaint], remedy: str = "Mend the lines named, then run again.") -> None:
    if complaints:
        more = f"\n... and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
        raise GoldenSetError("calibration text:\n" + "\n".join(map(str, complaints[:SHOWN])) + more, remedy)
