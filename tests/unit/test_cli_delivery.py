"""``quant-gate run`` in a delivery pipeline: one line on stdout, the job's page, the files that the job keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_golden, write_policy
from junitparser import JUnitXml

from pipeline import cli


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A job whose page is the file returned."""
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    return tmp_path / "page.md"


def end(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["quant-gate", *words])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(("right", "verdict", "code"), [(True, "ACCEPT", 0), (False, "REJECT", 10)])
def test_stdout_is_one_line_and_the_page_has_the_summary(
    right: bool,
    verdict: str,
    code: int,
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    FakeMachine(candidate=lambda number: right or number % 2 > 0).install(monkeypatch)
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    words = ("run", "--model", "some/model", "--golden", str(golden), "--policy", str(policy), "--json")
    kept = tmp_path / "evidence"
    assert end(monkeypatch, *words, "--output", str(kept)) == code
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    told = json.loads(line)
    assert (told["verdict"], told["exit_code"]) == (verdict, code)
    assert verdict in shown.err  # the summary for people
    assert job.read_text("utf-8").startswith(f"## {verdict}")
    assert {path.name for path in kept.iterdir()} == {path.name for path in Path(told["directory"]).iterdir()}
    assert (kept / "review.md").read_text("utf-8").startswith("# Decision record")
    spoilt = JUnitXml.fromfile(str(kept / "junit.xml"))
    assert (spoilt.failures + spoilt.errors == 0) is right


def test_an_older_record_cannot_pass_for_that_of_a_run(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    assert end(monkeypatch, "run", "--output", str(tmp_path / "evidence"), "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "UsageError"


def test_a_run_that_breaks_says_so_in_the_same_places(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(monkeypatch, "run", "--model", "nonsense", "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["exit_code"], told["error"]["type"]) == (None, 2, "ModelError")
    assert "## No verdict" in job.read_text("utf-8") and "nonsense" in job.read_text("utf-8")
