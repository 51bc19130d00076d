"""Time and peak memory of `quant-gate golden check` on many generated transcripts.

Usage: python benchmarks/golden_check.py [TRANSCRIPTS]   (default 100000)

Prints, for a tenth of the transcripts and for all of them, the time of the check beside the time of
merely parsing the same file as JSON in the same run, and the peak resident memory of the process:
what a transcript adds to it shows whether memory is bounded by what is kept, not by what is read.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = 5_000
"""Size of the vocabulary: large enough that two generated messages are not near-duplicates."""

MEASURED = """
import json, resource, sys, time
from pathlib import Path
from pipeline.golden.check import check
root = Path(sys.argv[1])
started = time.perf_counter()
for path in (root / "transcripts").glob("*.jsonl"):
    with path.open("rb") as lines:
        for line in lines:
            json.loads(line)
parsed = time.perf_counter() - started
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
complaints = check(root, against=())
checked = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"parsed": parsed, "checked": checked, "before": before, "peak": peak,
                  "complaints": [str(c) for c in complaints[:3]]}))
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"order_id": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
                "required": ["order_id"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("get_order", "refund_order", "cancel_order")
]

POLICY = """---
id: shop
rules:
  - {id: limit, type: argument_limit, tool: refund_order, argument: amount, maximum: 200}
---
You are the assistant of a shop. Look an order up before you answer, refund at most 200.00 EUR.
"""


def transcript(number: int, draw: random.Random) -> dict[str, object]:
    """A conversation of six messages with two checkpointed turns."""

    def words(count: int) -> str:
        return " ".join(f"w{draw.randrange(WORDS)}" for _ in range(count))

    order, amount = f"OM-{number:06d}", f"{draw.randrange(1000, 20000) / 100:.2f}"
    call = {"name": "get_order", "arguments": json.dumps({"order_id": order})}
    return {
        "id": f"generated-{number}",
        "scenario": f"generated-{number}",
        "slices": ["refunds"],
        "policy": "shop",
        "tools": "shop",
        "messages": [
            {"role": "user", "content": f"{words(40)} {order}"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
                "expect": {
                    "behaviour": "tool_call",
                    "tool_calls": [{"name": "get_order", "arguments": {"order_id": order}}],
                    "forbidden_tools": ["refund_order", "cancel_order"],
                },
            },
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"order_id": order, "total": amount})},
            {
                "role": "assistant",
                "content": f"{words(20)} {amount} EUR",
                "expect": {"behaviour": "answer", "say": [[amount]], "never_say": ["guarantee"]},
            },
        ],
    }


def write_set(root: Path, count: int) -> None:
    """Generate a set below ``root``."""
    for folder in ("transcripts", "policies", "tools"):
        (root / folder).mkdir(parents=True)
    (root / "policies" / "shop.md").write_text(POLICY, encoding="utf-8")
    (root / "tools" / "shop.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    draw = random.Random(0)
    with (root / "transcripts" / "generated.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps(transcript(number, draw)) + "\n")


def measure(count: int) -> dict[str, float]:
    """Check ``count`` generated transcripts in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        write_set(Path(folder) / "set", count)
        command = [sys.executable, "-c", MEASURED, str(Path(folder) / "set")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["complaints"]:
        raise SystemExit(f"the generated set is not sound: {found['complaints']}")
    print(
        f"{count:>9,} transcripts: check {found['checked']:.1f} s, {found['checked'] / found['parsed']:.0f} times "
        f"the {found['parsed']:.1f} s of parsing; peak memory {found['peak'] / 1024:.0f} MiB "
        f"({found['before'] / 1024:.0f} MiB before)"
    )
    return dict(found)


def main() -> None:
    """Measure a tenth and the whole, and print what a transcript adds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    tenth = max(1, count // 10)
    small, large = measure(tenth), measure(count)
    added = (large["peak"] - small["peak"]) * 1024 / (count - tenth)
    print(f"memory per further transcript: {added:.0f} bytes")


if __name__ == "__main__":
    main()
