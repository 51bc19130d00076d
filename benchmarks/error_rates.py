"""The gate's own error rates: candidates with a known true loss, judged by the shipped decision.

Run from the project: ``python benchmarks/error_rates.py [runs]`` (default 2,000 per line, about ten minutes on
one core). Aims: at a true loss of exactly the margin at most 5 % ACCEPT, also when a tenth of the scenarios
holds all of it; at zero loss at most 5 % REJECT. The last column is the standard error of the ACCEPT rate.

``python benchmarks/error_rates.py exact [step]`` computes, without simulation, the rates of independent turns
at a loss of exactly the margin: the worst and the mean over set sizes from 60 to 1,300 in steps (default 10).

``python benchmarks/error_rates.py self [runs]`` compares a baseline with itself on the shipped golden sets, with all
their metrics, slices and critical turns, at shares of near ties that each replay decides anew (default 100 per line).
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scipy.special import bdtr
from scipy.stats import binom

import evaluators
from pipeline import golden
from pipeline.errors import Verdict
from pipeline.selftest.case import WEAK, golden_reply, wrong_reply
from pipeline.settings import CONFIGS, PROJECT_ROOT, GateSettings, load_gate
from pipeline.statistics.limits import PairedCounts
from pipeline.statistics.simulation import simulate_decisions
from pipeline.statistics.verdict import decide

MARGIN, ALPHA = 0.03, 0.05
POLICY = {"metrics": {"m": {"margin": MARGIN}}}
LOOKS = [0.25, 0.5, 0.75]
LINES: dict[str, dict[str, Any]] = {
    "loss = margin, spread evenly": {"loss": 0.03},
    "loss = margin, spread evenly, no noise": {"loss": 0.03, "noise": 0.0},
    "loss = margin, in 10 % of scenarios": {"loss": 0.03, "concentrated_in": 0.1},
    "loss = margin, in 5 % of scenarios": {"loss": 0.03, "concentrated_in": 0.05},
    "loss = margin, in 10 %, 80 scenarios": {"loss": 0.03, "concentrated_in": 0.1, "scenarios": 80},
    "loss = margin, in 10 %, long scenarios": {"loss": 0.03, "concentrated_in": 0.1, "sizes": (1, 10)},
    "loss = margin, one turn per scenario": {"loss": 0.03, "scenarios": 600, "sizes": (1,)},
    "no loss, 0.5 % noise each way": {},
    "no loss, 1 % noise each way": {"noise": 0.01},
    "no loss, 1 % noise, 80 scenarios": {"noise": 0.01, "scenarios": 80},
    "loss of twice the margin": {"loss": 0.06},
    "loss of three times the margin": {"loss": 0.09},
    "loss of five times the margin": {"loss": 0.15},
}


def simulated(runs: int) -> None:
    """Print verdict shares line by line, first without looks, then with them."""
    print(f"margin 3 %, alpha 5 %, 240 scenarios of 1-4 turns unless stated, {runs} runs per line")
    order = (Verdict.ACCEPT, Verdict.REJECT, Verdict.INCONCLUSIVE, Verdict.INVALID)
    for looks in ([], LOOKS):
        policy = GateSettings.model_validate({**POLICY, "looks": looks})
        title = f"looks at {', '.join(f'{look:.0%}' for look in looks)}" if looks else "no looks"
        print(f"{title:<42} {'ACCEPT':>7} {'REJECT':>7} {'INCONC.':>7} {'INVALID':>7} {'+-':>6} {'replayed':>9}")
        for seed, (name, setting) in enumerate(LINES.items(), 1):
            counts, replayed = dict.fromkeys(order, 0), 0.0
            for decision in simulate_decisions(policy, runs=runs, seed=seed, **setting):
                counts[decision.verdict] += 1
                stop = next((test for test in decision.metrics[0].looks if test.rejects), None)
                replayed += 1.0 if stop is None else looks[stop.look - 1]
            shares = [counts[verdict] / runs for verdict in order]
            error = (shares[0] * (1 - shares[0]) / runs) ** 0.5
            figures = " ".join(f"{share:>7.2%}" for share in shares)
            print(f"{name:<42} {figures} {error:>6.2%} {replayed / runs:>9.0%}", flush=True)


def exact(step: int) -> None:
    """Print false ACCEPTs and REJECTs of independent turns at a loss of exactly the margin."""
    gains = (0.0, 0.0025, 0.005, 0.01, 0.02)
    print(f"n from 60 to 1,300 in steps of {step}; largest (mean) over n; gains by noise in columns")
    print(f"{'':<24}" + "".join(f"{gain:>18.2%}" for gain in gains))
    for margin in (0.02, 0.03, 0.05):
        rates: dict[Verdict, list[list[float]]] = {Verdict.ACCEPT: [], Verdict.REJECT: []}
        for n in range(60, 1301, step):
            most = int(binom.ppf(1 - 1e-9, n, margin + gains[-1]))
            for verdict, rows in rates.items():
                edges = [_edge(n, b, margin, verdict) for b in range(most + 1)]
                rows.append([_rate(n, margin, gain, edges, verdict) for gain in gains])
        for verdict, rows in rates.items():
            cells = [f"{max(column):.2%} ({np.mean(column):.2%})" for column in zip(*rows, strict=True)]
            print(f"margin {margin:.0%}, false {verdict:<8}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def _edge(n: int, b: int, margin: float, verdict: Verdict) -> int:
    """Smallest number of gains that gives ACCEPT, or that is too many for REJECT, beside ``b`` losses in ``n``."""
    low, high = -1, n - b + 1
    while high - low > 1:
        c = (low + high) // 2
        found = PairedCounts(n, b, c, n).verdict(margin, ALPHA)
        beyond = found is Verdict.ACCEPT if verdict is Verdict.ACCEPT else found is not Verdict.REJECT
        low, high = (low, c) if beyond else (c, high)
    return high


def _rate(n: int, margin: float, gain: float, edges: list[int], verdict: Verdict) -> float:
    """Probability of the verdict at a loss of exactly the margin and gains at rate ``gain``."""
    total = 0.0
    for b, edge in enumerate(edges):
        below = float(bdtr(min(edge - 1, n - b), n - b, gain / (1 - margin - gain))) if edge else 0.0
        total += float(binom.pmf(b, n, margin + gain)) * (1 - below if verdict is Verdict.ACCEPT else below)
    return total


def itself(runs: int) -> None:
    """Print verdicts on a baseline against itself."""
    whole, policy = golden.load(PROJECT_ROOT / "golden_sets" / "support"), load_gate()
    demo = load_gate(CONFIGS / "gate-demo.yaml")
    sets = [(whole, policy)]
    if demo.sample is not None:
        sets.insert(0, (golden.select(whole, demo.sample), demo))
    print(
        f"{'turns':>6} {'critical':>8} {'near ties':>9} {'repeats':>7}   verdicts in {runs} runs; runs with a lost turn"
    )
    for chosen, rules in sets:
        turns = chosen.turns
        critical = sum(turn.expect.critical for turn in turns)
        scored = {
            turn.id: [evaluators.evaluate(turn, reply(turn)) for reply in (golden_reply, wrong_reply)] for turn in turns
        }
        for near, repeats in ((0.006, 1), (0.006, 3), (0.02, 1), (0.02, 3)):
            verdicts: Counter[str] = Counter()
            lost = 0
            for seed in range(runs):
                chance = random.Random(seed)
                drawn = {turn.id: chance.random() for turn in turns}
                weak = {name for name, share in drawn.items() if share < WEAK}
                ties = [name for name, share in drawn.items() if WEAK <= share < WEAK + near]
                wrong = [weak.union(t for t in ties if chance.random() < 0.5) for _ in range(repeats + 2)]
                sides = [[o for name in scored for o in scored[name][name in one]] for one in wrong]
                decision = decide(turns, sides[0], sides[1], rules, repeats=sides[2:])
                verdicts[decision.verdict] += 1
                lost += bool(decision.critical.failed)
            found = ", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
            print(f"{len(turns):>6} {critical:>8} {near:>9.1%} {repeats:>7}   {found}; {lost}", flush=True)


def main() -> None:
    """Simulate, compute exactly, or compare with itself."""
    words = sys.argv[1:]
    if words[:1] == ["exact"]:
        exact(int(words[1]) if len(words) > 1 else 10)
    elif words[:1] == ["self"]:
        itself(int(words[1]) if len(words) > 1 else 100)
    else:
        simulated(int(words[0]) if words else 2000)


if __name__ == "__main__":
    main()
