"""Makes the items of the general tasks.

Run ``python golden_sets/general/authoring/generate.py``: it rewrites ``golden_sets/general/*.jsonl``. The seed alone
decides, so the files stay byte for byte the same as long as this folder does not change.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import arithmetic
import choice
import extraction
import instructions
import long_context
import reading

HERE = Path(__file__).resolve().parent
SEED = 20260
TASKS: dict[str, Callable[[random.Random], Iterator[dict[str, Any]]]] = {
    "arithmetic": arithmetic.items,
    "instructions": instructions.items,
    "reading": reading.items,
    "choice": choice.items,
    "json": extraction.items,
    "long_context": long_context.items,
}


def text_of(task: str, seed: int = SEED) -> str:
    """The file of one task: an item a line, with an id. Tasks do not depend on one another.

    :raises ValueError: two items ask the same.
    """
    chance = random.Random(f"{seed} {task}")
    lines, asked = [], set()
    for number, item in enumerate(TASKS[task](chance)):
        key = json.dumps([item["question"], sorted(item.get("choices", []))])
        if key in asked:
            raise ValueError(f"{task}: asked twice: {item['question']}")
        asked.add(key)
        lines.append(json.dumps({"id": f"{task}-{number:03}", **item}, ensure_ascii=False) + "\n")
    return "".join(lines)


def main() -> None:
    """Write all files."""
    for task in TASKS:
        (HERE.parent / f"{task}.jsonl").write_text(text_of(task), encoding="utf-8")


if __name__ == "__main__":
    main()
