"""The speed ratios, measured side by side in one run: `python benchmarks` (or `make benchmarks`).

Replay throughput of our client against ``vllm bench serve``, then the share of a cold `make gate` that is neither
quantizing, server start nor generation. The second takes as long as a cold gate. The other files here measure the
statistics and the golden check, and are run by themselves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run both, on the demo model."""
    found = subprocess.run(
        [sys.executable, "-m", "pipeline", "resolve"], cwd=HERE.parent, capture_output=True, text=True, check=True
    )
    checkpoint = found.stdout.splitlines()[0]
    subprocess.run([sys.executable, HERE / "replay_throughput.py", checkpoint], check=True)
    subprocess.run([sys.executable, HERE / "gate_overhead.py"], check=True)


if __name__ == "__main__":
    main()
