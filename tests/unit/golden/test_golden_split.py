"""Halves of a golden set: whole scenarios, nothing twice, nothing lost, alike in slices."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline.errors import GoldenSetError
from pipeline.golden import GoldenSet, load
from pipeline.golden.split import HALVES, write_halves
from pipeline.settings import PROJECT_ROOT

SUPPORT = PROJECT_ROOT / "golden_sets" / "support"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> GoldenSet:
    """A part of the shipped set, with its policies and tools."""
    root = tmp_path_factory.mktemp("sets") / "part"
    (root / "transcripts").mkdir(parents=True)
    for folder in ("policies", "tools"):
        shutil.copytree(SUPPORT / folder, root / folder)
    for name in ("retail-refunds", "telecom-refusals"):
        shutil.copy(SUPPORT / "transcripts" / f"{name}.jsonl", root / "transcripts")
    return load(root)


@pytest.fixture(scope="module")
def halves(whole: GoldenSet, tmp_path_factory: pytest.TempPathFactory) -> tuple[GoldenSet, GoldenSet]:
    root = tmp_path_factory.mktemp("halves")
    write_halves(whole.root, root)
    first, second = (load(root / half) for half in HALVES)
    return first, second


def test_every_turn_is_in_one_half_as_it_was(whole: GoldenSet, halves: tuple[GoldenSet, GoldenSet]) -> None:
    first, second = halves
    assert sorted([*first.turns, *second.turns], key=lambda turn: turn.id) == list(whole.turns)
    assert first.digest != second.digest


def test_no_scenario_is_in_both(halves: tuple[GoldenSet, GoldenSet]) -> None:
    first, second = ({turn.scenario for turn in half.turns} for half in halves)
    assert not first & second
    assert abs(len(first) - len(second)) <= 1


def test_they_are_alike_in_slices(whole: GoldenSet, halves: tuple[GoldenSet, GoldenSet]) -> None:
    for name, count in whole.slice_counts.items():
        if count >= 15:
            for half in halves:
                assert 0.3 * count <= half.slice_counts[name] <= 0.7 * count, name


def test_the_same_set_is_halved_the_same_way(
    whole: GoldenSet, halves: tuple[GoldenSet, GoldenSet], tmp_path: Path
) -> None:
    write_halves(whole.root, tmp_path)
    assert [load(tmp_path / half).digest for half in HALVES] == [half.digest for half in halves]


def test_what_cannot_be_halved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="only a set on this machine"):
        write_halves("s3://bucket/set", tmp_path)
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "expect": {"behaviour": "answer", "say": [["hello"]]}},
    ]
    line = {"id": "a", "scenario": "a", "slices": [], "messages": messages}
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "transcripts" / "a.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(GoldenSetError, match="one scenario"):
        write_halves(tmp_path, tmp_path / "out")
