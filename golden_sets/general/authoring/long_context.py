"""Look-up in a long text: one or two facts stand somewhere in some 2,000 to 6,000 tokens of others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from pools import COLOURS, MONTHS, PEOPLE, SURNAMES, TOWNS, TREES

WORDS = (1600, 2300, 3000, 3700, 4300)
"""Words of the prose, for 2,000 to 6,000 tokens: the embedded model's tokenizer makes 1.3 of a word."""
REGISTRY_SHARE = 0.68
"""A registry is so much shorter: it makes 1.9 tokens of a word there, each digit being one."""
PER_LENGTH = 12
ASK = "Answer with the name, number or phrase alone, not with a sentence."
FILLER = (
    "The road past {town} was mended again, and the carts had to wait at the ford until noon.",
    "{person} maintains that the {tree} by the gate is older than the house, but has no proof of it.",
    "It rained on the hay near {town}, so {person} turned it twice and blamed the almanac.",
    "Somebody left a {colour} coat on the bench; {person} hung it over the fence and forgot about it.",
    "In {month} the mill stood still for a week because the wheel was full of weeds.",
    "The children of {town} built a raft of {tree} wood that sank before it left the shore.",
    "{person} wrote to {other} about the price of seed, and received an answer about the weather.",
    "They painted the boathouse {colour}, which nobody had asked for, and it was left that way.",
    "A choir from {town} sang in the square, and the dogs joined in at the second verse.",
    "{person} and {other} quarrelled about a hedge of {tree}, then shared a loaf and were silent.",
)


def _filler(chance: random.Random) -> str:
    person, other = chance.sample(PEOPLE, 2)
    return chance.choice(FILLER).format(
        person=person,
        other=other,
        town=chance.choice(TOWNS),
        tree=chance.choice(TREES),
        colour=chance.choice(COLOURS),
        month=chance.choice(MONTHS),
    )


def _code(chance: random.Random) -> str:
    return f"{chance.choice('BCDFGHJKLM')}{chance.randint(100, 999)}"


def _registry(chance: random.Random, words: int) -> tuple[str, str, str, list[str]]:
    """A list of entries of one form; one of them is asked for."""
    entries, lines = {}, []
    while sum(len(line.split()) for line in lines) < REGISTRY_SHARE * words:
        name = f"{chance.choice(PEOPLE)} {chance.choice(SURNAMES)}"
        if name not in entries:
            entries[name] = _code(chance)
            pier = chance.choice(TREES)
            lines.append(f"{name} of {chance.choice(TOWNS)} keeps boat {entries[name]} at the {pier} pier.")
    name = chance.choice(list(entries))
    others = sorted({code for code in entries.values() if code != entries[name]})
    return "\n".join(lines), f"Which boat does {name} keep?", entries[name], others


def _needle(chance: random.Random, words: int) -> tuple[str, str, str, list[str]]:
    """Prose with one sentence of another kind."""
    right, wrong = _code(chance), _code(chance)
    safe, chest = chance.sample(SURNAMES, 2)
    needles = [
        f"The combination of the safe of {safe} is {right}.",
        f"The combination of the chest of {chest} is {wrong}.",
    ]
    return _prose(chance, words, needles), f"What is the combination of the safe of {safe}?", right, [wrong]


def _twice(chance: random.Random, words: int) -> tuple[str, str, str, list[str]]:
    """Two facts that have to be put together."""
    ships, captains = chance.sample(TREES, 2), chance.sample(SURNAMES, 2)
    houses = [_code(chance), _code(chance)]
    needles = [f"Captain {captain} commands the ship '{ship}'." for ship, captain in zip(ships, captains, strict=True)]
    needles += [f"Captain {name} lives in house {house}." for name, house in zip(captains, houses, strict=True)]
    question = f"In which house does the captain of the ship '{ships[0]}' live?"
    return _prose(chance, words, needles), question, houses[0], [houses[1]]


def _last(chance: random.Random, words: int) -> tuple[str, str, str, list[str]]:
    """A fact that changes; the last state counts."""
    thing = chance.choice(("bell", "anchor", "ladder", "telescope"))
    places = chance.sample(("cellar", "attic", "stable", "chapel", "bakery", "boathouse loft"), 3)
    owner = chance.choice(SURNAMES)
    needles = [f"The {thing} of {owner} was carried to the {place}." for place in places]
    question = f"Where was the {thing} of {owner} carried last?"
    return _prose(chance, words, needles, shuffled=False), question, places[2], places[:2]


def _prose(chance: random.Random, words: int, needles: list[str], *, shuffled: bool = True) -> str:
    lines: list[str] = []
    while sum(len(line.split()) for line in lines) < words:
        lines.append(_filler(chance))
    places = sorted(chance.sample(range(len(lines) + 1), len(needles)))
    if shuffled:
        chance.shuffle(needles := list(needles))
    for place, needle in reversed(list(zip(places, needles, strict=True))):
        lines.insert(place, needle)
    return " ".join(lines)


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Every length with three texts of each kind."""
    kinds = (_registry, _needle, _twice, _last)
    for words in WORDS:
        for number in range(PER_LENGTH):
            text, question, answer, others = kinds[number % len(kinds)](chance, words)
            yield {
                "question": f"Read the text and answer the question.\n\n{text}\n\nQuestion: {question}\n{ASK}",
                "answers": [answer],
                "others": others,
            }
