"""A gate whose policy declares looks: a hopeless candidate is given up, any other is asked everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gate_fakes import TURNS, FakeMachine, always, write_golden, write_policy

from pipeline.errors import ServerError, Verdict
from pipeline.gate import Gate
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.store import Store


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    policy = write_policy(tmp_path / "gate.yaml")
    policy.write_text("looks: [0.3, 0.6]\n" + policy.read_text(encoding="utf-8"), encoding="utf-8")
    return Request(model="some/model", golden=str(write_golden(tmp_path / "orders")), policy=policy)


def run_gate(request: Request, store: Store) -> RunResult:
    return run(request, store, Silent())


def never(number: int) -> bool:
    return False


def asked(machine: FakeMachine) -> list[str]:
    return [what for what in machine.done if what.startswith(("start look", "start candidate"))]


@pytest.mark.parametrize("overlap", [True, False])
def test_a_hopeless_candidate_is_given_up(overlap: bool, machine: FakeMachine, request_: Request, store: Store) -> None:
    # Margin 10 points. All 9 scenarios of the first look lost: Tango's z = -8.1 / sqrt(9 * 0.99) = -2.7, boundary -3.4;
    # all 18 of the second: z = -16.2 / sqrt(18 * 0.99) = -3.8, boundary -2.3.
    machine.candidate, machine.overlap = never, overlap
    result = run_gate(request_, store)
    assert (result.verdict, result.exit_code) == (Verdict.REJECT, 10)
    assert asked(machine) == ["start look 1", "start look 2"]
    record = result.decision
    assert record["look"] == 2
    assert record["accounting"] == {"turns": 54, "baseline_scored": 54, "candidate_scored": 54}
    assert {"METRIC_LOSS", "SET_UNFINISHED"} <= {reason["code"] for reason in record["reasons"]}
    (row,) = [row for row in record["metrics"] if row["metric"] == "tool_call_correct"]
    assert [(test["look"], test["n"], test["p"] < test["level"]) for test in row["looks"]] == [
        (1, 27, False),
        (2, 54, True),
    ]
    assert (result.directory / "report.html").exists()
    flips = (result.directory / "flips.jsonl").read_text(encoding="utf-8").splitlines()
    assert len([flip for flip in map(json.loads, flips) if flip["metric"] == "tool_call_correct"]) == 54


def test_a_sound_candidate_is_asked_everything_and_accepted(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    result = run_gate(request_, store)
    assert result.verdict is Verdict.ACCEPT and result.decision["look"] is None
    assert asked(machine) == ["start look 1", "start look 2", "start candidate"]
    assert result.decision["accounting"]["turns"] == TURNS


def test_a_second_run_ends_the_same_without_any_work(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = never
    first = run_gate(request_, store)
    machine.done.clear()
    second = run_gate(request_, store)
    assert machine.done == []
    assert {**first.decision, "times": {}} == {**second.decision, "times": {}}


def test_the_verdict_is_the_same_when_everything_was_asked(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.candidate = never
    gate = Gate(request_, store, Silent())
    record = json.loads((gate.decision.path / "decision.json").read_text(encoding="utf-8"))  # nothing measured before
    assert asked(machine) == ["start candidate"]
    assert (record["verdict"], record["look"]) == ("REJECT", None)
    (row,) = [row for row in record["metrics"] if row["metric"] == "tool_call_correct"]
    assert [test["look"] for test in row["looks"] if test["p"] < test["level"]] == [2]


def test_a_baseline_that_breaks_ends_the_run(machine: FakeMachine, request_: Request, store: Store) -> None:
    def fail() -> None:
        raise ServerError("the engine died", "See its log.")

    machine.hooks["baseline"] = fail
    with pytest.raises(ServerError, match="the engine died"):
        run_gate(request_, store)


def test_without_looks_the_candidate_is_asked_at_once(machine: FakeMachine, request_: Request, store: Store) -> None:
    assert request_.policy is not None
    text = request_.policy.read_text(encoding="utf-8")
    request_.policy.write_text(text.replace("looks: [0.3, 0.6]\n", ""), encoding="utf-8")
    machine.candidate = lambda number: always(number) and number > 0
    run_gate(request_, store)
    assert asked(machine) == ["start candidate"]
