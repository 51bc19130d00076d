"""The gate's own error rates, by simulation through the shipped decision, held against their aims.

Two sources of simulated gates: the golden set itself, where baseline, repeat and candidate are fresh draws of the
same model (A/A), and synthetic outcomes of clustered turns with a known true loss
(:mod:`pipeline.statistics.simulation`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scipy.special import bdtr, bdtrc

import evaluators
from evaluators.turn import Outcome
from pipeline.errors import Verdict
from pipeline.golden import GoldenSet
from pipeline.selftest.case import draw, golden_reply, wrong_reply
from pipeline.settings import GateSettings
from pipeline.statistics.simulation import simulate_verdicts
from pipeline.statistics.verdict import decide

AA_RUNS = 200
RUNS = 1000
MARGIN = 0.03
BEYOND_CHANCE = 0.01
"""A rate misses its aim when it would come out so by chance in less than this share of simulations."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often simulated gates came to a verdict, and how often they may or (``least``) should."""

    name: str
    verdict: Verdict
    count: int
    runs: int
    aim: float
    least: bool = False

    @property
    def share(self) -> float:
        """The measured rate."""
        return self.count / self.runs

    @property
    def error(self) -> float:
        """Standard error of :attr:`share`."""
        return math.sqrt(self.share * (1 - self.share) / self.runs)

    @property
    def ok(self) -> bool:
        """Whether the rate is within its aim, simulation error allowed for (exact binomial test)."""
        if self.least:
            return float(bdtr(self.count, self.runs, self.aim)) >= BEYOND_CHANCE
        return float(bdtrc(self.count - 1, self.runs, self.aim)) >= BEYOND_CHANCE


@dataclass(frozen=True, slots=True)
class Aim:
    """How often a verdict may come out, or (``least``) should."""

    verdict: Verdict
    share: float
    least: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A true state of affairs, simulated, and what the gate may and should say to it."""

    name: str
    simulate: Callable[[GoldenSet, GateSettings], Counter[Verdict]]
    aims: tuple[Aim, ...]

    def measure(self, golden: GoldenSet, policy: GateSettings) -> list[Rate]:
        """Simulate and count."""
        verdicts = self.simulate(golden, policy)
        return [
            Rate(self.name, aim.verdict, verdicts[aim.verdict], verdicts.total(), aim.share, aim.least)
            for aim in self.aims
        ]


def same_model(golden: GoldenSet, policy: GateSettings) -> Counter[Verdict]:
    """Verdicts on :data:`AA_RUNS` comparisons of the baseline with itself, on the golden set's own turns."""
    right = {turn.id: evaluators.evaluate(turn, golden_reply(turn)) for turn in golden.turns}
    wrong = {turn.id: evaluators.evaluate(turn, wrong_reply(turn)) for turn in golden.turns}

    def scored(lost: frozenset[str]) -> list[Outcome]:
        return [outcome for name in right for outcome in (wrong if name in lost else right)[name]]

    verdicts: Counter[Verdict] = Counter()
    for seed in range(AA_RUNS):
        baseline, repeat, candidate = map(scored, draw(golden, seed).wrong)
        verdicts[decide(golden.turns, baseline, candidate, policy, repeats=[repeat]).verdict] += 1
    return verdicts


def _known_loss(seed: int, **setting: float) -> Callable[[GoldenSet, GateSettings], Counter[Verdict]]:
    """One metric with the margin :data:`MARGIN`: with several, all would have to err together."""

    def simulate(golden: GoldenSet, policy: GateSettings) -> Counter[Verdict]:
        alone = GateSettings.model_validate({"alpha": policy.alpha, "metrics": {"m": {"margin": MARGIN}}})
        return simulate_verdicts(alone, runs=RUNS, seed=seed, **setting)

    return simulate


ERROR, POWER = 0.05, 0.80
QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question(
            "baseline against itself",
            same_model,
            (Aim(Verdict.REJECT, ERROR), Aim(Verdict.ACCEPT, POWER, least=True)),
        ),
        Question("loss of exactly the margin", _known_loss(1, loss=MARGIN), (Aim(Verdict.ACCEPT, ERROR),)),
        Question(
            "that loss, all in 10 % of the scenarios",
            _known_loss(2, loss=MARGIN, concentrated_in=0.1),
            (Aim(Verdict.ACCEPT, ERROR),),
        ),
        Question("no loss", _known_loss(3), (Aim(Verdict.ACCEPT, POWER, least=True),)),
        Question(
            "loss of three margins",
            _known_loss(4, loss=3 * MARGIN),
            (Aim(Verdict.REJECT, POWER, least=True),),
        ),
    )
}
