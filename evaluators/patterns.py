"""Patterns of golden sets: how ``say``, ``never_say`` and policy rules are matched against text.

A pattern is a phrase, or a regular expression after the prefix ``re:`` or ``claim:``. All are searched without
regard to case in :func:`normalise`-d text, so neither typography (curly quotes, full-width digits,
non-breaking spaces) nor line breaks decide a match. A phrase must stand on word boundaries; in
scripts that are written without spaces (Chinese, Japanese) there are none, and none are asked for.
"You can" is not in "you can't", which says the opposite; "order" is in "your order's items".

After ``claim:`` stands what is asserted: words that follow a negation or a supposition in the same clause
are no match ("nothing has been cancelled", "I can't say whether it is safe"). A clause ends at a
punctuation mark or "but".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from evaluators.runaway import runaway_reason

REGEX_PREFIX = "re:"
CLAIM_PREFIX = "claim:"

_NOT_ASSERTED = (
    r"\b(?:no|not|nothing|none|nobody|neither|never|nor|cannot|without|instead|rather|whether|if|until|unless|once"
    r"|before|when|how|what|which|ignor\w+"
    r"|nichts?|keine?[mnrs]?|wenn|falls|sobald|bevor|pas|lorsque|quand|avant|sin|cuando|antes|non(?!-)|quando|prima)\b"
    r"|n't\b"
)
"""Earlier in a clause, keeps what follows from being asserted: English, and forms of de, fr, es and it."""

# Translated before NFKC, which would turn a lone acute accent into "space + combining accent".
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u02bc\uff07", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"),
    }
)
_SPACES = re.compile(r"\s+")


def normalise(text: str) -> str:
    """Straight quotes and hyphens, NFKC, no zero-width characters, single spaces, no outer space."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))).strip()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; ``source`` is the text it was written as."""

    source: str
    regex: re.Pattern[str]

    def search(self, text: str) -> str | None:
        """The first piece of ``text`` that matches, normalised; None without a match."""
        found = self.regex.search(normalise(text))
        return found.group(0) if found else None

    def matches(self, text: str) -> Iterator[str]:
        """All non-empty pieces of ``text`` that match, normalised."""
        return (found.group(0) for found in self.regex.finditer(normalise(text)) if found.group(0))


@lru_cache(maxsize=4096)
def compile_pattern(source: str) -> Pattern:
    """Compile one pattern.

    :raises ValueError: an empty pattern or an unreadable regular expression, with the reason.
    """
    expression = _expression(source)
    if expression is not None:
        if not expression.strip():
            raise ValueError(f"pattern {source!r} is empty")
        try:
            return Pattern(source, re.compile(unicodedata.normalize("NFC", expression), re.IGNORECASE))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"pattern {source!r} is not a regular expression: {error}") from error
    phrase = normalise(source)
    if not phrase:
        raise ValueError(f"pattern {source!r} is empty")
    before = r"(?<!\w)" if _has_word_boundary(phrase[0]) else ""
    after = r"(?!\w|'t\b)" if _has_word_boundary(phrase[-1]) else ""
    return Pattern(source, re.compile(before + re.escape(phrase) + after, re.IGNORECASE))


def _expression(source: str) -> str | None:
    """The regular expression of a pattern that is written as one; None for a phrase."""
    if source.startswith(REGEX_PREFIX):
        return source.removeprefix(REGEX_PREFIX).translate(_TYPOGRAPHY)
    if not source.startswith(CLAIM_PREFIX):
        return None
    words = source.removeprefix(CLAIM_PREFIX).translate(_TYPOGRAPHY)
    if not words.strip():
        return ""
    return rf"(?:^|[.!?;:,] |\bbut )(?:(?!{_NOT_ASSERTED}|[.!?;:,] ).)*?(?:{words})"


def _has_word_boundary(character: str) -> bool:
    wide = unicodedata.east_asian_width(character) in "WF"
    return not wide and re.match(r"\w", character) is not None


def first_match(patterns: Iterable[str], text: str) -> tuple[str, str] | None:
    """The first of ``patterns`` found in ``text``, as (pattern, matching piece); None without one."""
    for source in patterns:
        piece = compile_pattern(source).search(text)
        if piece is not None:
            return source, piece
    return None


def runaway(source: str) -> str | None:
    """Why matching this pattern can take exponential time, or None. Phrases never can.

    :raises ValueError: an unreadable pattern.
    """
    compile_pattern(source)
    expression = _expression(source)
    return runaway_reason(expression) if expression is not None else None


def pattern_complaints(source: object) -> list[str]:
    """What is wrong with a pattern as written in a golden set; empty when it is usable."""
    if not isinstance(source, str):
        return [f"a pattern is a text, not {type(source).__name__}"]
    try:
        reason = runaway(source)
        pattern = compile_pattern(source)
    except ValueError as error:
        return [str(error)]
    if reason:
        return [f"pattern {source!r} can take exponential time: {reason}"]
    if pattern.search("") is not None:
        return [f"pattern {source!r} matches the empty text, so it checks nothing"]
    return []
