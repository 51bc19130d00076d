"""Tool arguments: reading their JSON text strictly, and comparing values.

Reading is stricter than ``json.loads``: a repeated key, NaN, an infinity (also one that overflows, as
1e999) or a lone surrogate is a damaged call, because two readers could take it differently.

Comparing: numbers by value (1 equals 1.0; true does not equal 1; "1" does not equal 1), strings
exactly after Unicode NFC and removal of outer white space, lists in order, objects key by key.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from typing import Any


class MalformedArguments(ValueError):
    """The argument text is not one unambiguous JSON object; the message says why."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise MalformedArguments(f"the key {repeated!r} is given twice")
    return result


def _constant(name: str) -> Any:
    raise MalformedArguments(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise MalformedArguments(f"the number {text} is out of range")
    return value


def parse_arguments(text: str, *, may_be_empty: bool) -> dict[str, Any]:
    """Read the JSON text of a call's arguments.

    :param may_be_empty: read an empty text as ``{}``. Servers send it for a call without arguments,
        so it is right for a tool that requires none, and a damaged call for any other.
    :raises MalformedArguments: anything but one unambiguous JSON object.
    """
    if not text.strip():
        if may_be_empty:
            return {}
        raise MalformedArguments("the text is empty")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except MalformedArguments:
        raise
    except json.JSONDecodeError as error:
        place = "the text ends too early" if error.pos >= len(text.rstrip()) else f"at character {error.pos + 1}"
        raise MalformedArguments(f"not JSON: {error.msg} ({place})") from error
    except UnicodeEncodeError as error:
        raise MalformedArguments("a string holds half a surrogate pair") from error
    except RecursionError as error:
        raise MalformedArguments("nested too deeply") from error
    except ValueError as error:  # an integer beyond Python's digit limit
        raise MalformedArguments(str(error)) from error
    if not isinstance(value, dict):
        raise MalformedArguments(f"a JSON object is needed, this is {_KINDS[type(value)]}")
    return value


_KINDS: dict[type, str] = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}


def canonical_text(text: str) -> str:
    """A string as it is compared: NFC, without outer white space."""
    return unicodedata.normalize("NFC", text).strip()


def same(expected: Any, actual: Any, *, unordered: bool = False) -> bool:
    """Whether two JSON values are equal (see the module's rules).

    :param unordered: compare a list (at the top only) as a bag.
    """
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    match expected, actual:
        case ((int() | float()), (int() | float())):
            return bool(expected == actual)
        case str(), str():
            return canonical_text(expected) == canonical_text(actual)
        case ((list() | tuple()), (list() | tuple())):
            return _same_bag(expected, actual) if unordered else _same_list(expected, actual)
        case dict(), dict():
            return expected.keys() == actual.keys() and all(same(value, actual[key]) for key, value in expected.items())
    return expected is None and actual is None


def _same_list(expected: Sequence[Any], actual: Sequence[Any]) -> bool:
    return len(expected) == len(actual) and all(map(same, expected, actual))


def _same_bag(expected: Sequence[Any], actual: Sequence[Any]) -> bool:
    rest = list(actual)  # equality is transitive, so taking the first equal one is enough
    for item in expected:
        found = next((index for index, other in enumerate(rest) if same(item, other)), None)
        if found is None:
            return False
        del rest[found]
    return not rest
