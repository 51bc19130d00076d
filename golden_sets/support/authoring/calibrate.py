"""What the three ``*_calibration.py`` share: templates with choices and details become conversations.

A template is a script (see ``script.py``) with ``[[one|another]]`` for a choice of wordings and ``<name>`` for a
detail. The conversations hold the system message and the tools themselves, as a user's own log does, and nothing
that is scored.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from script import House, read_script, write_jsonl

HERE = Path(__file__).resolve().parent
Draw = Callable[[random.Random, set[str]], Mapping[str, str]]
"""Draws the details of one conversation; the set holds the ids in use, and those drawn are added to it."""


def fresh(taken: set[str], draw: Callable[[], str]) -> str:
    """An id that is not in use yet."""
    while True:
        drawn = draw()
        if drawn not in taken:
            taken.add(drawn)
            return drawn


def fill(template: str, chance: random.Random, details: Mapping[str, str]) -> str:
    """Choose the wordings of a template and put the details in."""
    worded = re.sub(r"\[\[(.+?)\]\]", lambda found: chance.choice(found[1].split("|")), template)
    return re.sub(r"<(\w+)>", lambda found: details[found[1]], worded)


def conversations(
    house: House, scripts: Path, ids: str, draw: Draw, *, seed: int, per_template: int
) -> Iterator[dict[str, Any]]:
    """Yield all conversations, up to ``per_template`` of each template; a repetition is left out.

    :param ids: pattern of the business's ids; none that the golden scripts mention is drawn.
    """
    system = (HERE.parent / "policies" / f"{house.policy}.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()
    tools = json.loads((HERE.parent / "tools" / f"{house.tools}.json").read_text(encoding="utf-8"))
    golden = (path.read_text(encoding="utf-8") for path in scripts.glob(f"{house.policy}-*.txt"))
    taken = {found for text in golden for found in re.findall(ids, text)}
    chance = random.Random(seed)
    seen: set[str] = set()
    text = (scripts / "calibration.txt").read_text(encoding="utf-8")
    templates = [block for block in re.split(r"\n(?=== )", text) if block.startswith("== ")]
    for number in range(1, per_template + 1):
        for template in templates:
            details = draw(chance, taken)
            for transcript in read_script(fill(template, chance, details), "calibration.txt", house):
                said = json.dumps([m["content"] for m in transcript["messages"] if m["role"] == "user"])
                if said in seen:
                    continue
                seen.add(said)
                yield {
                    "id": f"{transcript['id']}-{number}",
                    "messages": [{"role": "system", "content": system}, *transcript["messages"]],
                    "tools": tools,
                }


def rewrite(house: House, scripts: Path, ids: str, draw: Draw, *, seed: int, per_template: int) -> None:
    """Rewrite the calibration file of a business."""
    output = HERE.parent.parent / "calibration" / f"{house.policy}.jsonl"
    made = list(conversations(house, scripts, ids, draw, seed=seed, per_template=per_template))
    write_jsonl(made, output)
    print(f"{output.name}: {len(made)} conversations")
