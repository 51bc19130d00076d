"""Cases, and faults that go through the real stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators import evaluate
from evaluators.turn import Status
from pipeline.evidence.record import read_decision
from pipeline.selftest.case import ENGINE, Case, anywhere, draw, golden_reply, wrong_reply
from pipeline.selftest.catalogue import Fault
from pipeline.selftest.reply_level import decision_of, keep, run_fault
from pipeline.serving.records import read_records
from pipeline.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def fault(name: str, caught_by: str) -> Fault:
    return Fault(name, "reply", name, caught_by)


def test_golden_replies_pass_and_wrong_ones_fail(case: Case) -> None:
    turn = case.golden.turns[0]
    for reply, status in ((golden_reply(turn), Status.PASSED), (wrong_reply(turn), Status.FAILED)):
        outcomes = {outcome.metric: outcome.status for outcome in evaluate(turn, reply)}
        assert outcomes["tool_call_correct"] is status


def test_settled_turns_are_right_on_every_side(case: Case) -> None:
    assert 0.8 * len(case.golden.turns) < len(case.settled) < len(case.golden.turns)
    turns = {turn.id: turn for turn in case.golden.turns}
    for side in (case.baseline, case.repeat, case.candidate):
        assert side.keys() == turns.keys()
        assert all(side[name].reply == golden_reply(turns[name]) for name in case.settled)


def test_replays_differ_only_by_near_ties(case: Case) -> None:
    first, again, other = draw(case.golden, 3), draw(case.golden, 3), draw(case.golden, 4)
    assert first == again != other
    baseline, repeat, candidate = first.wrong
    assert first.settled.isdisjoint(baseline | repeat | candidate)


def test_turns_are_chosen_among_settled_ones_and_the_same_each_time(case: Case) -> None:
    chosen = case.chosen("x", 0.5, anywhere)
    assert chosen == case.chosen("x", 0.5, anywhere) != case.chosen("y", 0.5, anywhere)
    assert all(turn.id in case.settled and not turn.expect.critical for turn in chosen)
    (critical,) = case.chosen("x", 0.0, anywhere, critical=True)
    assert critical.expect.critical
    with pytest.raises(ValueError, match="1 turns to spoil, 0 are fit"):
        case.chosen("x", 0.5, lambda turn: "no such slice" in turn.slices)


def test_spoiling_leaves_the_baseline_alone(case: Case) -> None:
    turns = case.chosen("x", 0.1, anywhere)
    spoilt = case.spoil(turns, lambda turn, reply: wrong_reply(turn))
    assert {name for name, record in spoilt.candidate.items() if record != case.candidate[name]} == {
        turn.id for turn in turns
    }
    assert (spoilt.baseline, spoilt.repeat) == (case.baseline, case.repeat)


def test_the_sound_case_is_accepted(store: Store, case: Case) -> None:
    assert read_decision(decision_of(store, case))["verdict"] == "ACCEPT"


@pytest.mark.parametrize(
    ("name", "caught_by"),
    [
        ("critical_turn_lost", "CRITICAL_TURN"),
        ("dropped_replies", "UNSCORABLE"),
        ("other_prompts", "PROMPTS_DIFFER"),
        ("other_engine", "CONDITIONS_DIFFER"),
        ("no_benefit", "NO_BENEFIT"),
        ("edited_records", "RecordError altered"),
        ("foreign_replies", "RecordError not in golden set"),
    ],
)
def test_faults_are_caught_through_the_stages(store: Store, case: Case, name: str, caught_by: str) -> None:
    result = run_fault(store, fault(name, caught_by), case)
    assert result.ok, result


def test_kept_replays_are_those_that_a_run_keeps(store: Store, case: Case, tmp_path: Path) -> None:
    kept = keep(Store(tmp_path), case.baseline, ENGINE)
    assert read_records(kept.path / "replies.jsonl") == case.baseline
