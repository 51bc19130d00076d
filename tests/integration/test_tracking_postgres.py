"""Tracking over HTTP, with PostgreSQL behind the server: runs, datasets and traces as a team keeps them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from test_tracking_server import tracking_server

from evaluators.turn import Behaviour, Expectation, Reply, Turn
from pipeline.tracking import Tracker
from pipeline.tracking.traces import log_traces, turn_traces

DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
"""Where Debian's packages put the server's programs, which are not on the path there."""


def _programs() -> Path:
    """The directory of PostgreSQL's server programs."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if not DEBIAN:
        pytest.skip("PostgreSQL's server programs are not installed (on Debian: apt-get install postgresql)")
    return DEBIAN[-1]


@pytest.fixture
def database() -> Iterator[str]:
    """Address of a database of a PostgreSQL server that lives as long as the test."""
    programs = _programs()
    # PostgreSQL refuses to run as root, and another user must be able to reach its files.
    other = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="quant-gate-postgres-"))
    if other:
        shutil.chown(folder, "nobody")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        subprocess.run([*other, str(programs / program), *arguments], check=True, cwd=folder, capture_output=True)

    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "gate", "-A", "trust", "-N")
    settings = f"-p {port} -k {folder} -h 127.0.0.1 -F"
    run("pg_ctl", "-D", data, "-w", "-t", "300", "-l", str(folder / "log"), "-o", settings, "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "gate", "tracking")
        yield f"postgresql://gate@127.0.0.1:{port}/tracking"
    finally:
        run("pg_ctl", "-D", data, "-w", "-t", "300", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def flip(turn: str) -> dict[str, Any]:
    return {
        **{"turn_id": turn, "metric": "tool_call_correct", "direction": "pass_to_fail", "critical": True},
        "baseline": {"label": "correct", "evidence": []},
        "candidate": {"label": "no_call", "evidence": ["expected get_order"]},
    }


def test_a_run_with_its_traces_lands_in_postgresql(database: str, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    messages = ({"role": "user", "content": "Where is order A-1?"},)
    turn = Turn("late#3", "late", "late", ("orders",), messages, (), Expectation(Behaviour.TOOL_CALL), {})
    replies = [{"late#3": Reply("late#3", content=text)} for text in ("Let me look.", "No idea. \N{WORRIED FACE}")]
    traces = turn_traces([flip("late#3")], {"late#3": turn}, *replies)
    with tracking_server(tmp_path, database) as (uri, _):
        tracker = Tracker("quant-gate/demo", "gate", uri)
        tracker.start({"recipe": "fp8-dynamic"})
        tracker.dataset("support", "c" * 64, "golden_sets/support", {"turns": 40})
        tracker.log({"difference/tool_call_correct": -0.125}, {"verdict": "REJECT"})
        assert tracker.finish(wait_s=600) is None
        assert tracker.run_id is not None
        log_traces(uri, MlflowClient(uri).get_run(tracker.run_id).info.experiment_id, tracker.run_id, traces)
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT key, value FROM metrics WHERE run_uuid = %s", (tracker.run_id,))
        assert ("difference/tool_call_correct", -0.125) in cursor.fetchall()
        cursor.execute("SELECT name, digest FROM datasets")
        assert cursor.fetchall() == [("support", "c" * 16)]
        cursor.execute("SELECT request_id, request_preview FROM trace_info")
        assert cursor.fetchall() == [(traces[0].id, "Where is order A-1?")]
        cursor.execute("SELECT name, value FROM assessments WHERE trace_id = %s ORDER BY name", (traces[0].id,))
        assert {name: json.loads(value) for name, value in cursor.fetchall()} == {
            "behaviour": "tool_call",
            "tool_call_correct": False,
        }
        cursor.execute("SELECT count(*) FROM spans WHERE trace_id = %s", (traces[0].id,))
        assert cursor.fetchone() == (3,)
    connection.close()
