"""Word problems with one whole number as answer, in one to four steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from pools import FRUIT, PEOPLE, TOWNS

PER_PROBLEM = 5
ASK = "Work it out step by step, then give the result as a whole number on the last line, in the form 'Answer: 7'."

Numbers = dict[str, int]
Problem = tuple[str, dict[str, tuple[int, int]], Callable[[Numbers], int]]
"""The text, the range of each number, and the answer."""

PROBLEMS: tuple[Problem, ...] = (
    (
        "{name} packs {fruit} into {a} crates of {b} each and sells {c} of them at the gate. How many {fruit} are "
        "left?",
        {"a": (4, 15), "b": (12, 36), "c": (5, 40)},
        lambda n: n["a"] * n["b"] - n["c"],
    ),
    (
        "A bus leaves {town} with {a} passengers. At the first stop {b} get off and {c} get on; at the second stop {d} "
        "get on. How many passengers are on the bus now?",
        {"a": (25, 48), "b": (3, 20), "c": (2, 15), "d": (1, 12)},
        lambda n: n["a"] - n["b"] + n["c"] + n["d"],
    ),
    (
        "{name} reads {a} pages every weekday and {b} pages on each day of the weekend. How many pages is that in {c} "
        "whole weeks?",
        {"a": (8, 30), "b": (31, 60), "c": (2, 6)},
        lambda n: (5 * n["a"] + 2 * n["b"]) * n["c"],
    ),
    (
        "A hall has {a} rows of {b} seats. For a concert {c} seats stay empty. How many seats are taken?",
        {"a": (12, 30), "b": (14, 28), "c": (5, 90)},
        lambda n: n["a"] * n["b"] - n["c"],
    ),
    (
        "{name} saves {a} euros a month and gets {b} euros for a birthday. How many euros are saved after {c} months "
        "if "
        "{d} euros are spent on a lamp?",
        {"a": (20, 75), "b": (25, 90), "c": (4, 18), "d": (15, 60)},
        lambda n: n["a"] * n["c"] + n["b"] - n["d"],
    ),
    (
        "A baker makes {a} trays of {b} rolls. {c} rolls burn, and {d} are made in their place. How many rolls are "
        "there "
        "to sell?",
        {"a": (5, 14), "b": (16, 30), "c": (6, 12), "d": (2, 5)},
        lambda n: n["a"] * n["b"] - n["c"] + n["d"],
    ),
    (
        "Three friends share a bill of {total} euros equally. {name} pays {b} euros more than that as a tip. How many "
        "euros does {name} pay?",
        {"share": (11, 64), "b": (2, 9)},
        lambda n: n["share"] + n["b"],
    ),
    (
        "A train covers {a} kilometres in each of the first {b} hours and {c} kilometres in each of the next {d} "
        "hours. "
        "How many kilometres does it cover altogether?",
        {"a": (60, 110), "b": (2, 5), "c": (75, 130), "d": (2, 4)},
        lambda n: n["a"] * n["b"] + n["c"] * n["d"],
    ),
    (
        "{name} is {a} years old. {other} is {b} times as old. How many years older is {other}?",
        {"a": (6, 21), "b": (2, 4)},
        lambda n: n["a"] * (n["b"] - 1),
    ),
    (
        "A tank holds {a} litres. It loses {b} litres an hour through a leak and gains {c} litres an hour from a pipe. "
        "How many litres are in it after {d} hours?",
        {"a": (300, 700), "b": (18, 40), "c": (3, 15), "d": (3, 9)},
        lambda n: n["a"] - (n["b"] - n["c"]) * n["d"],
    ),
    (
        "In {town} a ticket costs {a} euros for adults and {b} euros for children. What do {c} adults and {d} children "
        "pay together, in euros?",
        {"a": (11, 25), "b": (4, 10), "c": (2, 6), "d": (3, 9)},
        lambda n: n["a"] * n["c"] + n["b"] * n["d"],
    ),
    (
        "{name} plants {a} beds with {b} tulips and {c} daffodils each. A frost kills {d} flowers. How many are left?",
        {"a": (4, 12), "b": (10, 25), "c": (8, 20), "d": (6, 45)},
        lambda n: n["a"] * (n["b"] + n["c"]) - n["d"],
    ),
    (
        "A printer prints {a} pages a minute. How many pages does it print in {b} minutes if it stands still for {c} "
        "of "
        "them?",
        {"a": (14, 40), "b": (12, 30), "c": (2, 9)},
        lambda n: n["a"] * (n["b"] - n["c"]),
    ),
    (
        "{name} walks {a} steps to work and the same way back, {b} days a week. {other} walks {c} steps less in a "
        "week. "
        "How many steps does {other} walk in a week?",
        {"a": (1200, 3900), "b": (3, 6), "c": (150, 950)},
        lambda n: 2 * n["a"] * n["b"] - n["c"],
    ),
    (
        "A library owns {a} novels and {b} atlases. It buys {c} novels and gives away half as many atlases as it buys "
        "novels. How many books does it own then?",
        {"a": (340, 900), "b": (60, 150), "half": (9, 25)},
        lambda n: n["a"] + n["b"] + 2 * n["half"] - n["half"],
    ),
    (
        "A rope of {a} metres is cut into pieces of {b} metres. How many metres are left over when as many whole "
        "pieces "
        "as possible are cut?",
        {"a": (61, 199), "b": (7, 13)},
        lambda n: n["a"] % n["b"],
    ),
    (
        "{name} earns {a} euros an hour and {b} euros an hour more on Sundays. How many euros does {name} earn with "
        "{c} "
        "hours on a Saturday and {d} hours on a Sunday?",
        {"a": (13, 28), "b": (3, 9), "c": (4, 9), "d": (3, 8)},
        lambda n: n["a"] * n["c"] + (n["a"] + n["b"]) * n["d"],
    ),
    (
        "A school has {a} classes of {b} pupils. A quarter of all pupils come by bicycle. How many pupils come another "
        "way?",
        {"quads": (2, 6), "b": (18, 30)},
        lambda n: 3 * n["quads"] * n["b"],
    ),
    (
        "A pack of {a} batteries costs {b} euros. {name} needs {c} packs and pays with a note of 200 euros. How many "
        "euros are given back?",
        {"a": (4, 12), "b": (5, 14), "c": (3, 11)},
        lambda n: 200 - n["b"] * n["c"],
    ),
    (
        "On Monday {a} people visit the museum of {town}. On Tuesday there are {b} fewer, on Wednesday twice as many "
        "as "
        "on Tuesday. How many visit on the three days together?",
        {"a": (120, 300), "b": (15, 80)},
        lambda n: n["a"] + 3 * (n["a"] - n["b"]),
    ),
    (
        "A recipe for {a} people needs {each} grams of flour for each of them. {name} cooks for {b} people and has {c} "
        "grams in the house. How many grams are missing?",
        {"a": (2, 4), "each": (80, 140), "b": (7, 12), "c": (120, 400)},
        lambda n: n["each"] * n["b"] - n["c"],
    ),
    (
        "A garden is {a} metres long and {b} metres wide. A fence goes all around it except for a gate of {c} metres. "
        "How many metres of fence are needed?",
        {"a": (18, 60), "b": (9, 40), "c": (2, 5)},
        lambda n: 2 * (n["a"] + n["b"]) - n["c"],
    ),
    (
        "A floor of {a} by {b} tiles is laid; {c} tiles break and are replaced. How many tiles are used altogether?",
        {"a": (14, 35), "b": (11, 30), "c": (3, 19)},
        lambda n: n["a"] * n["b"] + n["c"],
    ),
    (
        "{name} collects stamps: {a} from Norway, twice as many from Chile, and {b} fewer from Ghana than from Chile. "
        "How many stamps is that in all?",
        {"a": (24, 70), "b": (4, 22)},
        lambda n: 5 * n["a"] - n["b"],
    ),
)


def _text(template: str, numbers: Numbers, words: dict[str, str]) -> str:
    shown = {**numbers, "total": 3 * numbers.get("share", 0)}
    if "half" in numbers:
        shown["c"] = 2 * numbers["half"]
    if "quads" in numbers:
        shown["a"] = 4 * numbers["quads"]
    return template.format(**shown, **words)


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Every problem with several sets of numbers and names."""
    for template, ranges, answer in PROBLEMS:
        for _ in range(PER_PROBLEM):
            numbers = {name: chance.randint(*bounds) for name, bounds in ranges.items()}
            name, other = chance.sample(PEOPLE, 2)
            words = {"name": name, "other": other, "town": chance.choice(TOWNS), "fruit": chance.choice(FRUIT)}
            yield {"question": f"{_text(template, numbers, words)}\n\n{ASK}", "answer": str(answer(numbers))}
