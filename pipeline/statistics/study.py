"""Everything that the rules read: turns, sides and pairs of one comparison, with its policy.

Where turns are sampled at a temperature above 0 (``sampling.samples`` k > 1), each side has k replays and a
turn has a pass *rate* on each side. Its difference x = candidate rate - baseline rate lies in [-1, 1]. Turns
stay the unit: k samples of one turn say nothing about other turns, so n does not grow with k; the noise of
each x shrinks instead (Miller 2024, "Adding error bars to evals", section 3.2, arXiv:2411.00640).

The limits of rates are the strictest of the cluster-robust t limit of x, and Tango's at the equivalent flips
b = sum of losses, c = sum of gains. As x^2 <= |x|, taking fractional flips for whole ones can only overstate
the variance, and it keeps a width where no difference was seen.
"""

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

    :ivar repeats: further replays of the baseline: its noise floor, or its other samples.
    :ivar candidate_repeats: other samples of the candidate.
    :ivar pairs: baseline against candidate, by metric.
    :ivar repeat_pairs: baseline against each of its repeats, by metric.
    :ivar candidate_repeat_pairs: baseline against each repeat of the candidate, by metric.
    :ivar gating: names of the metrics that decide.
    """

    index: TurnIndex
    baseline: Side
    candidate: Side
    repeats: tuple[Side, ...]
    candidate_repeats: tuple[Side, ...]
    pairs: Mapping[str, Pairs]
    repeat_pairs: tuple[Mapping[str, Pairs], ...]
    candidate_repeat_pairs: tuple[Mapping[str, Pairs], ...]
    gating: tuple[str, ...]
    policy: GateSettings

    @staticmethod
    def of(
        turns: Sequence[Turn],
        baseline: Sequence[Outcome],
        candidate: Sequence[Outcome],
        policy: GateSettings,
        repeats: Sequence[Sequence[Outcome]],
        candidate_repeats: Sequence[Sequence[Outcome]] = (),
    ) -> Study:
        """Align outcomes to turns and metrics."""
        index = TurnIndex.of(turns)

        def side(outcomes: Sequence[Outcome]) -> Side:
            return Side.of(outcomes, index, policy.metrics)

        def against(other: Side) -> dict[str, Pairs]:
            return {name: Pairs.of(first.codes[name], other.codes[name]) for name in policy.metrics}

        first, second = side(baseline), side(candidate)
        again, others = tuple(map(side, repeats)), tuple(map(side, candidate_repeats))
        return Study(
            index=index,
            baseline=first,
            candidate=second,
            repeats=again,
            candidate_repeats=others,
            pairs=against(second),
            repeat_pairs=tuple(map(against, again)),
            candidate_repeat_pairs=tuple(map(against, others)),
            gating=tuple(name for name, rule in policy.metrics.items() if rule.gating),
            policy=policy,
        )

    @property
    def sampled(self) -> bool:
        """Whether turns have pass rates: every replay counts, instead of the first alone."""
        return self.policy.sampling.samples > 1

    def counts(self, metric: str, rows: NDArray[np.intp] | None = None) -> tuple[PairedCounts, float, float] | None:
        """Counts of a metric's scored pairs (among turns ``rows``), and how many each side passed.

        None where no pair was scored.
        """
        scored = self.pairs[metric].scored
        sides: list[tuple[Side, ...]] = [(self.baseline,), (self.candidate,)]
        if self.sampled:
            for pairs in (*self.repeat_pairs, *self.candidate_repeat_pairs):
                scored = scored & pairs[metric].scored
            sides = [(self.baseline, *self.repeats), (self.candidate, *self.candidate_repeats)]
        chosen = np.flatnonzero(scored) if rows is None else rows[scored[rows]]
        if not len(chosen):
            return None
        before, after = (np.mean([one.codes[metric][chosen] == PASSED for one in side], axis=0) for side in sides)
        counts = PairedCounts.of(after - before, self.index.scenario[chosen])
        return counts, whole(before.sum()), whole(after.sum())

    def baseline_passes(self) -> Mask:
        """Turns that the baseline passes on every gating metric, in every replay."""
        return self._passed_by(self.baseline, *self.repeats)

    def candidate_passes(self) -> Mask:
        """Turns that the candidate passes on every gating metric, in every replay."""
        return self._passed_by(self.candidate, *self.candidate_repeats)

    def _passed_by(self, first: Side, *others: Side) -> Mask:
        passed = first.passes_all(self.gating)
        for side in others:
            passed = passed & side.passes_all(self.gating)
        return passed

    def candidate_fails(self) -> Mask:
        """Turns that the candidate fails on a gating metric, in every replay."""
        failed = self.candidate.fails_any(self.gating)
        for side in self.candidate_repeats:
            failed = failed & side.fails_any(self.gating)
        return failed

    def turn_ids(self, mask: Mask) -> tuple[str, ...]:
        """Ids of the chosen turns, in order."""
        return tuple(sorted(self.index.turns[int(i)].id for i in np.flatnonzero(mask)))


def whole(count: float) -> float:
    """A count as an integer where it is one: pass rates add up to fractions."""
    rounded = round(float(count), 9)
    return int(rounded) if rounded.is_integer() else rounded
