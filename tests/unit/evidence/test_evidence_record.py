"""The decision record: schema, determinism, and reading it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from record_samples import POLICY, make_context, make_golden, make_outcomes

from evaluators.turn import Outcome
from pipeline.errors import RecordError, Verdict
from pipeline.evidence.record import build_record, read_decision, schema, write_record
from pipeline.settings import GateSettings
from pipeline.statistics.facts import Decision, ReasonCode
from pipeline.statistics.verdict import decide

GOLDEN = make_golden()
SOUND = make_outcomes(GOLDEN.turns, lambda i: True)


def decision_of(candidate: list[Outcome], **arguments: Any) -> Decision:
    return decide(GOLDEN.turns, SOUND, candidate, POLICY, benefit=make_context().benefit, **arguments)


def record_of(decision: Decision, policy: GateSettings = POLICY) -> dict[str, Any]:
    return build_record(decision, golden=GOLDEN, policy=policy, context=make_context(decided=1.5), inputs={"x": "y"})


LOSSY = decision_of(make_outcomes(GOLDEN.turns, lambda i: i % 14 != 2))


def test_the_schema_itself_is_valid_and_names_every_code() -> None:
    Draft202012Validator.check_schema(schema())
    codes = schema()["properties"]["reasons"]["items"]["properties"]["code"]["enum"]
    assert set(codes) == {code.value for code in ReasonCode}


@pytest.mark.parametrize(
    "candidate",
    [
        SOUND,
        make_outcomes(GOLDEN.turns, lambda i: i not in {100, 200, 250, 280, 290}),
        make_outcomes(GOLDEN.turns, lambda i: i % 2 == 0),
        [],
        SOUND[:-1],
    ],
    ids=["accept", "inconclusive", "reject", "nothing", "one missing"],
)
@pytest.mark.parametrize("repeats", [(), (SOUND,)], ids=["once", "repeated"])
def test_every_verdict_makes_a_valid_record(candidate: list[Outcome], repeats: Any, tmp_path: Path) -> None:
    decision = decision_of(candidate, repeats=repeats)
    record = record_of(decision)
    write_record(tmp_path, record, decision)
    assert read_decision(tmp_path / "decision.json") == json.loads(json.dumps(record))


def test_sampled_turns_make_a_valid_record_of_rates() -> None:
    policy = GateSettings.model_validate(
        {**POLICY.model_dump(), "sampling": {"temperature": 0.7, "samples": 3}}, strict=False
    )
    worse = make_outcomes(GOLDEN.turns, lambda i: i != 30)
    decision = decide(GOLDEN.turns, SOUND, worse, policy, repeats=[SOUND] * 2, candidate_repeats=[SOUND] * 2)
    (row, *_), (part, *_) = record_of(decision, policy)["metrics"], record_of(decision, policy)["slices"]
    assert (row["b"], row["c"], row["baseline_passed"], row["candidate_passed"]) == (0.333333, 0, 300, 299.666667)
    assert row["difference"] == pytest.approx(-1 / 900, abs=1e-6)
    assert (part["slice"], part["metric"], part["b"]) == ("long_history", "m", 0.333333)


def test_a_decision_at_a_look_makes_a_valid_record() -> None:
    policy = POLICY.model_copy(update={"looks": (0.25, 0.5)})
    lost = make_outcomes(GOLDEN.turns, lambda i: False)
    record = record_of(decide(GOLDEN.turns, SOUND, lost, policy, look=2), policy)
    assert (record["verdict"], record["look"]) == ("REJECT", 2)
    first, second = record["metrics"][0]["looks"]
    assert (first["look"], first["fraction"], second["fraction"]) == (1, 0.25, 0.5)
    assert 0 < second["p"] < second["level"] < 0.05


def test_no_turns_at_all_still_make_a_valid_record() -> None:
    assert record_of(decide([], [], [], POLICY))["verdict"] == "INVALID"


def test_figures_of_the_record() -> None:
    record = record_of(LOSSY)
    # i % 14 == 2 on 300 turns: 2, 16, ..., 296: 22 losses; of the first ten turns only t002 is critical
    metric = record["metrics"][0]
    assert (metric["n"], metric["b"], metric["c"], metric["clusters"]) == (300, 22, 0, 100)
    assert metric["difference"] == -0.073333
    assert metric["baseline_rate"] == 1.0 and metric["candidate_rate"] == 0.926667
    assert record["critical"] == {
        "turns": 10,
        "passed_by_baseline": 10,
        "failed": ["t002#1"],
        "kept": [f"t00{i}#1" for i in (0, 1, *range(3, 10))],
        "unstable": [],
        "upper_limit": 0.394163,  # Clopper-Pearson, 1 of 10: scipy.stats.beta.ppf(0.95, 2, 9)
        "by_chance": 0.0,
        "rejected_at": 1,
    }
    assert record["accounting"] == {"turns": 300, "baseline_scored": 300, "candidate_scored": 300}
    assert record["flips"] == {"pass_to_fail": 22, "fail_to_pass": 0}
    assert record["exit_code"] == 10
    assert record["inputs"] == {"baseline_replies": "01" * 32, "x": "y"}
    assert record["golden_set"]["slices"]["long_history"] == 150
    assert record["metrics"][2]["difference"] is None


def test_only_times_differ_between_equal_decisions(tmp_path: Path) -> None:
    texts = []
    for seconds in (1.0, 2.5):
        record = build_record(LOSSY, golden=GOLDEN, policy=POLICY, context=make_context(s=seconds), inputs={})
        write_record(tmp_path, record, LOSSY)
        texts.append((tmp_path / "decision.json").read_text(encoding="utf-8"))
    assert texts[0] != texts[1]
    assert texts[0].replace('"s": 1.0', '"s": 2.5') == texts[1]
    assert list(json.loads(texts[0])) == sorted(json.loads(texts[0]))


def test_an_accept_by_a_policy_that_is_not_for_release_does_not_say_ship_it() -> None:
    tour = POLICY.model_copy(update={"release": False})
    accepted = decision_of(SOUND)
    assert accepted.verdict is Verdict.ACCEPT
    assert record_of(accepted)["next_step"].startswith("Ship it")
    assert record_of(accepted, tour)["next_step"].startswith("This policy is for a tour")
    rejected = decision_of(make_outcomes(GOLDEN.turns, lambda i: i % 2 == 0))
    assert record_of(rejected, tour)["next_step"] == record_of(rejected)["next_step"] == rejected.next_step


def test_flips_file(tmp_path: Path) -> None:
    write_record(tmp_path, record_of(LOSSY), LOSSY)
    lines = [json.loads(line) for line in (tmp_path / "flips.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 22
    assert lines[0] == {
        "turn_id": "t002#1",
        "metric": "m",
        "direction": "pass_to_fail",
        "critical": True,
        "scenario": "s000",
        "slices": ["tool_calls", "long_history"],
        "baseline": {"label": "wrong_tool", "evidence": ["called “lookup” → got 42 €"]},
        "candidate": {"label": "wrong_tool", "evidence": ["called “lookup” → got 42 €"]},
    }


def _accepted() -> dict[str, Any]:
    return json.loads(json.dumps(record_of(decision_of(SOUND))))  # type: ignore[no-any-return]


def _set(record: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    target: Any = record
    for part in parents:
        target = target[int(part)] if part.isdigit() else target[part]
    target[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("verdict", "PASS", r"\$\.verdict"),
        ("exit_code", 10, "exit_code 10"),
        ("reasons", [], r"\$\.reasons"),
        ("reasons.0.verdict", "REJECT", "argues for another verdict"),
        ("metrics.0.verdict", "REJECT", "ACCEPT, though"),
        ("metrics.0.lower", "-1 %", r"\$\.metrics\[0\]\.lower"),
        ("metrics.0.b", -1, r"\$\.metrics\[0\]\.b"),
        ("metrics.0.lower", float("nan"), "NaN"),
        ("schema_version", 2, r"\$\.schema_version"),
        ("surprise", 1, "surprise"),
    ],
)
def test_an_altered_record_is_refused(path: str, value: Any, complaint: str, tmp_path: Path) -> None:
    record = _accepted()
    file = tmp_path / "decision.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    assert read_decision(file)["verdict"] == Verdict.ACCEPT
    _set(record, path, value)
    file.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RecordError, match=complaint) as caught:
        read_decision(file)
    assert caught.value.remedy


def test_an_unreadable_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "decision.json").write_text('{"verdict": "ACC', encoding="utf-8")
    for name in ("decision.json", "absent.json"):
        with pytest.raises(RecordError, match=name):
            read_decision(tmp_path / name)
