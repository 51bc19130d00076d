"""Does a golden transcript also stand in calibration or training data?

Two signs, both on the customer's and the assistant's words only, lower-cased and without punctuation:
a run of 13 words in common (the n-gram of Brown et al. 2020, "Language Models are Few-Shot Learners",
appendix C), and a whole customer message in common. Runs in the customer's words are errors; runs in
the assistant's words alone are warnings, as stock phrases of an assistant repeat legitimately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pipeline.golden.complaints import Complaint, Severity
from pipeline.golden.reading import Record, read_jsonl
from pipeline.golden.similarity import words

RUN = 13
"""Words in a run."""

MESSAGE = 8
"""Fewest words of a customer message that may not occur as a whole elsewhere; shorter ones do by chance."""


def _hash(listed: Sequence[str]) -> int:
    return int.from_bytes(blake2b(" ".join(listed).encode(), digest_size=8).digest(), "big")


def _runs(listed: Sequence[str]) -> Iterator[int]:
    for start in range(len(listed) - RUN + 1):
        yield _hash(listed[start : start + RUN])


def _texts(value: Any) -> Iterator[str]:
    """Every text in a record, but no system message, tool result or schema."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        if value.get("role") in ("system", "tool", "developer"):
            return
        for key, part in value.items():
            if key not in ("tools", "id", "meta", "source", "licence", "role"):
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


class SeenText:
    """Hashes of all runs and messages of some data, and where each stands: about 100 bytes a word of it."""

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}
        self._messages: dict[int, int] = {}
        self._places: list[str] = []

    def add_files(self, paths: Iterable[Path]) -> list[Complaint]:
        """Read JSON-lines files of any form; unreadable lines are errors."""
        complaints = []
        for path in paths:
            for record in read_jsonl(path):
                if isinstance(record, Complaint):
                    complaints.append(record)
                else:
                    self.add(f"{record.file}:{record.line}", record.data)
        return complaints

    def add(self, place: str, data: Any) -> None:
        """Add the texts of one record."""
        self._places.append(place)
        number = len(self._places) - 1
        for text in _texts(data):
            listed = words(text)
            if len(listed) >= MESSAGE:
                self._messages.setdefault(_hash(listed), number)
            for run in _runs(listed):
                self._runs.setdefault(run, number)

    def check(self, record: Record) -> Iterator[Complaint]:
        """Complain about the messages of a golden transcript that stand in the data."""
        if not self._places:
            return
        for index, message in enumerate(record.data["messages"]):
            if message["role"] not in ("user", "assistant") or not message.get("content"):
                continue
            listed, user = words(message["content"]), message["role"] == "user"
            place = next((self._runs[run] for run in _runs(listed) if run in self._runs), None)
            if place is None and user and len(listed) >= MESSAGE:
                place = self._messages.get(_hash(listed))
            if place is not None:
                whose = "the customer's words" if user else "words of the assistant"
                yield Complaint(
                    record.file,
                    record.line,
                    record.id,
                    f"messages[{index}].content",
                    f"{whose} also stand in {self._places[place]}: a model that was tuned or calibrated on it "
                    "has seen the question",
                    Severity.ERROR if user else Severity.WARNING,
                )
