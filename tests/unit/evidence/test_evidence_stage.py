"""Reading outcomes, and the decide stage over files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from record_samples import POLICY, make_context, make_golden, make_outcomes, write_outcomes

from evaluators.turn import Status
from pipeline.errors import RecordError, Verdict
from pipeline.evidence.outcomes import read_outcomes
from pipeline.evidence.record import CandidateFacts, read_decision
from pipeline.stages import decide
from pipeline.statistics.facts import Reason, ReasonCode
from pipeline.store import StageOutput, Store

GOLDEN = make_golden()


def test_outcomes_are_read_as_written(tmp_path: Path) -> None:
    outcomes = make_outcomes(GOLDEN.turns, lambda i: i % 3 > 0)
    assert read_outcomes(write_outcomes(tmp_path / "o.jsonl", outcomes)) == outcomes
    assert {outcome.status for outcome in outcomes} == {Status.PASSED, Status.FAILED, Status.NOT_APPLICABLE}


@pytest.mark.parametrize(
    "line",
    [
        '{"turn_id": "t", "metric": "m", "status": "passed"',
        '{"turn_id": "t", "metric": "m", "status": "passed", "label": "x"}',
        '{"turn_id": "t", "metric": "m", "status": "pass", "label": "x", "evidence": []}',
        '{"turn_id": "t", "metric": "m", "status": NaN, "label": "x", "evidence": []}',
        '{"turn_id": "t", "metric": "m", "status": ["passed"], "label": "x", "evidence": []}',
        '{"turn_id": 7, "metric": "m", "status": "passed", "label": "x", "evidence": []}',
        '{"turn_id": "t", "metric": "m", "status": "passed", "label": "x", "evidence": "text"}',
        '["t", "m", "passed"]',
        "null",
    ],
)
def test_a_broken_line_is_named(line: str, tmp_path: Path) -> None:
    path = write_outcomes(tmp_path / "o.jsonl", make_outcomes(GOLDEN.turns[:1], lambda i: True))
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"o\.jsonl:4: not an outcome"):
        read_outcomes(path)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"turn_id": "\xe9"}\n')
    for name in ("latin.jsonl", "absent.jsonl"):
        with pytest.raises(RecordError, match=name):
            read_outcomes(tmp_path / name)


def run(root: Path, **changes: Any) -> StageOutput:
    root.mkdir(exist_ok=True)
    arguments: dict[str, Any] = {
        "golden": GOLDEN,
        "baseline_outcomes_path": write_outcomes(root / "b.jsonl", make_outcomes(GOLDEN.turns, lambda i: True)),
        "candidate_outcomes_path": write_outcomes(root / "c.jsonl", make_outcomes(GOLDEN.turns, lambda i: i != 200)),
        "repeat_outcomes_paths": [write_outcomes(root / "again.jsonl", make_outcomes(GOLDEN.turns, lambda i: True))],
        "policy": POLICY,
        "context": make_context(decided=1.0),
    }
    return decide.run(Store(root / "store"), **{**arguments, **changes})


def test_the_stage_decides_and_reuses(tmp_path: Path) -> None:
    output = run(tmp_path)
    record = read_decision(output.path / "decision.json")
    assert (record["verdict"], record["metrics"][0]["b"]) == ("ACCEPT", 1)
    assert not output.reused and run(tmp_path).reused
    assert {"baseline_outcomes", "candidate_outcomes", "policy", "golden_set", "decision_source"} <= set(
        record["inputs"]
    )


def test_the_same_inputs_elsewhere_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (run(tmp_path / name) for name in ("one", "two"))
    assert not second.reused
    for name in ("decision.json", "flips.jsonl"):
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


def test_times_alone_do_not_make_another_decision(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert run(tmp_path, context=make_context(decided=99.0)) == replace(first, reused=True)


def test_everything_else_does(tmp_path: Path) -> None:
    keys = {run(tmp_path).key}
    changes: list[dict[str, Any]] = [
        {"golden": replace(GOLDEN, digest="0f" * 32)},
        {"baseline_outcomes_path": write_outcomes(tmp_path / "x.jsonl", make_outcomes(GOLDEN.turns, lambda i: i > 3))},
        {"candidate_outcomes_path": write_outcomes(tmp_path / "y.jsonl", make_outcomes(GOLDEN.turns, lambda i: i > 4))},
        {"repeat_outcomes_paths": [write_outcomes(tmp_path / "z.jsonl", make_outcomes(GOLDEN.turns, lambda i: i > 5))]},
        {"policy": POLICY.model_copy(update={"alpha": 0.01})},
        {"context": replace(make_context(), baseline=replace(make_context().baseline, weight_bytes=1001))},
        {"context": replace(make_context(), engine={**make_context().engine, "version": "0.33.0"})},
    ]
    for change in changes:
        keys.add(run(tmp_path, **change).key)
    assert len(keys) == len(changes) + 1


def test_outcomes_of_a_shorter_replay_are_invalid(tmp_path: Path) -> None:
    short = write_outcomes(tmp_path / "short.jsonl", make_outcomes(GOLDEN.turns[:299], lambda i: True))
    record = read_decision(run(tmp_path, candidate_outcomes_path=short).path / "decision.json")
    assert record["verdict"] == "INVALID"
    assert record["reasons"][0]["code"] == "UNSCORABLE"
    assert record["accounting"]["candidate_scored"] == 299


def test_a_candidate_as_large_as_the_baseline_is_rejected(tmp_path: Path) -> None:
    context = make_context()
    same = replace(context, candidate=replace(context.candidate, weight_bytes=context.baseline.weight_bytes))
    record = read_decision(run(tmp_path, context=same).path / "decision.json")
    assert [reason["code"] for reason in record["reasons"]] == ["NO_BENEFIT"]


def test_repeats_reach_the_record(tmp_path: Path) -> None:
    again = write_outcomes(tmp_path / "third.jsonl", make_outcomes(GOLDEN.turns, lambda i: i != 7))
    record = read_decision(run(tmp_path, repeat_outcomes_paths=[again]).path / "decision.json")
    assert record["metrics"][0]["noise"]["flips"] == 1
    assert record["critical"]["unstable"] == ["t007#1"]


def test_findings_weigh_like_the_other_reasons(tmp_path: Path) -> None:
    finding = Reason(ReasonCode.PROMPTS_DIFFER, Verdict.INVALID, "other prompts", figures={"turns": 3})
    first, second = run(tmp_path), run(tmp_path, findings=[finding])
    assert first.key != second.key
    record = read_decision(second.path / "decision.json")
    assert (record["verdict"], record["reasons"][0]["figures"]) == ("INVALID", {"turns": 3})


def test_fewer_repeats_than_the_policy_asks_for_are_invalid(tmp_path: Path) -> None:
    record = read_decision(run(tmp_path, repeat_outcomes_paths=[]).path / "decision.json")
    assert record["verdict"] == "INVALID"
    assert [reason["figures"] for reason in record["reasons"] if reason["code"] == "NO_DATA"] == [
        {"repeats": 0, "wanted": 1}
    ]


def test_a_run_settled_before_any_replay_has_a_record(tmp_path: Path) -> None:
    context = replace(make_context(), candidate=CandidateFacts(None, None, {"name": "r"}))
    reason = Reason(ReasonCode.UNDERPOWERED, Verdict.INCONCLUSIVE, "too few turns", "m")
    asked = {"golden": GOLDEN, "policy": POLICY, "context": context}
    output = decide.run_without_replay(Store(tmp_path), **asked, reasons=[reason])
    record = read_decision(output.path / "decision.json")
    assert (record["verdict"], record["exit_code"]) == ("INCONCLUSIVE", 20)
    assert record["accounting"] == {"turns": 0, "baseline_scored": 0, "candidate_scored": 0}
    assert (output.path / "flips.jsonl").read_text(encoding="utf-8") == ""
    assert decide.run_without_replay(Store(tmp_path), **asked, reasons=[reason]).reused
    for reasons in ([], [replace(reason, verdict=Verdict.ACCEPT)]):
        with pytest.raises(ValueError, match="needs reasons"):
            decide.run_without_replay(Store(tmp_path), **asked, reasons=reasons)


def test_a_damaged_file_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps({"turn_id": "t000#1"}) + "\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"broken\.jsonl:1"):
        run(tmp_path, candidate_outcomes_path=broken)
    assert not [path for path in (tmp_path / "store").rglob("*") if path.suffix != ".lock" and path.is_file()]
    with pytest.raises(RecordError, match="cannot read outcomes"):
        run(tmp_path, candidate_outcomes_path=tmp_path / "absent.jsonl")
