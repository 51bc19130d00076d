"""The gate's measured error rates: simulated candidates with a known true loss, judged by the shipped decision.

Run from the project: ``python benchmarks/error_rates.py [runs]`` (default 2,000 per line, about ten minutes on
one core). Aims: at a true loss of exactly the margin at most 5 % ACCEPT, also when a tenth of the scenarios
holds all of it; at zero loss at most 5 % REJECT. The last column is the standard error of the ACCEPT rate.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipeline.errors import Verdict
from pipeline.settings import GateSettings
from pipeline.statistics.simulation import simulate_verdicts

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
}


def main() -> None:
    """Print verdict shares line by line."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    policy = GateSettings.model_validate({"metrics": {"m": {"margin": 0.03}}})
    print(f"margin 3 %, alpha 5 %, 240 scenarios of 1-4 turns unless stated, {runs} runs per line")
    print(f"{'true state':<42} {'ACCEPT':>7} {'REJECT':>7} {'INCONC.':>7} {'INVALID':>7} {'+-':>6}")
    for seed, (name, setting) in enumerate(LINES.items(), 1):
        verdicts = simulate_verdicts(policy, runs=runs, seed=seed, **setting)
        order = (Verdict.ACCEPT, Verdict.REJECT, Verdict.INCONCLUSIVE, Verdict.INVALID)
        shares = [verdicts[verdict] / runs for verdict in order]
        error = (shares[0] * (1 - shares[0]) / runs) ** 0.5
        print(f"{name:<42} " + " ".join(f"{share:>7.2%}" for share in shares) + f" {error:>6.2%}", flush=True)


if __name__ == "__main__":
    main()
