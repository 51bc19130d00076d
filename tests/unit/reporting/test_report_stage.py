"""The report stage: files written, kept, made again when an input changes, refused when inputs do not match."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_samples import GOLDEN_DIGEST, Sample, sample

from evaluators.turn import Reply
from pipeline.errors import RecordError, Verdict
from pipeline.golden import GoldenSet
from pipeline.stages import report
from pipeline.store import StageOutput, Store


def _golden(made: Sample, digest: str = GOLDEN_DIGEST) -> GoldenSet:
    turns = tuple(sorted(made.turns.values(), key=lambda turn: turn.id))
    return GoldenSet("sample-support", Path("sample"), digest, len(turns), 7, turns, Counter())


def _line(reply: Reply) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
    body = {"content": reply.content, "tool_calls": calls, "finish_reason": reply.finish_reason}
    body |= {"completion_tokens": reply.completion_tokens, "prompt_tokens": 9}
    return {"request_digest": "0", "reply": body, "error": reply.error, "latency_s": 0.1, "attempt": 1}


def _write_replies(path: Path, replies: dict[str, Reply]) -> None:
    path.write_text("".join(json.dumps({"turn_id": i, **_line(r)}) + "\n" for i, r in replies.items()), "utf-8")


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Any]:
    made = sample(Verdict.REJECT)
    decision = tmp_path / "decision"
    decision.mkdir()
    (decision / "decision.json").write_text(json.dumps(made.decision), "utf-8")
    (decision / "flips.jsonl").write_text("".join(flip.model_dump_json() + "\n" for flip in made.flips), "utf-8")
    paths = [tmp_path / f"{side}.jsonl" for side in ("baseline", "candidate")]
    _write_replies(paths[0], made.baseline)
    _write_replies(paths[1], made.candidate)
    return {"decision_dir": decision, "golden": _golden(made), "run_facts": made.run, "replies_paths": paths}


def _run(tmp_path: Path, inputs: dict[str, Any]) -> StageOutput:
    return report.run(Store(tmp_path / "store"), **inputs)


def test_writes_the_three_reports(tmp_path: Path, inputs: dict[str, Any]) -> None:
    output = _run(tmp_path, inputs)
    assert not output.reused
    page = (output.path / "report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") and "SO-48231" in page
    assert (output.path / "summary.txt").read_text("utf-8").startswith("REJECT")
    assert (output.path / "summary.md").read_text("utf-8").startswith("## REJECT")


def test_the_same_inputs_are_not_reported_twice(tmp_path: Path, inputs: dict[str, Any]) -> None:
    first = _run(tmp_path, inputs)
    inputs["run_facts"] = replace(inputs["run_facts"], mlflow_run="another", report=tmp_path, notes=("another",))
    again = _run(tmp_path, inputs)
    assert again.reused and again.key == first.key


@pytest.mark.parametrize("name", ["decision.json", "flips.jsonl", "baseline", "candidate", "command", "golden"])
def test_a_changed_input_makes_another_report(tmp_path: Path, inputs: dict[str, Any], name: str) -> None:
    first = _run(tmp_path, inputs)
    if name == "command":
        inputs["run_facts"] = replace(inputs["run_facts"], command="make gate MODEL=other")
    elif name == "golden":
        path = inputs["decision_dir"] / "decision.json"
        decision = json.loads(path.read_text("utf-8"))
        decision["golden_set"]["digest"] = "7" * 64
        path.write_text(json.dumps(decision), "utf-8")
        inputs["golden"] = replace(inputs["golden"], digest="7" * 64)
    else:
        path = inputs["decision_dir"] / name if "." in name else inputs["replies_paths"][name == "candidate"]
        path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    assert _run(tmp_path, inputs).key != first.key


def test_a_decision_on_another_golden_set_is_refused(tmp_path: Path, inputs: dict[str, Any]) -> None:
    inputs["golden"] = replace(inputs["golden"], digest="7" * 64)
    with pytest.raises(RecordError, match="golden set"):
        _run(tmp_path, inputs)
    assert not list((tmp_path / "store").rglob("report.html"))


@pytest.mark.parametrize("name", ["decision.json", "flips.jsonl"])
def test_a_missing_file_is_refused(tmp_path: Path, inputs: dict[str, Any], name: str) -> None:
    (inputs["decision_dir"] / name).unlink()
    with pytest.raises(RecordError, match=name):
        _run(tmp_path, inputs)


@pytest.mark.parametrize("line", ["{", '{"turn_id": 3', '{"turn_id": "a"}', "[]", '"text"'])
def test_a_broken_flip_is_named_by_its_line(tmp_path: Path, inputs: dict[str, Any], line: str) -> None:
    path = inputs["decision_dir"] / "flips.jsonl"
    count = len(path.read_text("utf-8").splitlines())
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(RecordError, match=rf"flips\.jsonl:{count + 1}: "):
        _run(tmp_path, inputs)


@pytest.mark.parametrize("line", ["{", "[]", '{"reply": {}}', '{"turn_id": [], "reply": {}}'])
def test_a_broken_reply_is_named_by_its_line(tmp_path: Path, inputs: dict[str, Any], line: str) -> None:
    path = inputs["replies_paths"][1]
    path.write_text(line + "\n" + path.read_text("utf-8"), "utf-8")
    with pytest.raises(RecordError, match=r"candidate\.jsonl:1: "):
        _run(tmp_path, inputs)


def test_the_last_reply_to_a_turn_counts(tmp_path: Path, inputs: dict[str, Any]) -> None:
    first = json.loads((inputs["decision_dir"] / "flips.jsonl").read_text("utf-8").splitlines()[0])["turn_id"]
    path = inputs["replies_paths"][1]
    later = {"turn_id": first, **_line(Reply(first, "the later reply"))}
    path.write_text(path.read_text("utf-8") + json.dumps(later) + "\n", "utf-8")
    page = (_run(tmp_path, inputs).path / "report.html").read_text("utf-8")
    assert "the later reply" in page


def test_the_templates_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pipeline" / "reporting"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "templates" / "report.html.j2").write_text("one")
    stage = tmp_path / "pipeline" / "stages" / "report.py"
    stage.parent.mkdir()
    stage.write_text("")
    monkeypatch.setattr(report.reporting, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(report, "__file__", str(stage))
    first = report.source_digest()
    (package / "templates" / "report.html.j2").write_text("two")
    assert report.source_digest() != first
