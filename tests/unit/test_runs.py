"""Finding kept runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.runs import KeptRun, find_run, keep
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
