"""The example jobs: their commands exist, name the files that a run writes, and end with the gate's exit code."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from pipeline import cli
from pipeline.settings import PROJECT_ROOT
from pipeline.stages.report import JUNIT_FILE

CI = PROJECT_ROOT / "examples" / "ci"


def load(name: str) -> Any:
    return yaml.safe_load((CI / name).read_text(encoding="utf-8"))


def script(name: str) -> str:
    """What the job runs."""
    if name == "gitlab-ci.yml":
        return "\n".join(load(name)["quantization-gate"]["script"])
    return "\n".join(step["run"] for step in load(name)["jobs"]["gate"]["steps"] if "run" in step)


JOBS = pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])


@JOBS
def test_the_command_is_one_that_exists(name: str) -> None:
    (line,) = [line for line in script(name).splitlines() if "quant-gate" in line]
    words = shlex.split(line.split(">")[0])
    command = getattr(typer.main.get_command(cli.app), "commands")[words[1]]  # noqa: B009 - a click group
    known = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_jobs_read_the_file_that_a_run_writes() -> None:
    assert load("gitlab-ci.yml")["quantization-gate"]["artifacts"]["reports"]["junit"] == f"evidence/{JUNIT_FILE}"
    steps = load("github-actions.yml")["jobs"]["gate"]["steps"]
    assert steps[-1]["with"]["report_paths"] == f"evidence/{JUNIT_FILE}"


@JOBS
@pytest.mark.parametrize("code", [0, 10, 20, 30])
def test_the_job_ends_as_the_gate_does(name: str, code: int, tmp_path: Path) -> None:
    gate = tmp_path / ".venv" / "bin" / "quant-gate"
    gate.parent.mkdir(parents=True)
    gate.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >&2\necho '{{\"exit_code\": {code}}}'\nexit {code}\n", "utf-8")
    gate.chmod(0o755)
    (tmp_path / "Makefile").write_text("setup:\n\t@true\n", "utf-8")
    (tmp_path / "evidence").mkdir()  # of an earlier run
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script(name)],  # as both run their scripts
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "MODEL": "a b; touch harmed", "RECIPE": "int4-awq"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "run --model a b; touch harmed --recipe int4-awq --output evidence --json" in done.stderr
    assert json.loads((tmp_path / "result.json").read_text("utf-8")) == {"exit_code": code}
    assert not (tmp_path / "evidence").exists() and not (tmp_path / "harmed").exists()
