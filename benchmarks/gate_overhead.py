"""What share of a cold `make gate` is neither quantizing nor the engine's start and work. Aim: under 5 %.

    python benchmarks/gate_overhead.py [RECIPE]

Clones the project's last commit into an empty directory and runs `make gate` on the demo model there, so that
nothing is reused but the package manager's cache: what a download takes says nothing of the gate. The engine's work is
generation and, for drift, the reading of golden replies; its start begins with its process, which imports while the
demo model is still being unpacked (that takes less time). Stages overlap: the work counted is the union of their
intervals, from each stage's own record. Takes as long as a cold gate. The rest hardly depends on the model: the faster
the machine, the larger its share with a small one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("QUANT_GATE_", "MLFLOW_", "MAKE", "MODEL", "RECIPE", "GOLDEN", "SERVING", "POLICY", "EXPLORE")
"""Beginnings of variables that could make it another run, or lead it to something that exists already."""
Interval = tuple[float, float]


def union(intervals: list[Interval]) -> float:
    """Length of the union of intervals, in their own unit."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def stages(home: Path) -> dict[str, list[Interval]]:
    """When each stage was at work, in seconds since the epoch, from the records below ``home``; first begun first."""
    records = [json.loads(file.read_text(encoding="utf-8")) for file in (home / "stages").glob("*/*/stage.json")]
    found: dict[str, list[Interval]] = {}
    for record in sorted(records, key=lambda record: float(record["started"])):
        start = record["started"]
        found.setdefault(record["stage"], []).append((start, start + record["seconds"]))
    return found


def started(home: Path) -> float:
    """When the first engine's process was started, in seconds since the epoch."""
    facts = [
        json.loads(file.read_text(encoding="utf-8")) for file in (home / "stages" / "replay").glob("*/engine.json")
    ]
    return min(float(each["running"]["started"]) for each in facts)


def main() -> None:
    """Measure and print."""
    recipe = sys.argv[1] if len(sys.argv) > 1 else "fp8-dynamic"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    with tempfile.TemporaryDirectory(prefix="gate-overhead-") as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", PROJECT, clone], check=True)
        begin = time.time()
        command = ["make", "-s", "gate", f"PYTHON={sys.executable}", f"RECIPE={recipe}"]
        subprocess.run(command, cwd=clone, env=environment, check=False)  # fails for every verdict but ACCEPT
        end = time.time()
        home = clone / ".quant-gate"
        try:
            verdict = json.loads((home / "runs" / "latest" / "decision.json").read_text(encoding="utf-8"))["verdict"]
        except OSError as error:
            raise SystemExit("the gate came to no verdict; see above") from error
        intervals, first = stages(home), started(home)
    work = intervals["quantize"] + intervals["replay"] + intervals["logprobs"]
    work.append((first, intervals["replay"][0][0]))
    share = (end - begin - union(work)) / (end - begin)
    print(f"make gate RECIPE={recipe}, cold: {verdict} after {end - begin:.0f} s")
    print(f"  before the first stage                 {next(iter(intervals.values()))[0][0] - begin:6.1f} s")
    for stage, when in intervals.items():
        print(f"  stage {stage:<32} {union(when):6.1f} s, begun after {when[0][0] - begin:.1f} s")
    print(f"  the first engine's process             begun after {first - begin:.1f} s")
    print(f"  after the engine's last answer         {end - max(stop for _, stop in work):6.1f} s")
    print(f"  quantizing, engine's start and work    {union(work):6.1f} s (overlaps counted once)")
    print(f"gate overhead: {share:.1%} of a cold `make gate` is none of these (aim: under 5 %)")


if __name__ == "__main__":
    main()
