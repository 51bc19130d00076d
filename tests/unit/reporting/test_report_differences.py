"""Word differences: what is marked, and when nothing is."""

from __future__ import annotations

from pipeline.reporting.differences import WORDS_COMPARED, Piece, word_difference


def _changed(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.text.strip() for piece in pieces if piece.changed]


def _text(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


def test_marks_the_words_that_differ() -> None:
    found = word_difference("refund of 59.90 EUR to your card", "refund of 599.00 EUR to your card today")
    assert _changed(found.before) == ["59.90"]
    assert _changed(found.after) == ["599.00", "today"]


def test_loses_no_character() -> None:
    before, after = "  one\n\ntwo  three \n", "one two\tfour three"
    found = word_difference(before, after)
    assert _text(found.before) == before
    assert _text(found.after) == after


def test_white_space_alone_is_no_difference() -> None:
    found = word_difference("a b\nc", "a  b c ")
    assert not _changed(found.before)
    assert not _changed(found.after)


def test_unlike_texts_are_shown_without_marks() -> None:
    found = word_difference("I cannot share that with you.", "Sure! Here are Jan's orders:")
    assert not found.marked
    assert not _changed(found.after)


def test_an_empty_side_is_shown_without_marks() -> None:
    found = word_difference("", "an answer")
    assert found.before == ()
    assert not _changed(found.after)


def test_only_the_beginning_of_long_texts_is_compared() -> None:
    words = [f"w{i}" for i in range(2 * WORDS_COMPARED)]
    found = word_difference(" ".join(words), " ".join([*words[:-1], "other"]))
    assert not _changed(found.after)
    assert _text(found.after).endswith("other")


def test_looping_text_is_compared_at_its_beginning_only() -> None:
    loop = "no no yes " * 200
    found = word_difference("first " + loop + "end", "other " + loop + "start")
    assert _changed(found.before) == ["first"]
    assert _changed(found.after) == ["other"]
    assert _text(found.after).endswith("start")
