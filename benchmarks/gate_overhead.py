"""What share of a cold `make gate` is neither quantizing, server start nor generation. Aim: under 5 %.

    python benchmarks/gate_overhead.py [RECIPE]

Clones the project's last commit into an empty directory, sets it up and runs the gate on the demo model there, so
that nothing is reused but the package manager's cache. Stages overlap: the work counted is the union of their
intervals, from each stage's own record. Takes as long as a cold gate.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def union(intervals: list[tuple[float, float]]) -> float:
    """Length of the union of intervals, in their own unit."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def main() -> None:
    """Measure and print."""
    recipe = sys.argv[1] if len(sys.argv) > 1 else "fp8-dynamic"
    with tempfile.TemporaryDirectory(prefix="gate-overhead-") as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", PROJECT, clone], check=True)
        begin = time.time()
        subprocess.run(["make", "-s", "setup", f"PYTHON={sys.executable}"], cwd=clone, check=True)
        ready = time.time()
        gate = subprocess.run([".venv/bin/quant-gate", "run", "--recipe", recipe], cwd=clone, check=False)
        end = time.time()
        intervals: dict[str, list[tuple[float, float]]] = {}
        for file in (clone / ".quant-gate" / "stages").glob("*/*/stage.json"):
            record = json.loads(file.read_text(encoding="utf-8"))
            intervals.setdefault(record["stage"], []).append((record["started"], record["started"] + record["seconds"]))
    work = union(intervals["quantize"] + intervals["replay"])
    wall = end - begin
    print(f"\nmake gate RECIPE={recipe}, cold: {wall:.0f} s, exit code {gate.returncode}")
    print(f"  installing                             {ready - begin:6.1f} s")
    for stage in sorted(intervals, key=lambda name: min(intervals[name])):
        print(f"  stage {stage:<32} {union(intervals[stage]):6.1f} s")
    print(f"  quantizing, server start, generation   {work:6.1f} s (overlaps counted once)")
    print(f"share that is none of these: {(wall - work) / wall:.1%} (aim: under 5 %)")


if __name__ == "__main__":
    main()
