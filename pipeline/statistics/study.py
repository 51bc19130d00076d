"""Everything that the rules read: turns, sides and pairs of one comparison, with its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluators.turn import Outcome, Turn
from pipeline.settings import GateSettings
from pipeline.statistics.limits import PairedCounts
from pipeline.statistics.pairing import PASSED, Mask, Pairs, Side, TurnIndex


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison, aligned.

    :ivar repeats: further replays of the baseline.
    :ivar pairs: baseline against candidate, by metric.
    :ivar repeat_pairs: baseline against each repeat, by metric.
    :ivar gating: names of the metrics that decide.
    """

    index: TurnIndex
    baseline: Side
    candidate: Side
    repeats: tuple[Side, ...]
    pairs: Mapping[str, Pairs]
    repeat_pairs: tuple[Mapping[str, Pairs], ...]
    gating: tuple[str, ...]
    policy: GateSettings

    @staticmethod
    def of(
        turns: Sequence[Turn],
        baseline: Sequence[Outcome],
        candidate: Sequence[Outcome],
        policy: GateSettings,
        repeats: Sequence[Sequence[Outcome]],
    ) -> Study:
        """Align outcomes to turns and metrics."""
        index = TurnIndex.of(turns)
        first, second, *others = (
            Side.of(outcomes, index, policy.metrics) for outcomes in (baseline, candidate, *repeats)
        )
        pairs, *again = (
            {name: Pairs.of(first.codes[name], side.codes[name]) for name in policy.metrics}
            for side in (second, *others)
        )
        gating = tuple(name for name, rule in policy.metrics.items() if rule.gating)
        return Study(index, first, second, tuple(others), pairs, tuple(again), gating, policy)

    def counts(self, metric: str, rows: NDArray[np.intp] | None = None) -> tuple[PairedCounts, int, int] | None:
        """Counts of a metric's scored pairs (among turns ``rows``), and how many each side passed.

        None where no pair was scored.
        """
        pair = self.pairs[metric]
        chosen = np.flatnonzero(pair.scored) if rows is None else rows[pair.scored[rows]]
        if not len(chosen):
            return None
        before, after = pair.first[chosen] == PASSED, pair.second[chosen] == PASSED
        differences = after.astype(np.float64) - before
        counts = PairedCounts.of(differences, self.index.scenario[chosen])
        return counts, int(np.count_nonzero(before)), int(np.count_nonzero(after))

    def turn_ids(self, mask: Mask) -> tuple[str, ...]:
        """Ids of the chosen turns, in order."""
        return tuple(sorted(self.index.turns[int(i)].id for i in np.flatnonzero(mask)))
