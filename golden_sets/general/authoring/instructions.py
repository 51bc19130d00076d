"""Instructions that a program can verify, after the kinds of IFEval (Zhou et al. 2023, arXiv:2311.07911).

Each item asks for a short text about an everyday subject under one or two rules. The checks are in
``tasks/scoring.py``; an empty reply follows no instruction.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from pools import COLOURS, PEOPLE, TOWNS, TREES

ITEMS = 120
SUBJECTS = (
    "a walk in the rain", "an old bicycle", "the smell of fresh bread", "a lighthouse at night", "learning to swim",
    "a broken umbrella", "the first snow of the year", "a crowded market", "a lost key", "a garden in spring",
    "an empty railway station", "a chess game", "the sound of a violin", "a letter from a friend", "a long bridge",
    "a cup of tea", "a windy beach", "a sleeping cat", "a mountain hut", "a map of the world", "a wooden boat",
    "a quiet library", "a birthday cake", "a pair of old boots", "a clock that is wrong", "a picnic by the lake",
    "a bee on a flower", "a street musician", "a power cut", "a new neighbour",
)  # fmt: skip
WORDS = (
    "lantern", "window", "river", "copper", "morning", "whistle", "pocket", "ladder", "thunder", "blanket", "orchard",
    "compass", "velvet", "harbour", "candle", "feather",
)  # fmt: skip
ENDINGS = ("That is all.", "So it goes.", "Nothing more to say.", "And that was that.")

Rule = tuple[str, dict[str, Any]]
"""The instruction in words, and the check."""


def _words(chance: random.Random) -> Rule:
    low = chance.choice((10, 15, 20, 30))
    high = low + chance.choice((10, 15, 20))
    return f"Use at least {low} and at most {high} words.", {"type": "words", "at_least": low, "at_most": high}


def _sentences(chance: random.Random) -> Rule:
    count = chance.randint(2, 4)
    text = f"Write exactly {count} sentences, each ending in a full stop, and use no other full stops."
    return text, {"type": "sentences", "count": count}


def _case(chance: random.Random) -> Rule:
    if chance.random() < 0.5:
        return "Write in lower case letters only; no capital letters at all.", {"type": "lower_case"}
    return "WRITE IN CAPITAL LETTERS ONLY.", {"type": "upper_case"}


def _no_commas(chance: random.Random) -> Rule:
    return "Do not use any comma.", {"type": "without", "texts": [","]}


def _include(chance: random.Random) -> Rule:
    first, second = chance.sample(WORDS, 2)
    text = f"Use the words '{first}' and '{second}'."
    return text, {"type": "with", "texts": [first, second]}


def _avoid(chance: random.Random) -> Rule:
    word = chance.choice(("the", "and", "is", "very", "was"))
    return f"Do not use the word '{word}'.", {"type": "without_words", "words": [word]}


def _starts(chance: random.Random) -> Rule:
    text = chance.choice(("Listen:", "Once upon a time", "Dear reader,", "In short,"))
    return f"Begin with the words '{text}' and nothing before them.", {"type": "starts", "text": text}


def _ends(chance: random.Random) -> Rule:
    text = chance.choice(ENDINGS)
    return f"End with the sentence '{text}' and nothing after it.", {"type": "ends", "text": text}


def _bullets(chance: random.Random) -> Rule:
    count = chance.randint(2, 5)
    return f"Write a list of exactly {count} lines, each beginning with '- '.", {"type": "bullets", "count": count}


def _numbered(chance: random.Random) -> Rule:
    count = chance.randint(3, 5)
    text = f"Write a numbered list of exactly {count} points: '1.', '2.' and so on, one a line."
    return text, {"type": "numbered", "count": count}


def _quoted(chance: random.Random) -> Rule:
    return "Put the whole reply in double quotation marks.", {"type": "quoted"}


def _title(chance: random.Random) -> Rule:
    return "Give it a title in double angle brackets, like <<a title>>.", {"type": "title"}


def _paragraphs(chance: random.Random) -> Rule:
    count = chance.randint(2, 3)
    return f"Write exactly {count} paragraphs with an empty line between them.", {"type": "paragraphs", "count": count}


ALONE: tuple[Callable[[random.Random], Rule], ...] = (_bullets, _numbered, _quoted, _paragraphs, _sentences)
"""Rules about the shape of the whole reply: at most one of them in an item."""
TOGETHER: tuple[Callable[[random.Random], Rule], ...] = (_words, _case, _no_commas, _include, _avoid, _title)
EDGES: tuple[Callable[[random.Random], Rule], ...] = (_starts, _ends)


def _contradict(rules: list[Rule]) -> bool:
    """Whether a text that one rule asks for breaks another one."""
    texts = [check["text"].lower() for _, check in rules if "text" in check]
    banned = [text for _, check in rules if check["type"] == "without" for text in check["texts"]]
    banned += [word for _, check in rules if check["type"] == "without_words" for word in check["words"]]
    return any(text in asked for asked in texts for text in banned)


def _exact(chance: random.Random) -> dict[str, Any]:
    kind = chance.randrange(4)
    if kind == 0:
        text = f"{chance.choice(PEOPLE)} lives in {chance.choice(TOWNS)}."
        return {
            "question": f"Repeat the following sentence exactly as it is, and write nothing else:\n{text}",
            "checks": [{"type": "exactly", "text": text}],
        }
    listed = chance.sample({1: COLOURS, 2: TREES, 3: PEOPLE}[kind], 4)
    if kind == 1:
        order, wanted = "in alphabetical order", sorted(listed)
    elif kind == 2:
        order, wanted = "in reverse order", listed[::-1]
    else:
        order, wanted = "with the first and the last one swapped", [listed[3], *listed[1:3], listed[0]]
    return {
        "question": f"Write these four words {order}, separated by a comma and a space, and write nothing else: "
        f"{', '.join(listed)}",
        "checks": [{"type": "exactly", "text": ", ".join(wanted)}],
    }


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """A quarter ask for an exact text, the others for a text about a subject under one or two rules."""
    asked: set[str] = set()
    while len(asked) < ITEMS:
        if len(asked) % 4 == 0:
            item = _exact(chance)
        else:
            pools = chance.sample((ALONE, TOGETHER, EDGES), 1 + len(asked) % 2)
            if pools in ([EDGES, ALONE], [ALONE, EDGES]):  # a list cannot begin or end with other words
                pools[pools.index(ALONE)] = TOGETHER
            rules = [chance.choice(pool)(chance) for pool in pools]
            if {check["type"] for _, check in rules} & {"upper_case", "lower_case"}:
                rules = [rule for rule in rules if "case" in rule[1]["type"]]  # fixed words have a case of their own
            if _contradict(rules):
                continue
            item = {
                "question": f"Write a short text about {chance.choice(SUBJECTS)}. "
                + " ".join(text for text, _ in rules),
                "checks": [check for _, check in rules],
            }
        if item["question"] not in asked:
            asked.add(item["question"])
            yield {"question": item["question"], "checks": json.dumps(item["checks"])}
