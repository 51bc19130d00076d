"""The speed ratios, measured side by side in one run: `python benchmarks` (or `make benchmarks`), some ten minutes.

Replay throughput of our client against ``vllm bench serve``, then the share of a cold `make gate` that is neither
quantizing nor the engine's start and work; at the end a line for each, with the aim. Nothing else should run meanwhile.
The other files here measure the statistics and the golden check, and are run by themselves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(*words: str | Path) -> list[str]:
    """The lines that a Python program prints, shown when it has ended; what it reports meanwhile is seen at once."""
    done = subprocess.run([sys.executable, *words], cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, flush=True)
    return done.stdout.splitlines()


def main() -> None:
    """Run both, on the demo model, and repeat the last line of each."""
    checkpoint = run("-m", "pipeline", "resolve")[0]
    throughput = run(HERE / "replay_throughput.py", checkpoint)[-1]
    overhead = run(HERE / "gate_overhead.py")[-1]
    print(throughput, overhead, sep="\n")


if __name__ == "__main__":
    main()
