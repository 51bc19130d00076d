"""What a conversation has already said: the yardstick of the ``grounded_*`` policy rules.

Amounts are compared as numbers, whatever their format. A text such as "1,299" can be read in two
ways (1299 or 1.299); every reading counts, on both sides, so an ambiguous format is never held
against the reply. A match that holds several numbers (a date, a range) is compared as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from evaluators.patterns import Pattern, normalise
from evaluators.results import text_of
from evaluators.turn import Turn

# A point or comma belongs to the number only between digits; a space (also a narrow one, which
# normalisation makes plain) or an apostrophe only between groups of three.
_NUMBER = re.compile(r"\d{1,3}(?:[ ']\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*")


def conversation(turn: Turn) -> Iterator[str]:
    """Every text that the assistant could have copied from: messages, earlier calls, tool results, policy."""
    for message in turn.messages:
        yield text_of(message)
        for call in message.get("tool_calls") or ():
            yield _text(call["function"].get("arguments"))
    if turn.policy is not None:
        yield turn.policy.text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def readings(number: str) -> frozenset[Decimal]:
    """The values that a written number can have: "1,299.50" one, "1,299" two."""
    digits = number.replace(" ", "").replace("'", "")
    marks = [character for character in digits if character in ".,"]
    plain = digits.replace(".", "").replace(",", "")
    if not marks:
        return frozenset((Decimal(plain),))
    head, tail = re.split(r"[.,](?=[^.,]*$)", digits)
    grouped = all(len(group) == 3 for group in re.split("[.,]", digits)[1:])
    values = set()
    if len(set(marks)) == 1 and grouped:
        values.add(Decimal(plain))
    if marks.count(marks[-1]) == 1:
        values.add(Decimal(f"{head.replace('.', '').replace(',', '')}.{tail}"))
    return frozenset(values or {Decimal(plain)})


def numbers(text: str) -> frozenset[Decimal]:
    """All values of all numbers written in ``text``."""
    return frozenset(value for found in _NUMBER.finditer(normalise(text)) for value in readings(found.group(0)))


def _whole(text: str) -> str:
    """``text`` with each number in one canonical form, for comparing dates and ranges as a whole."""
    return _NUMBER.sub(lambda found: f"{min(readings(found.group(0))).normalize():f}", normalise(text)).casefold()


def ungrounded_amounts(pattern: Pattern, reply: str, turn: Turn) -> list[str]:
    """Matches of ``pattern`` in ``reply`` whose numbers the conversation does not hold."""
    said = list(conversation(turn))
    known = frozenset().union(*map(numbers, said))
    wholes = [_whole(text) for text in said]
    faults = []
    for piece in dict.fromkeys(pattern.matches(reply)):
        written = _NUMBER.findall(piece)
        if len(written) == 1:
            grounded = not known.isdisjoint(readings(written[0]))
        else:
            edges = re.compile(rf"(?<!\w){re.escape(_whole(piece))}(?!\w)")
            grounded = any(edges.search(text) for text in wholes)
        if not grounded:
            faults.append(piece)
    return faults


def ungrounded_ids(pattern: Pattern, texts: Iterable[str], turn: Turn) -> list[str]:
    """Matches of ``pattern`` in ``texts`` that ``pattern`` does not find in the conversation (case ignored)."""
    known = {piece.casefold() for text in conversation(turn) for piece in pattern.matches(text)}
    pieces = dict.fromkeys(piece for text in texts for piece in pattern.matches(text))
    return [piece for piece in pieces if piece.casefold() not in known]
