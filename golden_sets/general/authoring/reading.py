"""Reading comprehension: a short passage and a question that one of its facts answers.

``answers`` are the acceptable phrases, ``others`` the phrases of the passage that would be a wrong answer to this
question: a reply that names one of them as well has not answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from pools import COLOURS, MONTHS, PEOPLE, SURNAMES, TOWNS, TREES, WEEKDAYS

PER_PASSAGE = 10
ASK = "Answer with the name, number or phrase alone, not with a sentence."
Made = tuple[str, list[tuple[str, str, list[str]]]]
"""A passage, and questions with their answer and the wrong answers that the passage offers."""


def _museum(chance: random.Random) -> Made:
    town, first, second = chance.choice(TOWNS), *chance.sample(SURNAMES, 2)
    opened, closed = chance.randint(1862, 1931), chance.randint(1952, 1994)
    day, free = chance.sample(WEEKDAYS, 2)
    passage = (
        f"The clock museum of {town} was founded in {opened} by the watchmaker {first}, who left his whole collection "
        f"to "
        f"the town. It was shut in {closed} after a flood in the cellar and might have been forgotten, had a teacher "
        f"named {second} not asked for the keys six years later. Today it shows some nine hundred clocks. It is closed "
        f"every {day}; on a {free} nobody pays to go in."
    )
    return passage, [
        ("Who founded the museum?", first, [second]),
        ("Who had the museum opened again?", second, [first]),
        ("In which year was the museum founded?", str(opened), [str(closed)]),
        ("In which year was the museum shut?", str(closed), [str(opened)]),
        ("On which day of the week is admission free?", free, [day]),
        ("On which day of the week is the museum closed?", day, [free]),
    ]


def _race(chance: random.Random) -> Made:
    first, second, third, fourth = chance.sample(PEOPLE, 4)
    tree, colour = chance.choice(TREES), chance.choice(COLOURS)
    minutes = chance.randint(41, 55)
    passage = (
        f"Four people ran from the old {tree} to the harbour. {third} was in front for most of the way, but slipped on "
        f"the wet steps and had to let {second} pass. On the last hundred metres {first}, in a {colour} shirt, "
        f"overtook "
        f"both and won after {minutes} minutes; {second} came in two minutes later, just before {third}. {fourth} gave "
        f"up at the mill with a sore knee and watched the finish from a bench."
    )
    return passage, [
        ("Who won the race?", first, [second, third, fourth]),
        ("Who came second?", second, [first, third, fourth]),
        ("Who came third?", third, [first, second, fourth]),
        ("Who did not finish?", fourth, [first, second, third]),
        ("How many minutes did the winner need?", str(minutes), [str(minutes + 2)]),
        ("How many minutes did the second runner need?", str(minutes + 2), []),
    ]


def _letter(chance: random.Random) -> Made:
    writer, reader, guest = chance.sample(PEOPLE, 3)
    old, new = chance.sample(TOWNS, 2)
    early, late = chance.sample(MONTHS[:6], 1)[0], chance.sample(MONTHS[6:], 1)[0]
    passage = (
        f"Dear {reader}, you ask how we have been. In {early} we still lived in {old}, in the flat above the pharmacy; "
        f"since {late} our address is in {new}, where the rent is lower and the rooms are dry. {guest} helped us carry "
        f"the piano, which nobody else dared to touch. Do come and see us before the winter. Yours, {writer}"
    )
    return passage, [
        ("Who wrote the letter?", writer, [reader, guest]),
        ("To whom is the letter addressed?", reader, [writer, guest]),
        ("Who helped to carry the piano?", guest, [writer, reader]),
        ("In which town does the writer live now?", new, [old]),
        ("In which town did the writer live before?", old, [new]),
        ("Since which month has the writer had the new address?", late, [early]),
    ]


def _prices(chance: random.Random) -> Made:
    names = chance.sample(SURNAMES, 3)
    cheap = chance.randint(18, 40)
    middle, dear = cheap + chance.randint(3, 9), cheap + chance.randint(12, 30)
    days = chance.sample(range(2, 9), 3)
    passage = (
        f"Three workshops offered to mend the church bell of {chance.choice(TOWNS)}. {names[0]} asked for {dear} "
        f"hundred "
        f"euros and wanted to be done in {days[0]} days. {names[1]} asked for {cheap} hundred, but needed {days[1]} "
        f"days "
        f"and would start only after the harvest. The offer of {names[2]} lay between them: {middle} hundred euros, "
        f"and "
        f"{days[2]} days of work."
    )
    by_days = sorted(zip(days, names, strict=True))
    return passage, [
        ("Which workshop was the cheapest?", names[1], [names[0], names[2]]),
        ("Which workshop was the most expensive?", names[0], [names[1], names[2]]),
        ("Which workshop would have needed the fewest days?", by_days[0][1], [by_days[1][1], by_days[2][1]]),
        ("Which workshop would have needed the most days?", by_days[2][1], [by_days[0][1], by_days[1][1]]),
        ("Which workshop would start only after the harvest?", names[1], [names[0], names[2]]),
    ]


def _garden(chance: random.Random) -> Made:
    north, south, east, west = chance.sample(TREES, 4)
    gardener, owner = chance.sample(PEOPLE, 2)
    age = chance.randint(70, 190)
    passage = (
        f"In the garden of {owner} each side has its own tree. A {north} stands to the north, where it keeps the wind "
        f"off, and a {south} to the south, which is kept low so that the kitchen has light. The {east} in the east is "
        f"the oldest of them: {gardener}, who looks after them all, counts {age} years. The tree in the west was "
        f"struck "
        f"by lightning and replaced by a young {west}."
    )
    return passage, [
        ("Which kind of tree is the oldest?", east, [north, south, west]),
        ("Which kind of tree is the youngest?", west, [north, south, east]),
        ("Which kind of tree is kept low?", south, [north, east, west]),
        ("Which kind of tree keeps the wind off?", north, [south, east, west]),
        ("Who looks after the trees?", gardener, [owner]),
        ("Who owns the garden?", owner, [gardener]),
    ]


def _expedition(chance: random.Random) -> Made:
    leader, doctor, cook = chance.sample(SURNAMES, 3)
    start, end = chance.sample(TOWNS, 2)
    month = chance.choice(MONTHS[2:6])
    dogs, boats = chance.sample(range(6, 40), 2)
    passage = (
        f"The expedition left {start} in {month} with {dogs} dogs and {boats} small boats. {leader} led it, though it "
        f"was the doctor, {doctor}, who had drawn the map. When the ice closed behind them they had food for eleven "
        f"weeks; that nobody starved was the merit of the cook, {cook}, who had hidden a store of dried fish under his "
        f"bunk. They came ashore at {end} and never saw the boats again."
    )
    return passage, [
        ("Who led the expedition?", leader, [doctor, cook]),
        ("Who drew the map?", doctor, [leader, cook]),
        ("Who had hidden dried fish?", cook, [leader, doctor]),
        ("From where did the expedition leave?", start, [end]),
        ("Where did they come ashore?", end, [start]),
        ("How many dogs did they take?", str(dogs), [str(boats)]),
        ("How many boats did they take?", str(boats), [str(dogs)]),
    ]


def _school(chance: random.Random) -> Made:
    piano, flute, drums = chance.sample(PEOPLE, 3)
    days = chance.sample(WEEKDAYS[:5], 3)
    room = chance.sample(range(11, 39), 2)
    passage = (
        f"At the music school {piano} teaches the piano on {days[0]}s in room {room[0]}. The flute is taught by "
        f"{flute} "
        f"on {days[1]}s, in the same room. For the drums, which can be heard in the whole house, {drums} has room "
        f"{room[1]} in the cellar, and only on {days[2]}s, when the office is empty."
    )
    return passage, [
        ("Who teaches the flute?", flute, [piano, drums]),
        ("Who teaches in the cellar?", drums, [piano, flute]),
        ("Who teaches the piano?", piano, [flute, drums]),
        ("On which day of the week are the drums taught?", days[2], [days[0], days[1]]),
        ("On which day of the week is the office empty?", days[2], [days[0], days[1]]),
        ("In which room is the flute taught?", str(room[0]), [str(room[1])]),
    ]


def _market(chance: random.Random) -> Made:
    cheese, honey, bread = chance.sample(SURNAMES, 3)
    colours = chance.sample(COLOURS, 3)
    hour = chance.randint(5, 8)
    passage = (
        f"You find {cheese} with cheese under the {colours[0]} awning and {bread} with bread under the {colours[1]} "
        f"one. "
        f"Between the two, under an awning that once was {colours[2]}, {honey} sells honey and complains of the bees. "
        f"The "
        f"bread is sold out first, though its stall opens at {hour}, an hour before the others."
    )
    return passage, [
        ("Who sells honey?", honey, [cheese, bread]),
        ("Who sells cheese?", cheese, [honey, bread]),
        ("Whose goods are sold out first?", bread, [cheese, honey]),
        ("What colour is the awning of the cheese stall?", colours[0], colours[1:]),
        ("What colour is the awning of the bread stall?", colours[1], [colours[0], colours[2]]),
    ]


def _ferry(chance: random.Random) -> Made:
    out, back = chance.sample(TOWNS, 2)
    captain, mate = chance.sample(SURNAMES, 2)
    cars, people = chance.randint(18, 44), chance.randint(120, 320)
    passage = (
        f"The ferry between {out} and {back} takes {cars} cars and {people} passengers. It was named after its first "
        f"captain, {captain}. In rough weather the present mate, {mate}, has the cars chained to the deck, and only "
        f"{cars - 6} are let on. The crossing to {back} takes fifty minutes, the way back ten minutes less because of "
        f"the current."
    )
    return passage, [
        ("After whom is the ferry named?", captain, [mate]),
        ("Who has the cars chained?", mate, [captain]),
        ("How many cars are let on in rough weather?", str(cars - 6), [str(cars), str(people)]),
        ("How many passengers does the ferry take?", str(people), [str(cars), str(cars - 6)]),
        ("How many minutes does the way back take?", "40|forty", ["50", "fifty", "10"]),
    ]


def _theft(chance: random.Random) -> Made:
    owner, thief, witness, officer = chance.sample(SURNAMES, 4)
    place, found = chance.sample(TOWNS, 2)
    passage = (
        f"The violin of {owner} vanished from a train standing at {place}. The conductor suspected a student, but "
        f"{witness}, who had dozed by the window, remembered a man with two umbrellas. Inspector {officer} found the "
        f"violin nine days later in a pawnshop in {found}, and the umbrellas in the flat of a certain {thief}, who "
        f"confessed at once."
    )
    return passage, [
        ("Who owned the violin?", owner, [thief, witness, officer]),
        ("Who stole the violin?", thief, [owner, witness, officer]),
        ("Who remembered a man with umbrellas?", witness, [owner, thief, officer]),
        ("Who found the violin?", officer, [owner, thief, witness]),
        ("Where was the violin found?", found, [place]),
        ("Where did the violin vanish?", place, [found]),
    ]


def _weather(chance: random.Random) -> Made:
    towns = chance.sample(TOWNS, 3)
    low = chance.randint(-9, 2)
    high = low + chance.randint(8, 14)
    rain = chance.randint(21, 60)
    passage = (
        f"In the night it will freeze in {towns[0]}, with {low} degrees before sunrise, while {towns[1]} stays mild "
        f"under "
        f"thick cloud at {high} degrees. Rain reaches {towns[2]} towards noon: up to {rain} millimetres may fall there "
        f"by "
        f"the evening, and the lower road will be closed."
    )
    return passage, [
        ("Which town stays mild?", towns[1], [towns[0], towns[2]]),
        ("Which town gets rain?", towns[2], [towns[0], towns[1]]),
        ("Where will it be coldest?", towns[0], [towns[1], towns[2]]),
        ("How many millimetres of rain may fall?", str(rain), [str(high)]),
        ("Near which town will a road be closed?", towns[2], [towns[0], towns[1]]),
    ]


def _shelf(chance: random.Random) -> Made:
    top, middle, bottom = chance.sample(COLOURS, 3)
    first, second = chance.sample(PEOPLE, 2)
    count = chance.randint(12, 48)
    passage = (
        f"{first} sorts the books by colour. The {top} ones stand on the top shelf, {count} in number; the {bottom} "
        f"ones, "
        f"which are the heaviest, stand at the bottom. What is left in between is {middle}. {second} cannot find "
        f"anything "
        f"that way and would rather sort by author."
    )
    return passage, [
        ("What colour are the books on the middle shelf?", middle, [top, bottom]),
        ("What colour are the heaviest books?", bottom, [top, middle]),
        ("What colour are the books on the top shelf?", top, [middle, bottom]),
        ("Who would rather sort by author?", second, [first]),
        ("Who sorts the books by colour?", first, [second]),
    ]


PASSAGES: tuple[Callable[[random.Random], Made], ...] = (
    _museum, _race, _letter, _prices, _garden, _expedition, _school, _market, _ferry, _theft, _weather, _shelf,
)  # fmt: skip


def items(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Each passage with several sets of facts, and one question about each of those."""
    for make in PASSAGES:
        for number in range(PER_PASSAGE):
            passage, questions = make(chance)
            question, answer, others = questions[number % len(questions)]
            yield {
                "question": f"Read the text and answer the question.\n\n{passage}\n\nQuestion: {question}\n{ASK}",
                "answers": answer.split("|"),
                "others": others,
            }
