"""Time and memory of the decision at two sizes: 1,000,000 paired outcomes in 50,000 scenarios, and a quarter.

Run from the project: ``python benchmarks/decide.py``. Aims: the larger size within 60 s and 1 GB (inputs
included), and time growing linearly: the ratio of the two times near the ratio of the sizes, 4.
Each size runs in a process of its own, so that each has its own memory peak; times are CPU time, the median
of three, because other work may share the machine.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from evaluators.turn import Behaviour, Expectation, Outcome, Status, Turn
from pipeline.settings import load_gate
from pipeline.statistics.verdict import decide

PAIRS, SCENARIOS = 1_000_000, 50_000
FLIP_RATE = 0.02
REPEATS = 3


def measure(pairs: int, scenarios: int) -> tuple[float, float]:
    """CPU seconds of one decision (median), and the peak memory of the process in MB."""
    rng = random.Random(0)
    policy = load_gate()
    metrics = list(policy.metrics)
    expect, names = Expectation(Behaviour.ANSWER), [f"scenario-{i}" for i in range(scenarios)]
    slices = [("refunds", "long_history"), ("tool_calls",), ("refunds", "escalation", "injection")]
    turns = [
        Turn(f"t{i}#1", f"t{i}", names[i % scenarios], slices[i % 3], (), (), expect, {})
        for i in range(pairs // len(metrics))
    ]

    def side() -> list[Outcome]:
        return [
            Outcome(turn.id, metric, Status.FAILED if rng.random() < FLIP_RATE / 2 else Status.PASSED, "label")
            for turn in turns
            for metric in metrics
        ]

    baseline, candidate = side(), side()
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        decision = decide(turns, baseline, candidate, policy)
        seconds.append(time.process_time() - started)
    if sum(metric.n for metric in decision.metrics) != len(turns) * len(metrics):
        raise RuntimeError("not every pair was decided on")
    return statistics.median(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Measure both sizes, each in a child process, and print the figures side by side."""
    rows = []
    for share in (4, 1):
        size = [str(PAIRS // share), str(SCENARIOS // share)]
        output = subprocess.run(
            [sys.executable, __file__, *size], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.split()
        rows.append((int(size[0]), int(size[1]), float(output[0]), float(output[1])))
    print(f"{'paired outcomes':>16} {'scenarios':>10} {'CPU s':>8} {'peak MB':>8}")
    for pairs, scenarios, seconds, memory in rows:
        print(f"{pairs:>16,} {scenarios:>10,} {seconds:>8.2f} {memory:>8.0f}")
    print(f"size x {rows[1][0] / rows[0][0]:.1f}: time x {rows[1][2] / rows[0][2]:.2f} (linear: equal)")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(*measure(int(sys.argv[1]), int(sys.argv[2])))
    else:
        main()
