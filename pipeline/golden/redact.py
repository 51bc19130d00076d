"""Replacing personal data in a transcript, so that what belongs together still does.

Replaced are e-mail addresses, payment card numbers (13 to 19 digits with a right Luhn check digit),
phone numbers (found by the phonenumbers library), and order-like ids (digits, or letters and digits,
that look like a reference). The same value gets the same replacement throughout one transcript:
messages, call arguments, expectations. Replacements keep the shape (length, letter case,
punctuation), so patterns and schemas still fit, and are drawn from the transcript's id and the order
of appearance, never from the value: they cannot be computed back.

Not found: names, street addresses, dates of birth, anything written in words. That needs a language
model (Presidio, scrubadub with spaCy: hundreds of megabytes), and still a person who reads the result.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import phonenumbers

EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
CARD = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){12,18}(?![\w-])")
_TOKEN = re.compile(r"(?<![\w.,@])#?[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*(?![\w@]|[.,]\d)")
_DATE_OR_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:T\d{2,6}Z?)?|\d{1,2}-\d{1,2}-\d{4}|(?:19|20)\d{2}(?:(?:0\d|1[0-2])[0-3]\d)?"
)
_NO_PHONE = re.compile(r".*(?:[.,;]\s|\n).*|[\d ,.]*[.,]\d{1,2}", re.DOTALL)
"""Digits across a sentence's end, or an amount of money."""
_PREFIXED = re.compile(r"#?[A-Za-z]+[-_]?\d+")

FEWEST_DIGITS = 6
"""Digits from which a bare number counts as an id; shorter ones are amounts, counts, postcodes."""

_UNTOUCHED = ("id", "scenario", "slices", "language", "source", "licence", "policy", "tools")


def redact(data: Mapping[str, Any], region: str = "US") -> dict[str, Any]:
    """A copy of a transcript with personal data replaced.

    :param region: where phone numbers without a country code belong (ISO 3166, two letters).
    """
    fixed = json.dumps(data.get("tools", ""), ensure_ascii=False)
    replacements = _Replacements(str(data.get("id", "")))
    for text in _texts({key: value for key, value in data.items() if key not in _UNTOUCHED}):
        for kind, value in _find(text, region):
            if value not in fixed:  # what a tool's own schema names (an enum value) is not personal
                replacements.add(kind, value)
    return {k: v if k in _UNTOUCHED else replacements.apply(v) for k, v in data.items()}


def _texts(value: Any) -> Iterator[str]:
    """Every text of a transcript but the system message's, whose examples are nobody's data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        yield str(value)
    elif isinstance(value, Mapping):
        if value.get("role") != "system":
            for key, part in value.items():
                if key not in ("role", "tool_call_id", "name", "id", "type", "behaviour"):
                    yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)


def _find(text: str, region: str) -> Iterator[tuple[str, str]]:
    """(kind, value) of everything personal in a text; what is found first is not looked at again."""
    rest = text
    for kind, values in (
        ("email", EMAIL.findall),
        ("card", lambda t: [m for m in CARD.findall(t) if luhn_valid(m)]),
        ("phone", lambda t: _phones(t, region)),
        ("id", lambda t: [m for m in _TOKEN.findall(t) if _looks_like_id(m)]),
    ):
        for value in values(rest):
            yield kind, value
            rest = rest.replace(value, " ")


def _phones(text: str, region: str) -> list[str]:
    leniency = phonenumbers.Leniency.POSSIBLE
    found = phonenumbers.PhoneNumberMatcher(text, region, leniency=leniency)
    # Bare digits are left to the ids: without separators nothing tells a phone number.
    return [
        match.raw_string
        for match in found
        if (match.raw_string.startswith("+") or not match.raw_string.isdigit())
        and not _NO_PHONE.fullmatch(match.raw_string)
        and not (match.start and re.match(r"\w", text[match.start - 1]))
    ]


def luhn_valid(number: str) -> bool:
    """Whether the digits in ``number`` pass the check of ISO/IEC 7812-1."""
    digits = [int(character) for character in number if character.isdigit()]
    return sum(_luhn_terms(digits)) % 10 == 0


def _luhn_terms(digits: list[int]) -> Iterator[int]:
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        yield doubled - 9 if doubled > 9 else doubled


def _looks_like_id(token: str) -> bool:
    digits = sum(character.isdigit() for character in token)
    if _DATE_OR_TIME.fullmatch(token):
        return False
    if digits == len(token.lstrip("#")):
        return digits >= FEWEST_DIGITS or (token.startswith("#") and digits >= 4)
    if _PREFIXED.fullmatch(token):
        return digits >= 4
    coded = token.upper() == token and len(token) >= 6 and digits >= 2
    return coded or digits >= 4


class _Replacements:
    """The replacements of one transcript."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._by_value: dict[str, str] = {}
        self._emails: dict[str, str] = {}

    def add(self, kind: str, value: str) -> None:
        """Choose a replacement for a value that has none yet."""
        if value in self._by_value:
            return
        if kind == "email":
            count = len(self._emails) + 1
            self._by_value[value] = self._emails.setdefault(value.lower(), f"person{count}@example.com")
            return
        key = _key(value)
        for other, replacement in self._by_value.items():
            if _key(other) == key:  # the same number written in another way
                self._by_value[value] = _reshape(value, "".join(c for c in replacement if c.isalnum()))
                return
        taken = {_key(known) for pair in self._by_value.items() for known in pair}
        while True:
            candidate = self._draw(kind, value)
            if _key(candidate) not in taken and candidate != value:
                self._by_value[value] = candidate
                return

    def _draw(self, kind: str, value: str) -> str:
        pick: Callable[[str], str] = self._random.choice
        if kind == "card":
            body = "400000" + "".join(pick("0123456789") for _ in range(len(_key(value)) - 7))
            check = next(d for d in "0123456789" if luhn_valid(body + d))
            return _reshape(value, body + check)
        if kind == "phone":
            count = len(_key(value))
            tail = "55501" + pick("0123456789") + pick("0123456789")  # 555-01xx is kept for fiction
            head = "".join(pick("23456789") for _ in range(count - 7))
            plus = re.match(r"\+(1|\d{2})(?!\d)", value)
            if plus:
                head = plus.group(1) + head[len(plus.group(1)) :]
            return _reshape(value, (head + tail)[-count:])
        keeps_letters = _PREFIXED.fullmatch(value) is not None or value.upper() != value
        return "".join(
            pick("123456789")
            if c.isdigit()
            else c
            if keeps_letters or not c.isalpha()
            else pick("ABCDEFGHJKLMNPQRSTUVWXYZ")
            for c in value
        )

    def apply(self, value: Any) -> Any:
        """The value with everything in it replaced."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(self._by_value.get(str(value), value))
        if isinstance(value, Mapping):
            fixed = ("role", "tool_call_id", "name", "id", "type", "behaviour")
            return {k: v if k in fixed and isinstance(v, str) else self.apply(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.apply(part) for part in value]
        return value

    def _text(self, text: str) -> str:
        if not self._by_value:
            return text
        listed = sorted(self._by_value, key=len, reverse=True)
        pattern = "|".join(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])" for value in listed)
        return re.sub(pattern, lambda found: self._by_value[found.group(0)], text)


def _key(value: str) -> str:
    return "".join(c for c in value if c.isalnum()).lower()


def _reshape(shape: str, characters: str) -> str:
    """``characters`` put into the places of letters and digits of ``shape``."""
    source = iter(characters)
    drawn = (next(source, c) if c.isalnum() else c for c in shape)
    return "".join(new.lower() if old.islower() else new for old, new in zip(shape, drawn, strict=True))
