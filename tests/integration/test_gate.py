"""The whole gate with real parts: interrupted, resumed, repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import VERDICT_EXIT_CODES, Verdict
from pipeline.evidence.record import read_decision
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan

POLICY = """
sample: {turns: 13}
sampling: {max_tokens: 24}
metrics:
  policy_adherence:        {margin: 0.10}
  tool_call_correct:       {margin: 0.10}
  tool_call_valid:         {gating: false, margin: 0.10}
  refuses_when_required:   {gating: false, margin: 0.10}
  complies_when_allowed:   {margin: 0.10}
  free_of_degeneration:    {margin: 0.10}
"""


class GateProcess:
    """Runs of ``quant-gate run`` with a home of their own."""

    def __init__(self, model: Path, home: Path) -> None:
        self.home = home
        policy = home / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        self._command = [sys.executable, "-m", "pipeline", "run", "--model", str(model)]
        self._command += ["--policy", str(policy), "--explore"]  # so few turns cannot decide
        self._environment = {
            **os.environ,
            "QUANT_GATE_HOME": str(home),
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/m.db",
        }

    def start(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *more],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *more: str) -> tuple[int, str]:
        process = self.start(*more)
        output, _ = process.communicate(timeout=1200)
        return process.returncode, output

    def processes(self) -> list[int]:
        """Ids of living processes that belong to these runs: they inherited our home."""
        mark = f"QUANT_GATE_HOME={self.home}".encode()
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
            except OSError:
                continue  # it ended, or is not ours
        return found

    def replies(self) -> dict[str, bytes]:
        """Reply files by stage directory, complete or not."""
        found = self.home.glob("stages/replay/*/replies.jsonl")
        return {path.parent.name.removesuffix(".work"): path.read_bytes() for path in found}

    def decision(self) -> dict[str, Any]:
        return read_decision(self.home / "runs" / "latest" / "decision.json")


@pytest.fixture(scope="module")
def gate(demo_checkpoint: Checkpoint, engine_plan: EnginePlan, tmp_path_factory: pytest.TempPathFactory) -> GateProcess:
    return GateProcess(demo_checkpoint.path, tmp_path_factory.mktemp("gate"))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.1)


def test_interrupted_resumed_repeated(gate: GateProcess) -> None:
    # Interrupted in the middle of a replay: exit 130, nothing left running, nothing taken for whole.
    process = gate.start()
    wait_for(lambda: any(text.count(b"\n") >= 3 for text in gate.replies().values()), process)
    kept = {key: text.splitlines() for key, text in gate.replies().items()}
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "interrupted" in output
    assert gate.processes() == []
    assert not list(gate.home.glob("stages/decide/*"))

    # Resumed: every reply that had arrived is in the result, unchanged.
    code, output = gate.run()
    decision = gate.decision()
    assert code == decision["exit_code"] == VERDICT_EXIT_CODES[Verdict(decision["verdict"])], output
    assert decision["verdict"] != "ACCEPT"  # 13 turns cannot prove a loss below 10 points on every metric
    assert decision["accounting"]["baseline_scored"] == decision["accounting"]["turns"] > 6
    after = {key: set(text.splitlines()) for key, text in gate.replies().items()}
    assert len(after) == 3  # baseline, its repeat, candidate
    for key, lines in kept.items():
        assert set(lines[:-1]) <= after[key]  # the last line may have been half written when we looked
    assert gate.processes() == []

    # Repeated with nothing changed: no stage is made again, and the record is the same but for times.
    stages = {path: path.stat().st_mtime_ns for path in gate.home.glob("stages/*/*/stage.json")}
    code_again, output = gate.run()
    again = gate.decision()
    assert code_again == code
    assert {path: path.stat().st_mtime_ns for path in gate.home.glob("stages/*/*/stage.json")} == stages, output
    assert json.dumps({**again, "times": {}}) == json.dumps({**decision, "times": {}})
    report = (gate.home / "runs" / "latest" / "report.html").read_text(encoding="utf-8")
    assert f"{decision['verdict']}" in report


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--recipe", "no-such"], 2, "Known: "),
        (["--model", "/no/such/model"], 2, "not a directory"),
        (["--golden", "/no/such/set"], 2, "/no/such/set"),
        (["--serving", "no-such"], 2, "Known: "),
    ],
)
def test_bad_input_is_one_screen_and_starts_nothing(
    gate: GateProcess, options: list[str], code: int, words: str
) -> None:
    exit_code, output = gate.run(*options)
    assert exit_code == code, output
    assert words in output
    assert "Traceback" not in output
    assert len(output.splitlines()) <= 24
    assert gate.processes() == []


def test_a_checkpoint_without_template_is_refused(gate: GateProcess, demo_checkpoint: Checkpoint) -> None:
    bare = gate.home / "bare"
    bare.mkdir()
    for file in demo_checkpoint.path.iterdir():
        if file.name != "chat_template.jinja":
            (bare / file.name).symlink_to(file)
    exit_code, output = gate.run("--model", str(bare))
    assert exit_code == 2, output
    assert "chat template" in output
