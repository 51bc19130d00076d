"""The pool of the KV cache: compared where both engines' logs tell it, said to be unknown where one does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.evidence.record import resource_rows
from pipeline.reporting.record import ResourceRow
from pipeline.reporting.words import gain_lines
from pipeline.settings import BenefitPolicy
from pipeline.stages.resources import kv_pool
from pipeline.statistics.benefit import resource_results
from pipeline.statistics.facts import Benefit

TOLD = "GPU KV cache size: 93,184 tokens, Maximum concurrency for 8,192 tokens per request: 11.38x"


def side(directory: Path, kv_cache: str | None) -> Path:
    directory.mkdir()
    (directory / "engine.json").write_text(json.dumps({"running": {"kv_cache": kv_cache}}), encoding="utf-8")
    return directory


def test_pools_are_read_from_the_logs(tmp_path: Path) -> None:
    (pool,) = kv_pool(side(tmp_path / "a", TOLD), side(tmp_path / "b", TOLD.replace("93,184", "186,400")))
    assert (pool.baseline, pool.candidate, pool.counted) == ((93184.0,), (186400.0,), True)


@pytest.mark.parametrize(
    ("logs", "line"),
    [
        ((None, TOLD), "n/a -> 93,184 tokens [does not count; the engine's log does not tell it of the baseline]."),
        ((TOLD, "GPU KV cache: vast"), "93,184 tokens -> n/a [does not count; the engine's log does not tell it of"),
        ((None, None), "n/a -> n/a [does not count; the engine's log does not tell it of the baseline and"),
    ],
)
def test_a_pool_that_no_log_tells_is_said_to_be_unknown(
    logs: tuple[str | None, str | None], line: str, tmp_path: Path
) -> None:
    pool = kv_pool(*(side(tmp_path / name, log) for name, log in zip("ab", logs, strict=True)))
    results = resource_results(Benefit(1000, 600, tuple(pool)), BenefitPolicy(), 0.05)
    lines = gain_lines([ResourceRow.model_validate(row) for row in resource_rows(results)])
    assert lines[1].startswith(f"KV-cache pool: {line}")
