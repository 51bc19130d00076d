"""JSON extraction: a note, a JSON Schema, and the one object that the note describes.

Every schema is closed and demands each of its properties, so a reply is right when it equals ``answer``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from pools import COLOURS, FRUIT, MONTHS, PEOPLE, SURNAMES, TOWNS, TREES, WEEKDAYS

PER_NOTE = 15
Made = tuple[str, dict[str, Any], dict[str, Any]]
"""A note, the properties of its schema, and the object."""

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
FLAG: dict[str, Any] = {"type": "boolean"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _person(chance: random.Random) -> str:
    return f"{chance.choice(PEOPLE)} {chance.choice(SURNAMES)}"


def _concert(chance: random.Random) -> Made:
    town, day, month = chance.choice(TOWNS), chance.randint(1, 28), chance.choice(MONTHS)
    seats, player, free = chance.randint(80, 400), _person(chance), chance.random() < 0.5
    note = (
        f"{player} plays in the town hall of {town} on {day} {month}. There are {seats} seats. "
        f"{'Nobody has to pay.' if free else 'Tickets are sold at the door.'}"
    )
    properties = {"player": TEXT, "town": TEXT, "day": WHOLE, "month": TEXT, "seats": WHOLE, "free": FLAG}
    return note, properties, dict(zip(properties, (player, town, day, month, seats, free), strict=True))


def _harvest(chance: random.Random) -> Made:
    farmer, kinds = _person(chance), chance.sample(FRUIT, 3)
    sacks = [chance.randint(3, 60) for _ in kinds]
    listed = ", ".join(f"{count} sacks of {kind}" for count, kind in zip(sacks, kinds, strict=True))
    note = f"Harvest of {farmer}: {listed}. That is all for this year."
    crop = {
        "type": "object",
        "properties": {"fruit": TEXT, "sacks": WHOLE},
        "required": ["fruit", "sacks"],
        "additionalProperties": False,
    }
    properties = {"farmer": TEXT, "crops": {"type": "array", "items": crop}}
    crops = [{"fruit": kind, "sacks": count} for kind, count in zip(kinds, sacks, strict=True)]
    return note, properties, {"farmer": farmer, "crops": crops}


def _lost(chance: random.Random) -> Made:
    finder, colour, place = _person(chance), chance.choice(COLOURS), chance.choice(TOWNS)
    thing = chance.choice(("umbrella", "wallet", "scarf", "key ring", "suitcase"))
    shelf = chance.randint(1, 40)
    note = f"A {colour} {thing} was handed in by {finder} at {place} station. It lies on shelf {shelf}."
    properties = {
        "thing": _one_of("umbrella", "wallet", "scarf", "key ring", "suitcase"),
        "colour": TEXT,
        "finder": TEXT,
        "station": TEXT,
        "shelf": WHOLE,
    }
    return note, properties, dict(zip(properties, (thing, colour, finder, place, shelf), strict=True))


def _meeting(chance: random.Random) -> Made:
    people, day, hour = chance.sample(PEOPLE, 3), chance.choice(WEEKDAYS), chance.randint(9, 17)
    room = f"{chance.choice('ABCD')}{chance.randint(10, 49)}"
    note = (
        f"Next {day} at {hour} o'clock: meeting in room {room}. Coming: {', '.join(people[:2])} and {people[2]}. "
        f"{'Bring your own cup.' if hour > 12 else 'There will be coffee.'}"
    )
    properties = {
        "day": _one_of(*WEEKDAYS),
        "hour": WHOLE,
        "room": TEXT,
        "people": TEXTS,
    }
    return note, properties, {"day": day, "hour": hour, "room": room, "people": people}


def _book(chance: random.Random) -> Made:
    author, year, pages = _person(chance), chance.randint(1890, 2020), chance.randint(90, 700)
    title = f"The {chance.choice(COLOURS).capitalize()} {chance.choice(TREES).capitalize()}"
    lent = chance.random() < 0.5
    note = (
        f"'{title}' by {author}, {pages} pages, printed in {year}. "
        f"{'It is lent out at the moment.' if lent else 'It stands on the shelf.'}"
    )
    properties = {"title": TEXT, "author": TEXT, "pages": WHOLE, "year": WHOLE, "lent": FLAG}
    return note, properties, dict(zip(properties, (title, author, pages, year, lent), strict=True))


def _hike(chance: random.Random) -> Made:
    stops, length = chance.sample(TOWNS, 4), chance.randint(9, 38)
    hard = chance.choice(("easy", "medium", "hard"))
    note = (
        f"The {hard} path of {length} kilometres begins in {stops[0]}, passes {stops[1]} and {stops[2]} and ends in "
        f"{stops[3]}."
    )
    properties = {
        "start": TEXT,
        "via": TEXTS,
        "end": TEXT,
        "kilometres": WHOLE,
        "difficulty": _one_of("easy", "medium", "hard"),
    }
    return note, properties, dict(zip(properties, (stops[0], stops[1:3], stops[3], length, hard), strict=True))


def _animal(chance: random.Random) -> Made:
    name, keeper = chance.choice(PEOPLE), _person(chance)
    kind = chance.choice(("otter", "lynx", "tortoise", "flamingo", "badger"))
    age, weight = chance.randint(1, 30), chance.randint(2, 90)
    fed, other = chance.sample(("fish", "hay", "berries", "insects", "cabbage"), 2)
    note = (
        f"{name} the {kind} is {age} years old and weighs {weight} kilograms. {keeper} feeds {name} {fed} and, on "
        f"holidays, {other}."
    )
    animal = {
        "type": "object",
        "properties": {"name": TEXT, "kind": TEXT},
        "required": ["name", "kind"],
        "additionalProperties": False,
    }
    properties = {"animal": animal, "age": WHOLE, "weight": WHOLE, "keeper": TEXT, "food": TEXTS}
    values = ({"name": name, "kind": kind}, age, weight, keeper, [fed, other])
    return note, properties, dict(zip(properties, values, strict=True))


def _repair(chance: random.Random) -> Made:
    owner, worker = chance.sample(SURNAMES, 2)
    what = chance.choice(("roof", "pump", "gate", "chimney", "staircase"))
    hours, costs = chance.randint(1, 12), 10 * chance.randint(6, 90)
    urgent = chance.random() < 0.5
    note = (
        f"{worker} mends the {what} of {owner}. It should take {hours} hours and cost {costs} euros. "
        f"{'It cannot wait.' if urgent else 'There is no hurry.'}"
    )
    properties = {"owner": TEXT, "worker": TEXT, "part": TEXT, "hours": WHOLE, "euros": WHOLE, "urgent": FLAG}
    return note, properties, dict(zip(properties, (owner, worker, what, hours, costs, urgent), strict=True))


NOTES: tuple[Callable[[random.Random], Made], ...] = (
    _concert, _harvest, _lost, _meeting, _book, _hike, _animal, _repair,
)  # fmt: skip


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Each kind of note with several sets of facts."""
    for make in NOTES:
        for _ in range(PER_NOTE):
            note, properties, answer = make(chance)
            schema = {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
            question = (
                f"Extract the facts of the note as one JSON object that follows the schema. Write the JSON alone.\n\n"
                f"Schema: {json.dumps(schema)}\n\nNote: {note}"
            )
            yield {"question": question, "answer": json.dumps(answer, ensure_ascii=False)}
