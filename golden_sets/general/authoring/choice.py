"""Multiple choice with four answers, scored by their likelihood."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

PAIRS: dict[str, tuple[str, dict[str, str]]] = {
    "capital": (
        "What is the capital of {}?",
        {
            "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon", "Greece": "Athens",
            "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki", "Poland": "Warsaw", "Austria": "Vienna",
            "Hungary": "Budapest", "Ireland": "Dublin", "Japan": "Tokyo", "China": "Beijing", "India": "New Delhi",
            "Egypt": "Cairo", "Kenya": "Nairobi", "Canada": "Ottawa", "Cuba": "Havana", "Peru": "Lima",
            "Argentina": "Buenos Aires", "Chile": "Santiago", "Russia": "Moscow", "Turkey": "Ankara", "Iran": "Tehran",
            "Thailand": "Bangkok", "Australia": "Canberra", "Denmark": "Copenhagen", "Belgium": "Brussels",
            "Iceland": "Reykjavik",
        },
    ),
    "opposite": (
        "Which word is the opposite of '{}'?",
        {
            "hot": "cold", "early": "late", "empty": "full", "heavy": "light", "deep": "shallow", "rich": "poor",
            "brave": "timid", "rough": "smooth", "narrow": "wide", "sweet": "bitter", "noisy": "quiet",
            "ancient": "modern", "generous": "stingy", "sharp": "blunt", "tight": "loose", "wet": "dry",
            "increase": "decrease", "arrive": "depart", "accept": "refuse", "victory": "defeat", "asleep": "awake",
            "rare": "common", "expand": "shrink", "guilty": "innocent", "temporary": "permanent",
        },
    ),
    "past": (
        "What is the past tense of the verb 'to {}'?",
        {
            "go": "went", "see": "saw", "write": "wrote", "bring": "brought", "teach": "taught", "swim": "swam",
            "choose": "chose", "fly": "flew", "break": "broke", "catch": "caught", "drink": "drank", "freeze": "froze",
            "give": "gave", "hide": "hid", "leave": "left", "lose": "lost", "ride": "rode", "sell": "sold",
            "sleep": "slept", "throw": "threw",
        },
    ),
    "trade": (
        "Which tool does the {} use most?",
        {
            "carpenter": "a saw", "painter": "a brush", "tailor": "a needle", "gardener": "a spade",
            "surgeon": "a scalpel", "photographer": "a camera", "astronomer": "a telescope", "fisherman": "a net",
            "hairdresser": "scissors", "blacksmith": "an anvil", "baker": "an oven", "drummer": "drumsticks",
            "violinist": "a bow", "cyclist": "a bicycle", "conductor": "a baton",
        },
    ),
    "young": (
        "What is the young of a {} called?",
        {
            "dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "goat": "kid",
            "pig": "piglet", "goose": "gosling", "duck": "duckling", "bear": "cub", "frog": "tadpole", "hen": "chick",
            "deer": "fawn", "kangaroo": "joey", "swan": "cygnet",
        },
    ),
    "element": (
        "Which chemical element has the symbol {}?",
        {
            "H": "hydrogen", "O": "oxygen", "C": "carbon", "N": "nitrogen", "Fe": "iron", "Au": "gold", "Ag": "silver",
            "Na": "sodium", "K": "potassium", "Ca": "calcium", "He": "helium", "Pb": "lead", "Cu": "copper",
            "Zn": "zinc", "S": "sulphur", "P": "phosphorus", "Hg": "mercury", "Sn": "tin", "Cl": "chlorine",
            "Ne": "neon",
        },
    ),
    "measures": (
        "What does a {} measure?",
        {
            "thermometer": "temperature", "barometer": "air pressure", "clock": "time", "ruler": "length",
            "scale": "weight", "compass": "direction", "speedometer": "speed", "altimeter": "height",
            "hygrometer": "humidity", "ammeter": "electric current",
        },
    ),
    "plural": (
        "What is the plural of '{}'?",
        {
            "mouse": "mice", "foot": "feet", "child": "children", "knife": "knives", "goose": "geese", "tooth": "teeth",
            "leaf": "leaves", "woman": "women", "ox": "oxen", "potato": "potatoes",
        },
    ),
}  # fmt: skip
MADE_UP = {"plural": ("mouses", "foots", "childs", "knifes", "gooses", "tooths", "leafs", "womans", "oxes", "potatos")}
"""Where the other answers would be too easy: wrong answers to the question itself."""
KINDS: dict[str, tuple[str, ...]] = {
    "a fruit": ("banana", "apricot", "grape", "pear", "mango"),
    "a bird": ("sparrow", "eagle", "owl", "heron", "robin"),
    "a fish": ("trout", "herring", "carp", "salmon", "cod"),
    "a metal": ("iron", "copper", "zinc", "nickel", "tin"),
    "a musical instrument": ("trumpet", "cello", "flute", "organ", "harp"),
    "a piece of furniture": ("wardrobe", "stool", "armchair", "desk", "cupboard"),
    "a piece of clothing": ("scarf", "jacket", "glove", "sock", "skirt"),
    "a vegetable": ("carrot", "leek", "spinach", "turnip", "celery"),
    "an insect": ("beetle", "ant", "moth", "wasp", "grasshopper"),
    "a planet": ("Mars", "Venus", "Saturn", "Neptune", "Jupiter"),
}
NUMBERS = 25


def _item(chance: random.Random, question: str, right: str, wrong: list[str]) -> dict[str, Any]:
    choices = [right, *wrong]
    chance.shuffle(choices)
    return {"question": question, "choices": choices, "answer": choices.index(right)}


def _numbers(chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(NUMBERS):
        kind = number % 5
        if kind == 0:
            four = chance.sample(range(100, 999), 4)
            yield _item(chance, "Which of these numbers is the largest?", *_split(four, max(four)))
        elif kind == 1:
            four = chance.sample(range(100, 999), 4)
            yield _item(chance, "Which of these numbers is the smallest?", *_split(four, min(four)))
        elif kind == 2:
            even = 2 * chance.randint(10, 49)
            odd = [2 * half + 1 for half in chance.sample(range(10, 49), 3)]
            yield _item(chance, "Which of these numbers is even?", *_split([even, *odd], even))
        elif kind == 3:
            first, step = chance.randint(2, 40), chance.randint(2, 9)
            row = [first + step * place for place in range(5)]
            wrong = [row[4] + other for other in chance.sample([-3, -2, -1, 1, 2, 3], 3)]
            shown = ", ".join(map(str, row[:4]))
            yield _item(chance, f"Which number comes next: {shown}?", *_split([row[4], *wrong], row[4]))
        else:
            one, other = chance.randint(3, 9), chance.randint(3, 9)
            right = one * other
            wrong = [right + off for off in chance.sample([-one, one, other + 1, -other - 1, 1], 3)]
            if len({right, *wrong}) < 4:
                wrong = [right + 2, right - 2, right + 3]
            yield _item(chance, f"What is {one} times {other}?", *_split([right, *wrong], right))


def _split(numbers: list[int], right: int) -> tuple[str, list[str]]:
    return str(right), [str(number) for number in numbers if number != right]


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Every pair once, with the answers to other questions of its kind; then kinds of things, and numbers."""
    for kind, (question, pairs) in PAIRS.items():
        for asked, right in pairs.items():
            wrong = chance.sample([other for other in pairs.values() if other != right], 3)
            if kind in MADE_UP:
                made_up = MADE_UP[kind][list(pairs).index(asked)]
                wrong = [made_up, asked, f"{made_up}es"]
            yield _item(chance, question.format(asked), right, wrong)
    for kind, things in KINDS.items():
        others = [thing for other, named in KINDS.items() if other != kind for thing in named if thing not in things]
        for right in chance.sample(things, 3):
            yield _item(chance, f"Which of these is {kind}?", right, chance.sample(sorted(set(others)), 3))
    yield from _numbers(chance)
