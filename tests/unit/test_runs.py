"""Finding kept runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline.errors import RecordError, UsageError
from pipeline.runs import RUN_FILE, KeptRun, find_run, keep, read_kept_run, write_kept_run
from pipeline.store import Store


def test_a_ladder_is_no_run(store: Store, tmp_path: Path) -> None:
    run, ladder = tmp_path / "run", tmp_path / "ladder"
    for folder, file in ((run, "decision.json"), (ladder, "ladder.json")):
        folder.mkdir()
        (folder / file).write_text("{}", encoding="utf-8")
    kept = KeptRun("some/model", "int4", "quant-gate run", None, "quant-gate", None)
    with pytest.raises(UsageError, match="no run 'latest'"):
        find_run(store, "latest")
    first = keep(store, "a-run", run, run=kept)
    assert find_run(store, "latest") == find_run(store, "a-run") == first
    keep(store, "a-ladder", ladder)
    with pytest.raises(UsageError, match="a-ladder is a ladder or diagnosis") as caught:
        find_run(store, "latest")
    assert "a-run" in caught.value.remedy


KEPT = KeptRun("some/model", "int4", "quant-gate run", None, "quant-gate", None)


@pytest.mark.parametrize(
    "text",
    [
        *(json.dumps({**asdict(KEPT), name: 7}) for name in asdict(KEPT)),
        json.dumps({**asdict(KEPT), "model": None}),
        "[" * 100_000,
        "[]",
        "{}",
    ],
    ids=lambda text: text[:80],
)
def test_a_damaged_file_of_a_run_is_no_other_error(text: str, tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"run\.json: cannot be read"):
        read_kept_run(tmp_path)


def test_a_file_of_a_run_is_read_as_written(tmp_path: Path) -> None:
    write_kept_run(tmp_path, KEPT)
    assert read_kept_run(tmp_path) == KEPT
