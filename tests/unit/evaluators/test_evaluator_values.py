from __future__ import annotations

import itertools
import json

import pytest

from evaluators.values import MalformedArguments, parse_arguments, same


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "ends too early"),
        ('{"a": "x', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": 1} trailing', "not JSON"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": {"b": 1, "b": 1}}', "given twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "deeply"),
        ('["a"]', "a list"),
        ('"a"', "a string"),
        ("null", "null"),
        ("true", "a truth value"),
        ("3", "a number"),
        ("", "empty"),
        (" \n", "empty"),
    ],
)
def test_malformed_arguments(text: str, reason: str) -> None:
    with pytest.raises(MalformedArguments, match=reason):
        parse_arguments(text, may_be_empty=False)


def test_sound_arguments() -> None:
    assert parse_arguments(' {"a": [1, 2.5, null, "\\ud83d\\ude00"]} ', may_be_empty=False) == {
        "a": [1, 2.5, None, "😀"]
    }
    assert parse_arguments("", may_be_empty=True) == {}


EQUAL = [
    (1, 1.0),
    (100, 1e2),
    (0, -0.0),
    ("caf\u00e9", "cafe\u0301"),
    (" x ", "x"),
    ([1, "a"], [1.0, "a"]),
    ((1, 2), [1, 2]),
    ({"a": 1, "b": {"c": [True]}}, {"b": {"c": [True]}, "a": 1.0}),
    (None, None),
]
DIFFERENT = [
    (True, 1),
    (0, False),
    ("1", 1),
    ("a", "A"),
    ("a b", "a  b"),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"b": 1}}, {"a": {"b": True}}),
    (None, False),
    (None, ""),
    ([], {}),
    (2**53, 2**53 + 1),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_values(one: object, other: object) -> None:
    assert same(one, other) and same(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values(one: object, other: object) -> None:
    assert not same(one, other) and not same(other, one)


def test_unordered_lists_are_bags() -> None:
    items = [1, {"a": 2}, "x", "x"]
    for order in itertools.permutations(items):
        assert same(items, list(order), unordered=True)
    assert not same(["x", "x", "y"], ["x", "y", "y"], unordered=True)
    assert not same([1], [1, 1], unordered=True)
    assert not same([[1, 2]], [[2, 1]], unordered=True)  # only the list itself is a bag


def test_reading_agrees_with_json_on_sound_text() -> None:
    values = [{}, {"a": []}, {"é": {"b": [1, -2.5e-3, "\n", None, True]}}]
    for value in values:
        assert parse_arguments(json.dumps(value), may_be_empty=False) == value
