"""How replies to the generated items are scored: pass or fail, by rule. An empty reply passes nothing.

lm-eval calls these functions with an item and the list of its replies, which holds one. What has a form of its own
in every item (checks, the object to extract) stands in the files as JSON text, because the rows of a data set share
one form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ITEM_MARK = re.compile(r"^\s*(\d+)[.)]\s")
WRAPPING = " \t\r\n"


def followed(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """Whether the reply follows every instruction of the item."""
    text = replies[0].strip(WRAPPING)
    checks = json.loads(doc["checks"])
    return {"followed": float(bool(text) and all(_CHECKS[check["type"]](text, check) for check in checks))}


def named(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """Whether the reply names an acceptable answer and none of the wrong ones that the text offers."""
    text = replies[0]
    found = any(_mentions(text, answer) for answer in doc["answers"])
    return {"named": float(found and not any(_mentions(text, other) for other in doc["others"]))}


def extracted(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, float]:
    """Whether the reply is the item's JSON object, alone or in one code block; order of keys and spaces aside."""
    text = replies[0].strip(WRAPPING)
    block = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n?```", text, re.DOTALL)
    try:
        value = json.loads(block[1] if block else text)
    except (ValueError, RecursionError):
        return {"extracted": 0.0}
    return {"extracted": float(_same(value, json.loads(doc["answer"])))}


def _mentions(text: str, phrase: str) -> bool:
    """Whether the phrase, or its plural, stands in the text as words of their own."""
    return re.search(rf"(?<!\w){re.escape(phrase)}s?(?!\w)", text, re.IGNORECASE) is not None


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values, in which true is not 1 and 1 is not 1.0 written as text."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


# --- instructions ------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:['’-]\w+)*", text)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _numbered(text: str, check: Mapping[str, Any]) -> bool:
    marks = [ITEM_MARK.match(line) for line in _lines(text)]
    return [int(mark[1]) for mark in marks if mark] == list(range(1, check["count"] + 1)) and all(marks)


def _bullets(text: str, check: Mapping[str, Any]) -> bool:
    lines = _lines(text)
    return len(lines) == check["count"] and all(line.startswith("- ") for line in lines)


def _without_words(text: str, check: Mapping[str, Any]) -> bool:
    return not {word.lower() for word in check["words"]} & {word.lower() for word in _words(text)}


_CHECKS: dict[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "words": lambda text, check: check["at_least"] <= len(_words(text)) <= check["at_most"],
    "sentences": lambda text, check: text.count(".") == check["count"] and text.endswith("."),
    "lower_case": lambda text, _: text == text.lower() and text != text.upper(),
    "upper_case": lambda text, _: text == text.upper() and text != text.lower(),
    "without": lambda text, check: not any(part in text for part in check["texts"]),
    "with": lambda text, check: all(_mentions(text, part) for part in check["texts"]),
    "without_words": _without_words,
    "starts": lambda text, check: text.startswith(check["text"]),
    "ends": lambda text, check: text.endswith(check["text"]),
    "bullets": _bullets,
    "numbered": _numbered,
    "quoted": lambda text, _: len(text) > 2 and text[0] in '"“' and text[-1] in '"”',
    "title": lambda text, _: re.search(r"<<[^<>\n]+>>", text) is not None,
    "paragraphs": lambda text, check: len(re.split(r"\n\s*\n", text)) == check["count"],
    "exactly": lambda text, check: text == check["text"],
}
