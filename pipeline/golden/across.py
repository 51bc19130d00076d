"""Checks between the transcripts of a set: repeated ids and conversations, contradictions."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from evaluators.turn import Turn
from pipeline.digests import canonical_json
from pipeline.golden.complaints import Complaint, Severity
from pipeline.golden.reading import Record
from pipeline.golden.similarity import NearDuplicates, conversation_text, words


def _digest(*parts: object) -> bytes:
    return blake2b(canonical_json(parts).encode(), digest_size=16).digest()


class Across:
    """Sees every transcript once; keeps digests, ids and places, not the transcripts."""

    def __init__(self, near: bool = True) -> None:
        self._ids: dict[str, int] = {}
        self._places: list[tuple[str, int, str, str]] = []
        self._conversations: dict[bytes, int] = {}
        self._requests: dict[bytes, tuple[bytes, int, str]] = {}
        self._near = NearDuplicates() if near else None
        self._repeats: set[int] = set()

    def add(self, record: Record, turns: tuple[Turn, ...]) -> Iterator[Complaint]:
        """Take in one transcript that passed its own checks; complain about what it repeats."""
        number = len(self._places)
        self._places.append((record.file, record.line, record.id, record.data["scenario"]))
        first = self._ids.setdefault(record.id, number)
        if first != number:
            yield record.complain("id", f"is used before, at {self._where(first)}")
        messages = record.data["messages"]
        key = _digest(
            record.data.get("policy"),
            [(m["role"], words(m.get("content") or ""), m.get("tool_calls")) for m in messages],
            [m["expect"].get("tool_calls") for m in messages if "expect" in m],
        )
        first = self._conversations.setdefault(key, number)
        if first != number:
            self._repeats.add(number)
            yield record.complain("messages", f"the same conversation as {self._name(first)}")
        else:
            yield from self._turns(record, turns, number)
        if self._near is not None:
            self._near.add(conversation_text(messages))

    def _turns(self, record: Record, turns: tuple[Turn, ...], number: int) -> Iterator[Complaint]:
        for turn in turns:
            index = turn.id.rpartition("#")[2]
            raw = record.data["messages"][int(index)]["expect"]
            expect = _digest({key: value for key, value in raw.items() if key not in ("slices", "critical")})
            asked = _digest(turn.messages, turn.tools)
            seen = self._requests.setdefault(asked, (expect, number, index))
            if seen[1:] == (number, index):
                continue
            other = f"turn {self._places[seen[1]][2]}#{seen[2]} ({self._where(seen[1])})"
            if seen[0] != expect:
                message = f"contradicts {other}: the same history with another expectation"
            else:
                message = f"repeats {other}: the same history and expectation would count twice"
            yield record.complain(f"messages[{index}].expect", message)

    def near_duplicates(self) -> Iterator[Complaint]:
        """Warn of nearly equal conversations that claim to be different scenarios."""
        if self._near is None:
            return
        for later, earlier, similarity in self._near.pairs():
            file, line, name, scenario = self._places[later]
            if later in self._repeats or scenario == self._places[earlier][3]:
                continue
            yield Complaint(
                file,
                line,
                name,
                "messages",
                f"{similarity:.0%} the same word triples as {self._name(earlier)}, another scenario: "
                "give both one scenario id, or tell them apart",
                Severity.WARNING,
            )

    def _where(self, number: int) -> str:
        file, line, _, _ = self._places[number]
        return f"{file}:{line}"

    def _name(self, number: int) -> str:
        return f"{self._places[number][2]} ({self._where(number)})"
