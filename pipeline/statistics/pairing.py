"""From two lists of outcomes to aligned arrays, with nothing lost on the way.

Every turn must have exactly one outcome per declared metric on each side, ``not_applicable`` included:
only so can a dropped line be told from a metric that does not read the turn. What breaks that rule is
collected, never repaired.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluators.turn import Outcome, Status, Turn

Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

MISSING, PASSED, FAILED, NOT_APPLICABLE, UNSCORABLE = range(5)
_CODES = {
    Status.PASSED: PASSED,
    Status.FAILED: FAILED,
    Status.NOT_APPLICABLE: NOT_APPLICABLE,
    Status.UNSCORABLE: UNSCORABLE,
}


@dataclass(frozen=True, slots=True)
class TurnIndex:
    """Turns by number, with their scenario numbers and slices.

    :ivar number: turn id -> number; of a repeated id, the first.
    :ivar scenarios: scenario names by number.
    :ivar scenario: scenario number of each turn.
    :ivar slices: slice name -> numbers of its turns, names in order.
    :ivar repeated: ids that stand for more than one turn.
    """

    turns: Sequence[Turn]
    number: Mapping[str, int]
    scenarios: tuple[str, ...]
    scenario: NDArray[np.intp]
    slices: Mapping[str, NDArray[np.intp]]
    critical: Mask
    repeated: tuple[str, ...]

    @staticmethod
    def of(turns: Sequence[Turn]) -> TurnIndex:
        """Number the turns."""
        number: dict[str, int] = {}
        scenarios: dict[str, int] = {}
        repeated: list[str] = []
        members: dict[str, array[int]] = {}
        scenario = np.zeros(len(turns), dtype=np.intp)
        critical = np.zeros(len(turns), dtype=np.bool_)
        for i, turn in enumerate(turns):
            if number.setdefault(turn.id, i) != i:
                repeated.append(turn.id)
            scenario[i] = scenarios.setdefault(turn.scenario, len(scenarios))
            critical[i] = turn.expect.critical
            for name in dict.fromkeys(turn.slices):
                members.setdefault(name, array("q")).append(i)
        slices = {name: np.array(members[name], dtype=np.intp) for name in sorted(members)}
        return TurnIndex(turns, number, tuple(scenarios), scenario, slices, critical, tuple(repeated))


@dataclass(frozen=True, slots=True)
class Side:
    """The outcomes of one replay as one array of status codes per declared metric.

    :ivar repeated: ``turn_id metric`` given more than once (the run is INVALID then, whatever is kept).
    :ivar unknown: turn ids that no turn has.
    :ivar undeclared: metrics that the policy does not name.
    """

    codes: Mapping[str, Codes]
    repeated: tuple[str, ...]
    unknown: tuple[str, ...]
    undeclared: tuple[str, ...]

    @staticmethod
    def of(outcomes: Iterable[Outcome], index: TurnIndex, metrics: Iterable[str]) -> Side:
        """Sort outcomes into arrays. A status that is not a :class:`Status` counts as unscorable."""
        cells = {metric: bytearray(len(index.turns)) for metric in metrics}
        repeated: list[str] = []
        unknown: dict[str, None] = {}
        undeclared: set[str] = set()
        number = index.number
        for outcome in outcomes:
            i = number.get(outcome.turn_id)
            if i is None:
                unknown[outcome.turn_id] = None
                continue
            column = cells.get(outcome.metric)
            if column is None:
                undeclared.add(outcome.metric)
                continue
            code = _CODES.get(outcome.status, UNSCORABLE)
            if column[i] != MISSING:
                repeated.append(f"{outcome.turn_id} {outcome.metric}")
            column[i] = max(column[i], code)
        codes = {metric: np.frombuffer(column, dtype=np.uint8) for metric, column in cells.items()}
        return Side(codes, tuple(repeated), tuple(unknown), tuple(sorted(undeclared)))

    def passes_all(self, metrics: Iterable[str]) -> Mask:
        """Turns read by at least one of the metrics and passed on every one that reads them."""
        passed = np.zeros(len(next(iter(self.codes.values()))), dtype=np.bool_)
        spoilt = np.zeros_like(passed)
        for metric in metrics:
            codes = self.codes[metric]
            passed |= codes == PASSED
            spoilt |= (codes != PASSED) & (codes != NOT_APPLICABLE)
        return passed & ~spoilt

    def fails_any(self, metrics: Iterable[str]) -> Mask:
        """Turns failed on at least one of the metrics."""
        failed = np.zeros(len(next(iter(self.codes.values()))), dtype=np.bool_)
        for metric in metrics:
            failed |= self.codes[metric] == FAILED
        return failed


@dataclass(frozen=True, slots=True)
class Pairs:
    """One metric on both sides.

    :ivar scored: turns passed or failed on both sides: the pairs that the statistics see.
    :ivar mismatched: turns that the metric reads on one side only.
    :ivar lacking_first, lacking_second: turns with a missing or unscorable outcome on that side.
    """

    first: Codes
    second: Codes
    scored: Mask
    mismatched: Mask
    lacking_first: Mask
    lacking_second: Mask

    @staticmethod
    def of(first: Codes, second: Codes) -> Pairs:
        """Align two sides of one metric. No outcome at all on both sides means no data, not missing data."""
        if not first.any() and not second.any():
            none = np.zeros(len(first), dtype=np.bool_)
            return Pairs(first, second, none, none, none, none)
        lacking_first = (first == MISSING) | (first == UNSCORABLE)
        lacking_second = (second == MISSING) | (second == UNSCORABLE)
        mismatched = (first == NOT_APPLICABLE) != (second == NOT_APPLICABLE)
        mismatched &= (first != MISSING) & (second != MISSING)
        scored = ((first == PASSED) | (first == FAILED)) & ((second == PASSED) | (second == FAILED))
        return Pairs(first, second, scored, mismatched, lacking_first, lacking_second)

    @property
    def lost(self) -> Mask:
        """Turns that the first side passes and the second fails."""
        lost: Mask = (self.first == PASSED) & (self.second == FAILED)
        return lost

    @property
    def gained(self) -> Mask:
        """Turns that the first side fails and the second passes."""
        gained: Mask = (self.first == FAILED) & (self.second == PASSED)
        return gained
