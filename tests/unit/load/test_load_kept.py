"""What a load test leaves behind: a page, its figures, and curves in MLflow with a step for each number of users."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from load_samples import SETTINGS, whole_sweep

from pipeline.comparing import loading
from pipeline.comparing.comparing import CompareRequest
from pipeline.load import summary
from pipeline.progress import Silent
from pipeline.settings import BenefitPolicy
from pipeline.stages.load import LOAD
from pipeline.store import Store
from pipeline.tracking.facts import load_series

RUNS = whole_sweep(ttft_p95_ms=6.0, e2el_p95_ms=5.0)


def facts() -> dict[str, Any]:
    return summary.load_facts(RUNS, SETTINGS, {"digest": "d"}, representative=False)


def test_curves_have_a_step_for_each_number_of_users() -> None:
    series = load_series(facts())
    by_name: dict[str, dict[int, float]] = {}
    for name, value, step in series:
        by_name.setdefault(name, {})[step] = value
    assert len(series) == sum(map(len, by_name.values()))  # no step twice
    assert by_name["load.ttft_p95_ms/candidate"] == {1: 6.0, 4: 6.0}
    assert by_name["load.ttft_p95_ms/baseline"] == {1: 10.0, 4: 10.0}
    assert by_name["load.request_throughput/baseline.warm"] == {1: 1.0, 4: 4.0}
    assert by_name["load.ttft_p95_ms/service_level"] == {1: 100.0, 4: 100.0}
    assert by_name["load.e2el_p95_ms/service_level"] == {1: 900.0, 4: 900.0}


def test_a_load_test_leaves_a_page_and_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    output.mkdir()
    (output / LOAD).write_text(json.dumps({**facts(), "runs": RUNS}), encoding="utf-8")
    comparison = SimpleNamespace(
        baseline=SimpleNamespace(label="demo (default)"),
        candidate=SimpleNamespace(label="/models/<int8> (default)"),
        policy=SimpleNamespace(benefit=BenefitPolicy(), alpha=0.05),
        load=lambda: SimpleNamespace(path=output),
    )
    monkeypatch.setattr(loading, "Comparison", lambda *_: comparison)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    loaded = loading.measure_load(CompareRequest(load=True), Store(tmp_path / "home"), Silent())
    page = loaded.page.read_text(encoding="utf-8")
    assert page.count("<svg") == 3 and "/models/&lt;int8&gt; (default)" in page
    assert "demo (default)" in page and "no verdict" in page and "does not count" in page
    assert json.loads((loaded.page.parent / LOAD).read_text("utf-8"))["runs"] == RUNS
    assert loaded.page.parent.parent == tmp_path / "home" / "loads"
    assert loaded.problem and "127.0.0.1:9" in loaded.problem  # told, and no reason to fail
