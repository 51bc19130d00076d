"""Calibration conversations: which ones a recipe uses, and their digest.

They come from a directory of JSONL files, one conversation a line: ``{"messages": [...], "tools": [...]}``.
``tools`` and ``policy`` may name a file of the directory or of a golden set beside it, whose tools and policies
a production prompt holds too. Conversations of a golden set are refused, and so are others that share words with
one (see ``golden/contamination.py``): a candidate calibrated on the questions that it is judged by would look
better than it is.
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
from pipeline.quantizers.conversations import faults


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
    found = {}
    libraries: Libraries = []
    complaints: list[Complaint] = []
    for record in _records(_files(root)):
        if isinstance(record, Complaint):
            complaints.append(record)
        elif wrong := [record.complain(field, message) for field, message in faults(record.data)]:
            complaints += wrong
        else:
            if not libraries and any(isinstance(record.data.get(name), str) for name in ("policy", "tools")):
                libraries = _libraries(root)
            conversation = _conversation(record, libraries)
            found[digest_of([seed, conversation])] = conversation, f"{record.file}:{record.line}"
    _refuse(complaints)
    if len(found) < samples:
        raise GoldenSetError(
            f"calibration text in {root}: {len(found)} different conversations, the recipe asks for {samples}",
            "Add conversations, or lower `calibration: samples` in the recipe.",
        )
    chosen, places = zip(*(found[key] for key in sorted(found)[:samples]), strict=True)
    return CalibrationText(digest_of(chosen), len(found), chosen, places)


def readable(root: Path) -> Iterator[tuple[str, Any]]:
    """Each line of the ``*.jsonl`` files in ``root`` and where it stands, whatever it holds; none without files.

    :raises GoldenSetError: a line or a file that cannot be read.
    """
    for record in _records(sorted(root.glob("*.jsonl"))):
        if isinstance(record, Complaint):
            _refuse([record])
        else:
            yield f"{record.file}:{record.line}", record.data


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
        try:
            within = [f for f in file.resolve().parents if f.name == "transcripts" or (f / "transcripts").is_dir()]
        except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError
            raise GoldenSetError(
                f"calibration text {file}: where it lies cannot be told: {error}", "Mend or remove the link."
            ) from error
        if within:
            raise GoldenSetError(
                f"calibration text {file} lies inside the golden set {within[0]}",
                "Calibrate on other conversations than those the candidate is judged by.",
            )
    return files


Libraries = list[tuple[Library, list[Complaint]]]
"""Tools and policies that a conversation may name, each with what is wrong in its files."""


def _libraries(root: Path) -> Libraries:
    """Of ``root`` itself, then of the golden sets beside it; what cannot be read there is left out.

    A folder beside that is no golden set is none of ours, and neither are its faults.
    """
    library, complaints = read_library(root)
    _refuse(complaints)
    try:
        beside = sorted(filter(_is_golden_set, root.resolve().parent.iterdir()))
    except OSError:  # a parent that can be entered but not listed
        beside = []
    return [(library, []), *map(read_library, beside)]


def _is_golden_set(folder: Path) -> bool:
    """Whether it is one that we may read."""
    try:
        return (folder / "transcripts").is_dir()
    except OSError:
        return False


def _records(files: Iterable[Path]) -> Iterator[Record | Complaint]:
    for file in files:
        yield from read_jsonl(file)


def _conversation(record: Record, libraries: Libraries) -> dict[str, Any]:
    messages, policy, tools = (record.data.get(name) for name in ("messages", "policy", "tools"))
    if isinstance(policy, str):
        text = next((lib.policies[policy].text for lib, _ in libraries if policy in lib.policies), None)
        if text is None:
            _refuse(_missing(record, "policy", f"no policy {policy!r}", policy, libraries))
        messages = [{"role": "system", "content": text}, *(messages or ())]
    if isinstance(tools, str):
        listed = next((lib.tools[tools] for lib, _ in libraries if tools in lib.tools), None)
        if listed is None:
            _refuse(_missing(record, "tools", f"no tool file {tools!r}", tools, libraries))
        tools = list(listed or ())
    return {"messages": messages, "tools": tools or []}


def _missing(record: Record, field: str, what: str, name: str, libraries: Libraries) -> list[Complaint]:
    """What to say of a file that is not found: perhaps it is there and broken."""
    broken = [complaint for _, complaints in libraries for complaint in complaints if complaint.id == name]
    return [record.complain(field, f"{what} here or in a golden set beside"), *broken]


def _refuse(complaints: list[Complaint], remedy: str = "Mend the lines named, then run again.") -> None:
    if complaints:
        more = f"\n... and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
        raise GoldenSetError("calibration text:\n" + "\n".join(map(str, complaints[:SHOWN])) + more, remedy)
