"""The runner: what is done at the same time, and how one side's failure ends the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gate_fakes import FakeMachine, write_golden
from runner_cases import FakeServer, run_gate, wait

from pipeline import gate
from pipeline.errors import EnvironmentMissing, ModelError, QuantizeError, Verdict
from pipeline.request import Request
from pipeline.serving.plan import EnginePlan
from pipeline.store import Store


def test_without_room_for_two_the_candidate_waits_for_the_baseline(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.overlap = False
    quantized = threading.Event()
    machine.hooks["quantize"] = quantized.set
    machine.hooks["baseline"] = lambda: wait(quantized)  # the baseline is served while the candidate is quantized
    run_gate(request_, store)
    assert [step for step in machine.done if step != "quantize"] == [
        *("start baseline", "end baseline", "start repeat", "end repeat", "start candidate", "end candidate")
    ]


def test_with_room_for_two_both_are_served_at_once(machine: FakeMachine, request_: Request, store: Store) -> None:
    baseline, candidate = threading.Event(), threading.Event()
    machine.hooks["baseline"] = lambda: (baseline.set(), wait(candidate))[1]
    machine.hooks["candidate"] = lambda: (candidate.set(), wait(baseline))[1]
    assert run_gate(request_, store).verdict is Verdict.ACCEPT


def test_the_engines_environment_is_built_while_the_model_is_resolved_and_quantized(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    building, resolved, quantizing = threading.Event(), threading.Event(), threading.Event()

    def build() -> None:
        building.set()
        wait(resolved)
        wait(quantizing)

    machine.hooks["serve environment"] = build
    machine.hooks["resolve"] = lambda: (wait(building), resolved.set())[0]
    machine.hooks["quantize"] = quantizing.set
    assert run_gate(request_, store).verdict is Verdict.ACCEPT


def test_an_environment_that_cannot_be_built_ends_the_run(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    quantizer = FakeServer()

    def fail() -> None:
        wait(quantizer.started)
        raise EnvironmentMissing("building environment 'serve' failed")

    machine.hooks |= {"serve environment": fail, "quantize": quantizer.work}
    with pytest.raises(EnvironmentMissing, match="'serve' failed"):
        run_gate(request_, store)
    assert quantizer.stops == 1
    assert machine.done == ["quantize"]


@pytest.mark.parametrize(
    ("error", "code"), [(ModelError("no such model"), 2), (KeyboardInterrupt(), 130)], ids=["error", "Ctrl-C"]
)
def test_the_build_of_an_environment_ends_with_the_run(
    error: BaseException, code: int, machine: FakeMachine, ending: Callable[..., int]
) -> None:
    build = FakeServer()

    def fail() -> None:
        wait(build.started)
        raise error

    machine.hooks |= {"serve environment": build.work, "resolve": fail}
    assert ending() == code
    assert build.stops == 1


@pytest.mark.parametrize(("failing", "running"), [("quantize", "baseline"), ("baseline", "quantize")])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_failing_side_stops_the_other(
    failing: str, running: str, overlap: bool, machine: FakeMachine, request_: Request, store: Store
) -> None:
    other = FakeServer()
    machine.overlap = overlap

    def fail() -> None:
        wait(other.started)
        raise QuantizeError(f"{failing} is broken")

    machine.hooks |= {failing: fail, running: other.work}
    with pytest.raises(QuantizeError, match=f"{failing} is broken"):
        run_gate(request_, store)
    assert other.stops == 1
    assert "start candidate" not in machine.done
    machine.hooks.clear()
    assert run_gate(request_, store).verdict is Verdict.ACCEPT  # nothing is left that hinders the next run


class Ahead:
    """Stands for the engines that import ahead; a hook is called when one is started."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Path]] = []
        self.dropped = 0
        self.began = threading.Event()

    def start(self, label: str, plan: EnginePlan, checkpoint: Path) -> None:
        self.started.append((label, checkpoint))
        self.began.set()

    def take(self, label: str) -> None:
        return None

    def drop(self) -> None:
        self.dropped += 1


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    engines = Ahead()
    monkeypatch.setattr(gate, "EnginesAhead", lambda store, progress: engines)
    return engines


def test_the_baselines_engine_imports_while_the_model_is_made(
    machine: FakeMachine, request_: Request, store: Store, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate.resolve, "unmade", lambda store, model: store.root / "to-be")
    machine.hooks["resolve"] = lambda: wait(ahead.began)
    assert run_gate(request_, store).verdict is Verdict.ACCEPT
    assert ahead.started == [("replay baseline", store.root / "to-be")]
    assert ahead.dropped == 1


def test_no_engine_is_started_where_the_golden_set_settles_the_verdict(
    machine: FakeMachine,
    request_: Request,
    store: Store,
    ahead: Ahead,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate.resolve, "unmade", lambda store, model: store.root / "to-be")
    few = replace(request_, golden=str(write_golden(tmp_path / "few", turns=3)))
    assert run_gate(few, store).verdict is Verdict.INCONCLUSIVE
    assert ahead.started == []


def test_without_room_for_two_the_candidates_engine_imports_while_the_baseline_is_replayed(
    machine: FakeMachine, request_: Request, store: Store, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "READ_S", 0.05)
    machine.overlap = False
    machine.hooks["baseline"] = lambda: wait(ahead.began)
    assert run_gate(request_, store).verdict is Verdict.ACCEPT
    assert [label for label, _ in ahead.started] == ["replay candidate"]
    assert machine.done.index("end repeat") < machine.done.index("start candidate")


def test_nothing_imports_ahead_of_a_baseline_whose_replies_are_kept(
    machine: FakeMachine, request_: Request, store: Store, ahead: Ahead
) -> None:
    run_gate(request_, store)
    machine.overlap = False
    assert run_gate(replace(request_, recipe="int8-w8a8"), store).verdict is Verdict.ACCEPT
    assert ahead.started == []
