"""Sequential looks applied to a comparison: levels by metric, and the tests that have been made so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluators.turn import Outcome, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.facts import LookResult, Reason, ReasonCode
from pipeline.statistics.pairing import FAILED, PASSED, Side, TurnIndex
from pipeline.statistics.sequential import Look, levels, plan_looks
from pipeline.statistics.study import Study

MIN_STEP = 0.02
"""Share of a metric's turns that a look must add to the one before; else it has nothing new to test."""


@dataclass(frozen=True, slots=True)
class LookPlan:
    """The looks of one decision.

    :ivar looks: all that the policy declares.
    :ivar at: the one that the decision is taken at; None: the end of the set.
    :ivar later: ids of the turns that come after it.
    :ivar fractions: by metric, the share of its turns in each look.
    :ivar levels: by metric, the level of its test at each look and at the end; 0 where it makes none.
    """

    looks: tuple[Look, ...]
    at: Look | None
    later: frozenset[str]
    fractions: Mapping[str, tuple[float, ...]]
    levels: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(turns: Sequence[Turn], baseline: Sequence[Outcome], policy: GateSettings, at: int | None) -> LookPlan:
        """Plan the looks of a policy on a golden set.

        :param baseline: outcomes of the whole set, which tell the turns that a metric reads.
        :param at: number of the look (from 1) that the decision is taken at; None: the end.
        :raises ValueError: no such look.
        """
        looks = plan_looks(turns, policy.looks)
        if at is not None and not 1 <= at <= len(looks):
            raise ValueError(f"look {at} of {len(looks)}")
        fractions: dict[str, tuple[float, ...]] = {}
        tested: dict[str, tuple[float, ...]] = {}
        if looks:
            index = TurnIndex.of(turns)
            side = Side.of(baseline, index, policy.metrics)
            rows = [_rows(look, index) for look in looks]
            for metric, codes in side.codes.items():
                read = (codes == PASSED) | (codes == FAILED)
                total = max(int(np.count_nonzero(read)), 1)
                fractions[metric] = tuple(np.count_nonzero(read[part]) / total for part in rows)
                tested[metric] = _levels(fractions[metric], policy.alpha)
        if at is None:
            return LookPlan(looks, None, frozenset(), fractions, tested)
        now = looks[at - 1]
        later = frozenset(turn.id for turn in turns).difference(turn.id for turn in now.turns)
        return LookPlan(looks, now, later, fractions, tested)

    def level(self, metric: str, alpha: float) -> float:
        """Level of the upper limit at the present look, or at the end."""
        if not self.looks:
            return alpha
        return self.levels[metric][-1 if self.at is None else self.at.number - 1]

    def results(self, study: Study, metric: str) -> tuple[LookResult, ...]:
        """Tests of "no loss beyond the margin" at the looks up to the present one."""
        done = self.looks if self.at is None else self.looks[: self.at.number]
        results = []
        for look in done:
            level = self.levels[metric][look.number - 1]
            found = study.counts(metric, _rows(look, study.index)) if level else None
            if found is not None:
                counts, _, _ = found
                p = counts.loss_p(study.policy.metrics[metric].margin)
                results.append(
                    LookResult(
                        look=look.number,
                        n=int(counts.n),
                        b=int(counts.b),
                        c=int(counts.c),
                        fraction=self.fractions[metric][look.number - 1],
                        p=p,
                        level=level,
                    )
                )
        return tuple(results)

    def part(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Outcomes without those of turns that come after the present look."""
        return outcomes if self.at is None else [outcome for outcome in outcomes if outcome.turn_id not in self.later]

    def reasons(self) -> list[Reason]:
        """At a look: that ACCEPT is out of the question."""
        if self.at is None:
            return []
        look = self.at
        text = (
            f"look {look.number} of {len(self.looks)}: {look.scenarios} of {look.of} scenarios were replayed. A part "
            f"of the set can REJECT, never ACCEPT."
        )
        figures = {"look": look.number, "scenarios": look.scenarios, "of": look.of}
        return [Reason(ReasonCode.SET_UNFINISHED, Verdict.INCONCLUSIVE, text, figures=figures)]


def _rows(look: Look, index: TurnIndex) -> np.ndarray:
    return np.array([index.number[turn.id] for turn in look.turns], dtype=np.intp)


def _levels(fractions: Sequence[float], alpha: float) -> tuple[float, ...]:
    used: list[int] = []
    before = 0.0
    for i, fraction in enumerate(fractions):
        if fraction >= before + MIN_STEP and fraction <= 1 - MIN_STEP:
            used.append(i)
            before = fraction
    found = levels((*(fractions[i] for i in used), 1.0), alpha)
    spread = dict(zip(used, found, strict=False))
    return (*(spread.get(i, 0.0) for i in range(len(fractions))), found[-1])
