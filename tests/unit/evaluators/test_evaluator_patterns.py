from __future__ import annotations

import re

import pytest

from evaluators.patterns import compile_pattern, first_match, normalise, pattern_complaints, runaway


def found(pattern: str, text: str) -> str | None:
    return compile_pattern(pattern).search(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("it\u2019s", "it's"),
        ("it\u00b4s", "it's"),
        ("\u201cyes\u201d \u2013 no", '"yes" - no'),
        ("30\u00a0days\n\n later ", "30 days later"),
        ("\uff13\uff10", "30"),  # full-width digits
        ("e\u0301te\u0301", "\u00e9t\u00e9"),
        ("re\u200bfund", "refund"),
    ],
)
def test_typography_is_normalised(text: str, plain: str) -> None:
    assert normalise(text) == plain


@pytest.mark.parametrize(
    ("pattern", "text", "hit"),
    [
        ("can't", "I CAN\u2019T do that", True),
        ("30 days", "within 30\n  days.", True),
        ("30 days", "within 130 days", False),
        ("refund", "a refund.", True),
        ("refund", "non-refundable", False),
        ("refund", "refunds", False),
        ("$5.00", "costs $5.00!", True),
        ("$5.00", "costs $5.001", False),
        ("you can", "you can't return it", False),
        ("you can", "you can\u2019t return it", False),
        ("you can", "You CAN'T", False),
        ("you can't", "no, you can\u2019t", True),
        ("you can", "you can 'try' it", True),
        ("you can", "you can'", True),
        ("order", "your order's items", True),
        ("order", "the orders' total", False),
        ("a.c", "abc", False),  # a phrase is no regular expression
        ("退款", "我要退款了", True),  # no word boundaries in a script without spaces
        ("re:refund(s|ed)?\\b", "It was Refunded.", True),
        ("re:^no\\b", "no refund", True),
        ("re:can't", "I can\u2019t", True),
        ("re:can\u2019t", "I can't", True),
        ("re:30 days$", "in 30\u00a0days\n", True),
        ("re:^no\\b", "yes, no", False),
    ],
)
def test_matching(pattern: str, text: str, hit: bool) -> None:
    assert (found(pattern, text) is not None) is hit


def test_first_match_names_the_pattern_and_the_piece() -> None:
    assert first_match(["never", "re:\\d+ days"], "about 30  days") == ("re:\\d+ days", "30 days")
    assert first_match(["never"], "ever") is None


@pytest.mark.parametrize("pattern", ["", "   ", "re:", "re: ", "re:(", "re:[a", "re:*a", "re:a{99999999999}"])
def test_unreadable_patterns_say_why(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is empty|not a regular expression"):
        compile_pattern(pattern)
    assert len(pattern_complaints(pattern)) == 1


# Known exponential expressions: OWASP's list of evil regexes, and Weideman et al. 2016.
RUNAWAYS = [
    r"(a+)+",
    r"([a-zA-Z]+)*",
    r"(a|aa)+",
    r"(a|a?)+",
    r"(.*a){20}",
    r"(a*)*",
    r"((ab)*)*",
    r"(\w+\s?)*x",
    r"(\d{1,3})+;",
    r"(?:\s*\w+\s*)*",
    r"(x+x+)+y",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"sorry (a(b|c)*d|ab*d)+!",
    r"(?:[^,]+|\w+)*,",
    r"(?=(a+)+$)a",
]
SAFE = [
    r"(\d+,)*\d+",
    r"(\w+\s)*end",
    r"(?:\d{1,3},)*\d{3}",
    r"\$\s?\d{1,3}(?:,\d{3})*(?:\.\d\d)?",
    r"(can't|cannot)+",
    r"(cat|car|cow)*",
    r"a+b+c+",
    r"(?:a{2,4}b)*",
    r"(a++)+",
    r"((?>a+))+",
    r"\b(i|we) (can |will |do |hereby )?(promise|guarantee)\b",
    r"^(?![\s\S]*\b(don't|wait)\b)[\s\S]*\b(yes|ok)\b",
    r"(?<![\d.,])\d{1,4}[.,]\d{2}(?![\d.,]*\d)",
]


@pytest.mark.parametrize("expression", RUNAWAYS)
def test_runaway_expressions_are_flagged(expression: str) -> None:
    assert runaway(f"re:{expression}") is not None
    assert "exponential" in pattern_complaints(f"re:{expression}")[0]


@pytest.mark.parametrize("expression", SAFE)
def test_harmless_expressions_are_not_flagged(expression: str) -> None:
    re.compile(expression)
    assert runaway(f"re:{expression}") is None


def test_an_atomic_group_is_the_way_out() -> None:
    assert runaway(r"re:(?:\w+\s?)*x") is not None
    assert runaway(r"re:(?:(?>\w+)\s?)*x") is None


def test_a_huge_loop_is_reported_as_too_large() -> None:
    assert "too large" in str(runaway("re:(" + "a" * 400 + ")*"))


def test_a_phrase_never_runs_away() -> None:
    assert runaway("(a+)+") is None


@pytest.mark.parametrize(("pattern", "part"), [("re:a*", "empty text"), (7, "not int"), ("re:(", "not a regular")])
def test_complaints(pattern: object, part: str) -> None:
    assert part in pattern_complaints(pattern)[0]


def test_a_good_pattern_has_no_complaints() -> None:
    assert pattern_complaints("30 days") == pattern_complaints("re:\\bOM-\\d{6}\\b") == []


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("It has been cancelled.", True),
        ("I did not wait, and it HAS BEEN cancelled.", True),
        ("Nothing else, but it has been cancelled.", True),
        ("Nothing has been cancelled.", False),
        ("I can\u2019t say whether it has been cancelled.", False),
        ("Ich kann nicht sagen: es has been cancelled.", True),  # a clause of its own
        ("Nicht alles has been cancelled.", False),
        ("Non-refundable items: the order has been cancelled.", True),
    ],
)
def test_a_claim_is_what_is_asserted(text: str, hit: bool) -> None:
    assert (found("claim:has been (cancelled|refunded)", text) is not None) is hit


@pytest.mark.parametrize("pattern", ["claim:", "claim: ", "claim:(", "claim:(a+)+$"])
def test_a_claim_must_be_readable(pattern: str) -> None:
    assert pattern_complaints(pattern)
