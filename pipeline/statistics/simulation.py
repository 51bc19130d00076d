"""Candidates with a known true loss, simulated and judged by the shipped decision: its error rates."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evaluators.turn import Behaviour, Expectation, Outcome, Status, Turn
from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.verdict import decide

STATUSES = (Status.FAILED, Status.PASSED)


def simulate_verdicts(
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
) -> Counter[Verdict]:
    """Count verdicts over ``runs`` simulated gates.

    :param sizes: turns of a scenario, drawn evenly, once for all runs.
    :param loss: true loss of every metric, as a share of all turns.
    :param noise: share of turns lost by noise, and of turns gained by it.
    :param concentrated_in: share of scenarios (drawn anew in each run) that hold all of the loss.
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
    verdicts: Counter[Verdict] = Counter()
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
        verdicts[decide(turns, *sides, policy).verdict] += 1
    return verdicts
