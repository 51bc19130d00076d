"""Digests, against values from `sha256sum`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pipeline.digests import canonical_json, digest_of, file_digest, tree_digest

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # printf abc | sha256sum


def test_one_text_for_equal_values() -> None:
    text = '{"a":[1,2.5,null],"é":"ü"}'
    assert canonical_json({"é": "ü", "a": [1, 2.5, None]}) == text
    assert canonical_json({"a": (1, 2.5, None), "é": "ü"}) == text
    # printf '{"a":[1,2.5,null],"é":"ü"}' | sha256sum
    assert digest_of({"é": "ü", "a": [1, 2.5, None]}) == (
        "9cb1520bde202063c38eaf886c2c9708ffbc0c7387bda6c66775a2ac20733dc7"
    )


@pytest.mark.parametrize(
    ("one", "other"), [([1, 2], [2, 1]), ({"a": 1}, {"a": "1"}), ([], {}), (None, 0), (True, 1), (["a", "b"], ["ab"])]
)
def test_other_values_have_other_digests(one: object, other: object) -> None:
    assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"deep": [-math.inf]}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of(value)


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError):
        digest_of({"path": Path("x")})


def test_files_and_trees(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    one, other = tmp_path / "a.txt", tmp_path / "sub" / "b.txt"
    one.write_bytes(b"abc")
    other.write_bytes(b"")
    assert file_digest(one) == ABC
    # printf '[["a.txt","%s"],["sub/b.txt","%s"]]' $(printf abc | sha256sum) $(printf '' | sha256sum) | sha256sum
    expected = "bfa25a253185d9a80b9101a2d1fafe5b933648d5bbf3dab9e3af52e1be615a26"
    assert tree_digest(tmp_path, [other, one]) == tree_digest(tmp_path, [one, other]) == expected
    other.rename(tmp_path / "sub" / "c.txt")
    assert tree_digest(tmp_path, [one, tmp_path / "sub" / "c.txt"]) != expected


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    big, cut = tmp_path / "big", tmp_path / "cut"
    big.write_bytes(bytes(3_000_000) + b"x")
    cut.write_bytes(bytes(3_000_000))
    assert file_digest(big) != file_digest(cut)


def test_a_missing_file_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_digest(tmp_path / "absent")
