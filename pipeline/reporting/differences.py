"""Word-level differences between two replies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

WORDS_COMPARED = 400
"""Words per side that are compared: difflib takes cubic time on looping text, where it says least."""

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
    matcher = SequenceMatcher(
        None, [w.strip() for w in old[:WORDS_COMPARED]], [w.strip() for w in new[:WORDS_COMPARED]], autojunk=False
    )
    if not old or not new or matcher.ratio() < LEAST_SIMILARITY:
        return Difference(_plain(before), _plain(after), marked=before.strip() == after.strip())
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        _add(left, "".join(old[i1:i2]), kind != "equal")
        _add(right, "".join(new[j1:j2]), kind != "equal")
    _add(left, "".join(old[WORDS_COMPARED:]), False)
    _add(right, "".join(new[WORDS_COMPARED:]), False)
    return Difference(tuple(left), tuple(right), marked=True)


def _plain(text: str) -> tuple[Piece, ...]:
    return (Piece(text),) if text else ()


def _add(pieces: list[Piece], text: str, changed: bool) -> None:
    if not text:
        return
    core = text.rstrip() if changed else text
    pieces.append(Piece(core, changed))
    if core != text:  # no mark under trailing white space
        pieces.append(Piece(text[len(core) :]))
