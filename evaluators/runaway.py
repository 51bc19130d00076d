"""Finds regular expressions whose backtracking can run away (exponential time).

A backtracking matcher needs exponential time when, inside a repetition, the same text can be read
in two ways: ``(a+)+``, ``(\\w+\\s?)*``, ``(a|a)*``. This is "exponential degree of ambiguity" of
the expression's automaton (Weideman et al., "Analyzing Matching Time Behavior of Backtracking
Regular Expression Matchers by Using Ambiguity of NFA", CIAA 2016). For each unbounded repetition we
build its position (Glushkov) automaton, keeping *how many ways* lead from one position to the next:

* a step with two ways on a cycle is ambiguous by itself, as in ``(a+)+``;
* otherwise two different positions that read the same text and part and meet again are.

Limits: an atomic group (never re-read) counts as one character of those it can read, a back-reference
as any character, a look-around inside a loop as nothing; bounded repeats beyond :data:`LOOP_FROM` count
as unbounded; characters are compared on a sample (every character of the pattern, plus one of each
class). Polynomial blow-up (``a*a*``) is not reported: replies are a few thousand characters long.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# The parser of the standard library. It is private, but the only reader that agrees with `re` by
# construction; the public alias `sre_parse` is deprecated.
_parser: Any = importlib.import_module("re._parser")

LOOP_FROM = 16
"""A bounded repeat of at least this many rounds is treated as unbounded."""

MOST_POSITIONS = 300
"""Characters of a repeated group beyond which it is reported as too large to check."""

_SAMPLE = "a7_ \n!é"
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}


@functools.lru_cache(4096)  # the turns of one business share most of their patterns
def runaway_reason(expression: str) -> str | None:
    """Why ``expression`` can take exponential time, in words; None when no such part was found.

    :raises re.error: an unreadable expression.
    """
    tree = _parser.parse(expression)
    sample = frozenset(_SAMPLE) | {c for char in expression for c in (char.lower(), char.upper()) if len(c) == 1}
    for low, high, body in _loops(tree):
        automaton = _Automaton(sample)
        try:
            automaton.add_repeat(low, high, body)
        except _TooLarge:
            return f"a repeated group of more than {MOST_POSITIONS} characters, too large to check"
        if automaton.is_ambiguous():
            return "a repetition inside a repetition, or alternatives that overlap, can read the same text in many ways"
    return None


def _loops(tree: Any) -> Iterator[tuple[int, int, Any]]:
    """The outermost unbounded repeats of a parsed expression."""
    for operator, argument in tree:
        name = str(operator)
        if name in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] >= LOOP_FROM:
            yield argument
        else:
            for part in _parts(name, argument):
                yield from _loops(part)


_BODY_AT = {"MAX_REPEAT": 2, "MIN_REPEAT": 2, "POSSESSIVE_REPEAT": 2, "SUBPATTERN": 3, "ASSERT": 1, "ASSERT_NOT": 1}


def _parts(name: str, argument: Any) -> Iterable[Any]:
    """The sub-expressions of one operator."""
    if name in _BODY_AT:
        return (argument[_BODY_AT[name]],)
    if name == "BRANCH":
        return tuple(argument[1])
    if name == "GROUPREF_EXISTS":
        return tuple(part for part in argument[1:] if part is not None)
    return (argument,) if name == "ATOMIC_GROUP" else ()


class _TooLarge(Exception):
    """More positions than we are ready to check."""


@dataclass(slots=True)
class _Piece:
    """First and last positions of a piece, with the number of ways, and the ways to read nothing."""

    first: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)
    empty: int = 0


@dataclass(slots=True)
class _Automaton:
    """Positions with the sample characters each reads, and counted steps between them."""

    sample: frozenset[str]
    reads: list[frozenset[str]] = field(default_factory=list)
    steps: dict[int, Counter[int]] = field(default_factory=dict)

    def _position(self, characters: frozenset[str]) -> _Piece:
        if len(self.reads) >= MOST_POSITIONS:
            raise _TooLarge
        self.reads.append(characters)
        number = len(self.reads) - 1
        self.steps[number] = Counter()
        return _Piece(Counter({number: 1}), Counter({number: 1}), 0)

    def _join(self, last: Counter[int], first: Counter[int]) -> None:
        for source, ways in last.items():
            for target, more in first.items():
                # Two ways are enough to know that there is more than one.
                self.steps[source][target] = min(2, self.steps[source][target] + ways * more)

    def _concatenate(self, before: _Piece, after: _Piece) -> _Piece:
        self._join(before.last, after.first)
        return _Piece(
            before.first + _times(after.first, before.empty),
            after.last + _times(before.last, after.empty),
            min(2, before.empty * after.empty),
        )

    def _sequence(self, tree: Any) -> _Piece:
        whole = _Piece(empty=1)
        for operator, argument in tree:
            whole = self._concatenate(whole, self._piece(str(operator), argument))
        return whole

    def add_repeat(self, low: int, high: int, body: Any) -> _Piece:
        """The piece ``body{low,high}``."""
        if high >= LOOP_FROM:
            piece = self._sequence(body)
            self._join(piece.last, piece.first)
            return _Piece(piece.first, piece.last, max(piece.empty, int(low == 0)))
        whole = _Piece(empty=1)
        for _ in range(high - low):  # nested, x(x(x)?)?: leaving out one round leaves out the rest
            whole = self._concatenate(self._sequence(body), whole)
            whole.empty = 1
        for _ in range(low):
            whole = self._concatenate(self._sequence(body), whole)
        return whole

    def _piece(self, name: str, argument: Any) -> _Piece:
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self.add_repeat(*argument)
        if name == "SUBPATTERN":
            return self._sequence(argument[3])
        if name == "BRANCH":
            pieces = [self._sequence(part) for part in argument[1]]
            return _Piece(
                sum((p.first for p in pieces), Counter()),
                sum((p.last for p in pieces), Counter()),
                min(2, sum(p.empty for p in pieces)),
            )
        if name in ("AT", "ASSERT", "ASSERT_NOT"):
            return _Piece(empty=1)
        return self._position(self._readable(name, argument))

    def _readable(self, name: str, argument: Any) -> frozenset[str]:
        """The sample characters that one position can read."""
        if name in ("POSSESSIVE_REPEAT", "ATOMIC_GROUP"):
            inside = _Automaton(self.sample)
            inside._sequence(argument[2] if name == "POSSESSIVE_REPEAT" else argument)
            return frozenset().union(*inside.reads)
        return frozenset(c for c in self.sample if _reads(name, argument, c))

    def is_ambiguous(self) -> bool:
        """Whether some text can be read in two ways from a position back to itself."""
        reach = {position: self._reachable(position) for position in self.steps}
        for source, targets in self.steps.items():
            for target, ways in targets.items():
                if ways > 1 and self.reads[target] and source in reach[target]:
                    return True
        return any(position in reach[position] and self._meets_again(position, reach) for position in self.steps)

    def _reachable(self, start: int) -> set[int]:
        seen: set[int] = set()
        queue = deque([start])
        while queue:
            for target in self.steps[queue.popleft()]:
                if target not in seen and self.reads[target]:
                    seen.add(target)
                    queue.append(target)
        return seen

    def _meets_again(self, start: int, reach: dict[int, set[int]]) -> bool:
        """Whether two readings of one text part at ``start``, meet again and come back to it.

        Readings need only be followed while they are apart: a later parting is found from there.
        """
        seen: set[tuple[int, int]] = set()
        queue: deque[tuple[int, int]] = deque([(start, start)])
        while queue:
            left, right = queue.popleft()
            for one in self.steps[left]:
                for other in self.steps[right]:
                    if not self.reads[one] & self.reads[other]:
                        continue
                    if one == other:
                        if left != right and start in reach[one]:
                            return True
                    elif (one, other) not in seen:
                        seen.add((one, other))
                        queue.append((one, other))
        return False


def _times(counts: Counter[int], factor: int) -> Counter[int]:
    return Counter({key: count * factor for key, count in counts.items() if factor})


def _reads(name: str, argument: Any, character: str) -> bool:
    """Whether a single-character operator reads ``character`` (case ignored)."""
    forms = {character, character.lower(), character.upper()}
    if name == "LITERAL":
        return chr(argument) in forms
    if name == "NOT_LITERAL":
        return chr(argument) not in forms
    if name == "ANY":
        return character != "\n"
    if name == "IN":
        negated = bool(argument) and str(argument[0][0]) == "NEGATE"
        return negated != any(_in_set(str(item), value, forms) for item, value in argument[negated:])
    return True


def _in_set(item: str, value: Any, forms: set[str]) -> bool:
    if item == "LITERAL":
        return chr(value) in forms
    if item == "RANGE":
        return any(value[0] <= ord(c) <= value[1] for c in forms if len(c) == 1)
    name = str(value)
    test = _CATEGORIES[name.replace("_NOT_", "_")]
    return ("_NOT_" in name) != any(test(c) for c in forms)
