"""What a load test leaves of its servers and of `bench serve`: beside its output where it failed, and no secret."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from load_samples import SETTINGS, requests, run, told

from pipeline.errors import GateError, LoadError
from pipeline.load import sweep as sweeping
from pipeline.load.sweep import Served
from pipeline.load.workload import Workload
from pipeline.progress import Silent
from pipeline.serving.plan import EnginePlan
from pipeline.stages import load
from pipeline.store import Store

PLAN = EnginePlan("vllm", "1", "cpu", "none", (), {}, None, Path("/venv/bin/python"), "e", 1, 1, False)
SECRET = "hf_" + "a" * 34
WORKLOAD = Workload(tuple(requests(12)))


class FakeServer:
    """Says something, with a secret in it, as an engine does."""

    def __init__(self, plan: EnginePlan, model: Path, log: Path, *_: Any) -> None:
        self.plan, self.model, self.log, self.url = plan, model, log, "http://127.0.0.1:9"

    def __enter__(self) -> FakeServer:
        self.log.write_text(f"out of memory; token {SECRET}\n", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the stage with these runs of `bench serve`, one entry each: how many requests failed."""

    @contextmanager
    def watching(server: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(facts=lambda: run("baseline", 0, 1)["server"])

    def measure(failed: Iterator[int]) -> Any:
        def bench(arguments: list[str], environment: object, log: Path) -> None:
            words = dict(pairwise(arguments))
            log.write_text(f"as {SECRET}\n", encoding="utf-8")
            count, bad = int(words["--num-prompts"]), next(failed)
            result = Path(words["--result-dir"], words["--result-filename"])
            text = json.dumps(told(count, failed=bad, completed=count - bad))
            result.write_text(text, encoding="utf-8")

        monkeypatch.setattr(sweeping.bench, "run", bench)
        monkeypatch.setattr(sweeping, "Server", FakeServer)
        monkeypatch.setattr(sweeping, "watching", watching)
        monkeypatch.setattr(sweeping, "forget_prefixes", lambda server: None)
        monkeypatch.setattr(EnginePlan, "max_num_seqs", 64)
        monkeypatch.setattr(EnginePlan, "identity", lambda self: {})
        monkeypatch.setattr(load, "make_workload", lambda *_: WORKLOAD)
        monkeypatch.setattr(load, "can_overlap", lambda *_: True)
        side: Any = (SimpleNamespace(weight_bytes=1), Served(tmp_path, "d" * 64, PLAN))
        return load.run(
            Store(tmp_path / "home"),
            baseline=side,
            candidate=side,
            golden=SimpleNamespace(turns=()),  # type: ignore[arg-type]
            max_model_len=100,
            settings=SETTINGS,
            progress=Silent(),
        )

    return measure


def everything(root: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.log")))


def test_a_failed_load_test_keeps_the_logs_that_it_names(measured: Any, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="1 of 3 requests failed") as raised:
        measured(iter([0, 0, 1]))
    (logs,) = (tmp_path / "home" / "serving").iterdir()
    names = {path.name for path in logs.iterdir()}
    assert {"server-baseline.log", "candidate-0-1-cold.log", "candidate-0-1-cold.json"} <= names
    assert "baseline-0-1-cold.log" not in names  # went well, and was of the output that is gone
    named = Path(str(raised.value.remedy).split("See ", 1)[1].split(". ", 1)[0])
    assert named.read_text(encoding="utf-8").startswith("out of memory")
    assert SECRET not in everything(tmp_path)


def test_a_load_test_that_went_well_has_them_in_its_output(measured: Any, tmp_path: Path) -> None:
    output = measured(iter([0] * 24))
    names = {path.name for path in output.path.iterdir()}
    assert {"server-baseline.log", "server-candidate.log", "candidate-2-4-warm.log", "baseline-0-1-cold.json"} <= names
    assert list((tmp_path / "home" / "serving").iterdir()) == []
    logs = everything(tmp_path)
    assert logs.count("out of memory") == 2 and logs.count("as ") == 24 and SECRET not in logs
    assert load.read_load(output)[0]["requests_per_s"] == {"1": None, "4": None}


def test_an_interrupted_one_is_scrubbed_as_well(measured: Any, tmp_path: Path) -> None:
    def interrupted() -> Iterator[int]:
        yield 0
        raise GateError("stopped")

    with pytest.raises(GateError):
        measured(interrupted())
    assert "out of memory" in everything(tmp_path) and SECRET not in everything(tmp_path)
