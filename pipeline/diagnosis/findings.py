"""From the worker's measurements to the facts of a diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evaluators.turn import Turn
from pipeline.diagnosis.parts import Part
from pipeline.diagnosis.proposal import FULL
from pipeline.diagnosis.turns import LostTurn
from pipeline.reporting.diagnosis.facts import KvFacts, Measured, PartFacts, Point, SliceFacts, TurnFacts

Drifts = Sequence[Sequence[Any]]
"""Of each measured turn: nats a token, and whether every greedy choice is the baseline's."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The worker's result, as far as a diagnosis reads it."""

    found: Mapping[str, Any]
    parts: Sequence[Part]

    @property
    def turn_ids(self) -> list[str]:
        """The turns that were measured: those whose answer has tokens."""
        return list(self.found["turns"])

    @property
    def whole(self) -> Measured:
        """The candidate as it is."""
        return measured(self.found["whole"])

    @property
    def enough(self) -> bool:
        """Whether some number of promoted parts takes enough of the drift away."""
        return self.found["count"] is not None

    @property
    def promoted(self) -> dict[str, str]:
        """The fewest parts that do, with the level of each."""
        order = self.found["order"][: self.found["count"] or 0]
        return {name: self.found["level"][name] for name in order}

    @property
    def predicted(self) -> Measured:
        """The candidate with those promoted."""
        return measured(self.found["curve"][str(self.found["count"])])

    def kv(self) -> KvFacts | None:
        """The quantized KV cache, if there is one."""
        if "kv" not in self.found:
            return None
        alone, weights = measured(self.found["kv"]), measured(self.found["weights"])
        return KvFacts(alone=alone, weights=weights, kept=self.found["keeps_kv"])

    def part_facts(self) -> tuple[PartFacts, ...]:
        """Every part, in the order of the layers."""
        return tuple(
            PartFacts(
                name=part.name,
                layer=part.layer,
                kind=part.kind,
                bits=part.bits,
                alone=measured(self.found["alone"][part.name]),
                promoted_to=self.promoted.get(part.name),
                extra_bytes=self._extra(part),
            )
            for part in self.parts
        )

    def _extra(self, part: Part) -> int:
        level = self.found["level"].get(part.name, FULL if part.extra_8 is None else "")
        return part.extra_16 if level == FULL or part.extra_8 is None else part.extra_8

    def curve(self) -> tuple[Point, ...]:
        """What more and more promoted parts leave of the drift."""
        sizes = {part.name: self._extra(part) for part in self.parts}
        order = self.found["order"]
        return tuple(
            Point(
                promoted=int(count),
                extra_bytes=sum(sizes[name] for name in order[: int(count)]),
                measured=measured(drifts),
            )
            for count, drifts in sorted(self.found["curve"].items(), key=lambda point: int(point[0]))
        )

    def turn_facts(self, lost: Iterable[LostTurn]) -> tuple[TurnFacts, ...]:
        """The measured turns."""
        known = {turn.turn_id: turn for turn in lost}
        return tuple(
            TurnFacts(
                turn_id=turn_id,
                critical=known[turn_id].critical,
                metrics=known[turn_id].metrics,
                tokens=self.found["turns"][turn_id],
                drift=nats,
                same_words=same,
            )
            for turn_id, (nats, same) in zip(self.turn_ids, self.found["whole"], strict=True)
        )

    def slices(self, lost: Iterable[LostTurn], turns: Mapping[str, Turn]) -> tuple[SliceFacts, ...]:
        """The slices of the lost turns, the one that lost most first."""
        members: dict[str, list[str]] = defaultdict(list)
        for each in lost:
            for name in turns[each.turn_id].slices:
                members[name].append(each.turn_id)
        rows = [self._slice(name, ids) for name, ids in members.items()]
        return tuple(sorted(rows, key=lambda row: (-row.lost, row.slice)))

    def _slice(self, name: str, lost: Sequence[str]) -> SliceFacts:
        places = [place for place, turn_id in enumerate(self.turn_ids) if turn_id in set(lost)]
        if not places:
            return SliceFacts(slice=name, lost=len(lost), measured=0, drift=None, worst_part=None)

        def there(drifts: Drifts) -> float:
            return fmean(drifts[place][0] for place in places)

        worst = max((part.name for part in self.parts), key=lambda part: there(self.found["alone"][part]))
        drift = there(self.found["whole"])
        return SliceFacts(slice=name, lost=len(lost), measured=len(places), drift=drift, worst_part=worst)


def measured(drifts: Drifts) -> Measured:
    """Mean over turns, and how many keep the baseline's words."""
    return Measured(drift=fmean(nats for nats, _ in drifts), same_words=sum(same for _, same in drifts))
