"""Word-level differences between two replies."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

WORDS_COMPARED = 400
"""Words per side that are compared at most."""

EQUAL_PAIRS = 4_000
"""Pairs of equal words that are looked at: difflib takes seconds on looping text, where it says least."""

LEAST_SIMILARITY = 0.25
"""Below this share of common words, marks would cover nearly everything and say nothing."""

_WORD = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text; ``changed`` when the other side does not have it."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """Both sides in pieces. ``marked`` is false where marks would not help a reader."""

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    marked: bool


def word_difference(before: str, after: str) -> Difference:
    """Compare two texts word by word (white space around words does not count)."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    old_words, new_words = [word.strip() for word in old], [word.strip() for word in new]
    limit = _words_to_compare(old_words, new_words)
    matcher = SequenceMatcher(None, old_words[:limit], new_words[:limit], autojunk=False)
    if not old or not new or matcher.ratio() < LEAST_SIMILARITY:
        return Difference(_plain(before), _plain(after), marked=before.strip() == after.strip())
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        _add(left, "".join(old[i1:i2]), kind != "equal")
        _add(right, "".join(new[j1:j2]), kind != "equal")
    _add(left, "".join(old[limit:]), False)
    _add(right, "".join(new[limit:]), False)
    return Difference(tuple(left), tuple(right), marked=True)


def _words_to_compare(old: list[str], new: list[str]) -> int:
    """How many words from the start keep to :data:`EQUAL_PAIRS`."""
    limit = WORDS_COMPARED
    while limit > 25:
        counts = Counter(new[:limit])
        if sum(counts[word] for word in old[:limit]) <= EQUAL_PAIRS:
            break
        limit //= 2
    return limit


def _plain(text: str) -> tuple[Piece, ...]:
    return (Piece(text),) if text else ()


def _add(pieces: list[Piece], text: str, changed: bool) -> None:
    if not text:
        return
    core = text.rstrip() if changed else text
    pieces.append(Piece(core, changed))
    if core != text:  # no mark under trailing white space
        pieces.append(Piece(text[len(core) :]))
