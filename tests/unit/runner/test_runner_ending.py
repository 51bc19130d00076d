"""The runner: how the command line ends, whatever breaks or interrupts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, always
from runner_cases import CASES, CODES, FakeServer, wait

from pipeline import cli, gate, runner
from pipeline.errors import StageError, Verdict
from pipeline.store import Store


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_command_line_ends_with_the_verdicts_code(
    verdict: Verdict, machine: FakeMachine, ending: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    machine.baseline = CASES[verdict].get("baseline", always)
    machine.candidate = CASES[verdict].get("candidate", always)
    assert ending() == CODES[verdict]
    shown = capsys.readouterr()
    assert shown.out.startswith(verdict)
    assert "reused" not in shown.out  # progress goes to stderr
    assert "replay" in shown.err


def test_a_tracking_server_that_is_down_costs_a_note_and_not_the_verdict(
    machine: FakeMachine, ending: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending() == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Not recorded in MLflow: MLflow at {DEAD_SERVER}" in shown


@pytest.mark.parametrize(("command", "file"), [("replay", "replies.jsonl"), ("evaluate", "outcomes.jsonl")])
def test_a_stage_alone_tells_where_its_output_is(
    command: str, file: str, machine: FakeMachine, ending: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending("--side", "baseline", command=command) == 0
    told = Path(capsys.readouterr().out.splitlines()[-1])
    assert (told.name, told.is_file()) == (file, True)
    assert "end candidate" not in machine.done


PLACES = (
    "resolve",
    "plan",
    "quantize",
    "baseline",
    "repeat",
    "candidate",
    "evaluate",
    "decide",
    "report",
    "keep",
    "show",
)


BREAKS: list[tuple[str, BaseException]] = [
    *((place, SystemExit(0)) for place in PLACES),
    *((place, RuntimeError("boom")) for place in PLACES),
    ("candidate", MemoryError()),
    ("decide", StageError("broken")),
]


@pytest.mark.parametrize(("place", "error"), BREAKS)
def test_nothing_that_breaks_can_look_like_an_accept(
    place: str,
    error: BaseException,
    machine: FakeMachine,
    ending: Callable[..., int],
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    machine.hooks[place] = fail
    if place in ("evaluate", "decide", "report"):
        monkeypatch.setattr(getattr(gate, place), "run", fail)
    elif place == "keep":
        monkeypatch.setattr(runner, "keep", fail)
    elif place == "show":
        monkeypatch.setattr(cli, "summary", fail)
    assert ending() == 30
    assert capsys.readouterr().err
    if place != "show":
        assert not (store.root / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_stops_what_runs_and_ends_with_130(
    number: signal.Signals,
    machine: FakeMachine,
    ending: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    baseline, candidate = FakeServer(), FakeServer()

    def interrupt() -> None:
        wait(baseline.started)
        os.kill(os.getpid(), number)
        candidate.work()

    machine.hooks |= {"baseline": baseline.work, "candidate": interrupt}
    assert ending() == 130
    assert baseline.stopped.is_set()  # perhaps twice: each nested block stops what still runs
    assert candidate.stopped.is_set() or not candidate.started.is_set()  # it may have come too late to be started
    told = capsys.readouterr().err
    assert "interrupted" in told
    assert "what is complete is reused" in told
    assert "Traceback" not in told
