"""Tracking as it runs for people: a real server over HTTP, a store shared by gates that start together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.settings import PROJECT_ROOT
from pipeline.tracking import Tracker, ui_address, ui_server

ONE_GATE = """
import sys
from pipeline.tracking import Tracker
tracker = Tracker("quant-gate/demo", sys.argv[2], sys.argv[1])
tracker.start({"recipe": sys.argv[2]})
with tracker.stage("quantize") as stage:
    stage.metrics({"bytes": 1})
problem = tracker.finish(wait_s=300)
if problem:
    sys.exit(problem)
"""


def _environment() -> dict[str, str]:
    """No settings of MLflow's but our own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_well(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1200):  # a busy machine takes minutes to start it
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text())


@contextmanager
def tracking_server(folder: Path, store: str | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`mlflow server` with a database behind it (SQLite unless another is given) and artifacts sent through it."""
    port = _free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        store or f"sqlite:///{folder}/server.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    environment = _environment() | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
    try:
        _wait_until_well(port, server, log)
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(60)


def test_a_gate_over_http_and_a_server_that_dies_on_the_way(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    with tracking_server(tmp_path) as (uri, server):
        tracker = Tracker("quant-gate/demo", "whole", uri)
        tracker.start({"recipe": "fp8-dynamic"})
        tracker.dataset("support", "c" * 64, "golden_sets/support", {"turns": 40})
        (tmp_path / "decision.json").write_text(json.dumps({"verdict": "ACCEPT"}))
        with tracker.stage("quantize") as stage:
            stage.metrics({"bytes": 5})
        tracker.artifacts(tmp_path / "decision.json", folder="record")
        assert tracker.finish(wait_s=300) is None

        client = MlflowClient(uri)
        gate = client.get_run(tracker.run_id)
        assert (gate.info.status, gate.data.params) == ("FINISHED", {"recipe": "fp8-dynamic"})
        assert gate.inputs.dataset_inputs[0].dataset.name == "support"
        experiment = client.get_experiment_by_name("quant-gate/demo")
        (nested,) = client.search_runs([experiment.experiment_id], f"tags.mlflow.parentRunId = '{tracker.run_id}'")
        assert (nested.info.run_name, nested.data.metrics) == ("quantize", {"bytes": 5.0})
        (kept,) = (tmp_path / "files").rglob("decision.json")  # on the server's side
        assert json.loads(kept.read_text()) == {"verdict": "ACCEPT"}

        tracker = Tracker("quant-gate/demo", "cut off", uri)
        tracker.start()
        with tracker.stage("serve"):
            for _ in range(600):
                if tracker.run_id:
                    break
                time.sleep(0.1)
            assert tracker.run_id
            server.terminate()
            server.wait(60)
        assert uri in (tracker.finish(wait_s=300) or "")


def test_the_pages_are_served_over_the_local_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    tracker = Tracker("quant-gate/demo", "shown")
    tracker.start()
    assert tracker.finish(wait_s=300) is None
    port = _free_port()
    command, settings = ui_server(port)
    with (tmp_path / "ui.log").open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=_environment() | settings, cwd=tmp_path)
    try:
        _wait_until_well(port, server, tmp_path / "ui.log")
        with urllib.request.urlopen(ui_address(port), timeout=30) as page:
            assert b"MLflow" in page.read()
        query = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/runs/get?run_id={tracker.run_id}"
        with urllib.request.urlopen(query, timeout=30) as answer:
            assert json.load(answer)["run"]["info"]["run_name"] == "shown"
    finally:
        server.terminate()
        server.wait(60)


def test_gates_that_start_together_share_a_new_store_and_keep_the_terminal_clean(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    names = ["fp8-dynamic", "int4-rtn", "int8-w8a8"]
    gates = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_GATE, uri, name],
            cwd=PROJECT_ROOT,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in names
    ]
    assert [(gate.communicate(timeout=400)[0], gate.returncode) for gate in gates] == [("", 0)] * len(names)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("quant-gate/demo")
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.info.run_name for run in runs) == sorted([*names, *["quantize"] * len(names)])
    assert {run.info.status for run in runs} == {"FINISHED"}
