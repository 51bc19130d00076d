"""The runner: what is done at the same time, and how one side's failure ends the other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from gate_fakes import FakeMachine
from runner_cases import FakeServer, run_gate, wait

from pipeline.errors import EnvironmentMissing, ModelError, QuantizeError, Verdict
from pipeline.request import Request
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
