"""Candidates with a known true loss, simulated and judged by the shipped decision: its error rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from evaluators.turn import Behaviour, Expectation, Outcome, Status, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.facts import Decision
from pipeline.statistics.verdict import decide

STATUSES = (Status.FAILED, Status.PASSED)


def simulate_decisions(
    policy: GateSettings,
    *,
    runs: int,
    seed: int,
    scenarios: int = 240,
    sizes: tuple[int, ...] = (1, 2, 3, 4),
    loss: float = 0.0,
    noise: float = 0.005,
    concentrated_in: float = 1.0,
    baseline_rate: float = 0.85,
) -> Iterator[Decision]:
    """Decisions of ``runs`` simulated gates. The same arguments give the same decisions.

    :param policy: every metric of it is simulated, independently of the others, on every turn.
    :param sizes: turns of a scenario, drawn evenly, once for all runs.
    :param loss: true loss of every metric, as a share of all turns.
    :param noise: share of turns lost by noise, and of turns gained by it.
    :param concentrated_in: share of scenarios (drawn anew in each run) that hold all of the loss.
    :param baseline_rate: share of turns that the baseline passes.
    """
    rng = np.random.default_rng(seed)
    scenario = np.repeat(np.arange(scenarios), rng.choice(sizes, size=scenarios))
    turns = [
        Turn(f"t{i}#1", f"t{i}", f"s{s}", (), (), (), Expectation(Behaviour.ANSWER), {}) for i, s in enumerate(scenario)
    ]
    ready = {
        metric: [tuple(Outcome(turn.id, metric, status, "") for status in STATUSES) for turn in turns]
        for metric in policy.metrics
    }
    for _ in range(runs):
        sides: tuple[list[Outcome], list[Outcome]] = ([], [])
        for metric in policy.metrics:
            bad = rng.random(scenarios) < concentrated_in
            u = rng.random(len(turns))
            chance = np.where(bad[scenario], loss / concentrated_in, 0.0)
            lost = u < chance + noise
            gained = ~lost & (u < chance + 2 * noise)
            before = lost | (~gained & (rng.random(len(turns)) < (baseline_rate - loss) / (1 - loss)))
            after = (before & ~lost) | gained
            for side, passed in zip(sides, (before, after), strict=True):
                side.extend(pair[p] for pair, p in zip(ready[metric], passed.tolist(), strict=True))
        yield decide(turns, *sides, policy)


def simulate_verdicts(policy: GateSettings, **settings: Any) -> Counter[Verdict]:
    """Count the verdicts of :func:`simulate_decisions`, with its arguments."""
    return Counter(decision.verdict for decision in simulate_decisions(policy, **settings))
