"""Makes the training conversations of the demo model from the templates in ``businesses/``.

Run ``python examples/demo_model/generate.py --output conversations.jsonl``; the same seed and templates give the same
conversations byte for byte. Templates are explained in ``golden_sets/support/authoring/calibrate.py``; the details
(names, products, numbers, ids) are drawn by ``businesses/<business>.py``. No id that a golden script mentions is
drawn, and a template may not belong to a family of ``held_out.txt``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent.parent / "golden_sets" / "support"
sys.path[:0] = [str(HERE), str(SUPPORT / "authoring")]

from calibrate import fill  # noqa: E402
from script import read_script  # noqa: E402

BUSINESSES = ("retail", "telecom", "travel")
SHORT = 2
"""Messages of the assistant in a short template."""


def held_out_families(business: str) -> set[str]:
    """The golden families without training templates."""
    lines = (HERE / "held_out.txt").read_text(encoding="utf-8").splitlines()
    (families,) = (line.partition(":")[2] for line in lines if line.startswith(f"{business}:"))
    return {family.strip() for family in families.split(",")}


def _round(templates: list[str]) -> Iterator[str]:
    """Each template once, and the short ones twice: refusals, hand-overs and questions have the fewest tokens."""
    for template in templates:
        yield template
        if len(re.findall(r"^(?:A|c|C)\b", template, re.MULTILINE)) <= SHORT:
            yield template


def conversations(business: str, *, seed: int, per_template: int) -> Iterator[dict[str, Any]]:
    """Yield the conversations of one business, round by round through its templates; repetitions are left out.

    :raises ValueError: a template belongs to a held-out family.
    :raises ScriptError: a template cannot be read.
    """
    source = importlib.import_module(f"businesses.{business}")
    house = importlib.import_module(business).house()
    system = (SUPPORT / "policies" / f"{business}.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()
    tools = json.loads((SUPPORT / "tools" / f"{business}.json").read_text(encoding="utf-8"))
    scripts = (SUPPORT / "authoring" / f"{business}_scripts").glob("*.txt")
    taken = {found for path in scripts for found in re.findall(source.IDS, path.read_text(encoding="utf-8"))}
    held_out = held_out_families(business)
    chance = random.Random(f"{seed} {business}")
    text = (HERE / "businesses" / f"{business}.txt").read_text(encoding="utf-8")
    templates = [block for block in re.split(r"\n(?=== )", "\n" + text) if block.startswith("== ")]
    seen: set[str] = set()
    count = 0
    for _ in range(per_template):
        for template in _round(templates):
            filled = fill(template, chance, source.details(chance, taken))
            for transcript in read_script(filled, f"{business}.txt", house):
                if transcript["meta"]["family"] in held_out:
                    raise ValueError(f"{transcript['id']}: its family {transcript['meta']['family']} is held out")
                said = json.dumps([m["content"] for m in transcript["messages"] if m["role"] == "user"])
                if said in seen:
                    continue
                seen.add(said)
                count += 1
                opening = [] if "policy" not in transcript else [{"role": "system", "content": system}]
                yield {
                    "id": f"{transcript['id']}-{count}",
                    "messages": [*opening, *transcript["messages"]],
                    "tools": tools if "tools" in transcript else [],
                }


def main() -> None:
    """Write the conversations of one business or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--business", choices=BUSINESSES, help="only this one")
    parser.add_argument("--per-template", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    count = 0
    with options.output.open("w", encoding="utf-8") as output:
        for business in [options.business] if options.business else BUSINESSES:
            for conversation in conversations(business, seed=options.seed, per_template=options.per_template):
                output.write(json.dumps(conversation, ensure_ascii=False) + "\n")
                count += 1
    print(f"{options.output}: {count} conversations")


if __name__ == "__main__":
    main()
