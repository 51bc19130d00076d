"""The runner: verdicts and their exit codes, what is kept and reused, what overlaps, and how it all ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, TURNS, FakeMachine, always, write_golden, write_policy

from pipeline import cli, processes, runner
from pipeline.errors import (
    GoldenSetError,
    ModelError,
    QuantizeError,
    RecipeError,
    ReplayError,
    ServerError,
    SettingsError,
    StageError,
    Verdict,
)
from pipeline.progress import Silent
from pipeline.runner import Gate, Request, RunResult, run
from pipeline.store import Store


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine()
    fake.install(monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)
    return fake


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_golden(tmp_path_factory.mktemp("sets") / "orders"))


@pytest.fixture
def request_(golden: str, tmp_path: Path) -> Request:
    return Request(model="some/model", golden=golden, policy=write_policy(tmp_path / "gate.yaml"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def gate(request: Request, store: Store) -> RunResult:
    return run(request, store, Silent())


def without_times(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del record["times"]
    return record


# --- verdicts ----------------------------------------------------------------------------------

# With 90 turns in 30 scenarios and a margin of 10 points (one-sided 95 %): no flip proves a loss below 8.3 points;
# 9 losses are a loss of just 10 points, which rules out neither side; 45 losses are 50 points.
CASES: dict[Verdict, dict[str, Callable[[int], bool]]] = {
    Verdict.ACCEPT: {},
    Verdict.INCONCLUSIVE: {"candidate": lambda number: number not in range(0, 27, 3)},
    Verdict.REJECT: {"candidate": lambda number: number % 2 > 0},
    Verdict.INVALID: {"baseline": lambda number: number < 6},  # below its floor: no yardstick
}
CODES = {Verdict.ACCEPT: 0, Verdict.REJECT: 10, Verdict.INCONCLUSIVE: 20, Verdict.INVALID: 30}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_has_its_exit_code_record_and_report(
    verdict: Verdict, machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.baseline = CASES[verdict].get("baseline", always)
    machine.candidate = CASES[verdict].get("candidate", always)
    result = gate(request_, store)
    assert (result.verdict, result.exit_code) == (verdict, CODES[verdict])
    record = json.loads((result.directory / "decision.json").read_text(encoding="utf-8"))
    assert (record["verdict"], record["exit_code"]) == (verdict, CODES[verdict])
    assert record == result.decision
    assert {path.name for path in result.directory.iterdir()} == {
        *("decision.json", "flips.jsonl", "report.html", "summary.txt", "summary.md")
    }
    assert (result.directory / "summary.txt").read_text(encoding="utf-8").startswith(verdict)
    assert result.facts.report == result.directory / "report.html"


def test_the_record_says_what_was_compared(machine: FakeMachine, request_: Request, store: Store) -> None:
    record = gate(request_, store).decision
    assert record["baseline"] == {"digest": "ba" * 32, "revision": None, "source": "some/model", "weight_bytes": 1000}
    assert (record["candidate"]["digest"], record["candidate"]["weight_bytes"]) == ("ca" * 32, 600)
    assert record["candidate"]["recipe"]["name"] == "fp8-dynamic"
    assert (record["engine"]["version"], record["golden_set"]["turns"]) == ("9.9.9", TURNS)
    assert {"baseline_replies", "candidate_replies"} <= set(record["inputs"])


def test_a_candidate_that_saves_too_little_is_rejected(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.saved = 0.1
    assert gate(request_, store).exit_code == 10


def test_sides_that_read_different_prompts_are_no_comparison(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.template_of_candidate = "other"
    with pytest.raises(ReplayError, match=f"did not read the same prompt at {TURNS} of {TURNS} turns, first order-000"):
        gate(request_, store)
    assert not (store.root / "runs").exists()


# --- keeping and reusing -----------------------------------------------------------------------


def test_a_second_run_does_nothing_again_and_says_the_same(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    first = gate(request_, store)
    assert sorted(machine.done) == ["end baseline", "end candidate", "quantize", "start baseline", "start candidate"]
    machine.done.clear()
    heard: list[str] = []

    class Heard(Silent):
        def say(self, stage: str, text: str) -> None:
            heard.append(text)

    second = run(request_, store, Heard())
    assert machine.done == []
    assert len(heard) == 7  # quantize, both replays, both evaluations, decide, report
    assert all(text.startswith("reused") for text in heard)
    assert first.directory != second.directory
    for name in ("decision.json", "flips.jsonl", "report.html"):
        assert (first.directory / name).read_bytes() == (second.directory / name).read_bytes()


def test_the_same_run_elsewhere_differs_only_by_its_times(
    machine: FakeMachine, request_: Request, tmp_path: Path
) -> None:
    machine.candidate = CASES[Verdict.REJECT]["candidate"]
    one, other = (gate(request_, Store(tmp_path / name)) for name in ("one", "other"))
    assert without_times(one.directory / "decision.json") == without_times(other.directory / "decision.json")
    assert (one.directory / "flips.jsonl").read_bytes() == (other.directory / "flips.jsonl").read_bytes()


def test_another_policy_decides_anew_but_serves_nothing(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = CASES[Verdict.INCONCLUSIVE]["candidate"]
    assert gate(request_, store).verdict is Verdict.INCONCLUSIVE
    machine.done.clear()
    assert request_.policy is not None
    request_.policy.write_text(request_.policy.read_text("utf-8").replace("margin: 0.1", "margin: 0.3"), "utf-8")
    assert gate(request_, store).verdict is Verdict.ACCEPT
    assert machine.done == []


def test_latest_points_at_the_newest_run(machine: FakeMachine, request_: Request, store: Store) -> None:
    latest = store.root / "runs" / "latest"
    for _ in range(3):
        result = gate(request_, store)
        assert latest.resolve() == result.directory
    assert sorted(path.name for path in latest.parent.iterdir() if path.name.startswith(".")) == []
    assert len(list(latest.parent.iterdir())) == 4


def test_two_runs_at_once_share_the_work_and_keep_their_own_records(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    together = threading.Barrier(2)

    def start(_: int) -> RunResult:
        together.wait(60)
        return gate(request_, store)

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(start, range(2))
    assert (first.verdict, second.verdict) == (Verdict.ACCEPT, Verdict.ACCEPT)
    assert sorted(machine.done) == ["end baseline", "end candidate", "quantize", "start baseline", "start candidate"]
    assert first.directory != second.directory
    assert all((result.directory / "report.html").exists() for result in (first, second))


def test_a_damaged_record_is_never_a_verdict(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = CASES[Verdict.REJECT]["candidate"]
    gate(request_, store)
    (kept,) = (store.root / "stages" / "decide").glob("*/decision.json")
    kept.write_text(kept.read_text("utf-8").replace('"verdict": "REJECT"', '"verdict": "ACCEPT"'), encoding="utf-8")
    with pytest.raises(StageError):
        gate(request_, store)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"recipe": "int5"}, RecipeError),
        ({"serving": "nope"}, SettingsError),
        ({"policy": Path("/nope/gate.yaml")}, SettingsError),
        ({"golden": "/nope/set"}, GoldenSetError),
    ],
)
def test_bad_input_is_found_before_any_work(
    changes: dict[str, Any], error: type[Exception], machine: FakeMachine, golden: str, store: Store
) -> None:
    machine.hooks["resolve"] = lambda: pytest.fail("work was done")
    with pytest.raises(error):
        gate(Request(**{"golden": golden, **changes}), store)
    assert not store.root.exists()


def test_an_unknown_model_leaves_no_tracking_run(
    machine: FakeMachine, request_: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> None:
        raise ModelError("no such model", "give another")

    machine.hooks["resolve"] = unknown
    monkeypatch.setattr(runner.Tracker, "start", lambda *arguments: pytest.fail("a run was begun"))
    with pytest.raises(ModelError):
        gate(request_, store)


def test_a_set_without_checkpointed_turns_is_refused(machine: FakeMachine, tmp_path: Path, store: Store) -> None:
    (tmp_path / "empty" / "transcripts").mkdir(parents=True)
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello."}]
    line = {"id": "a", "scenario": "a", "slices": [], "messages": messages}
    (tmp_path / "empty" / "transcripts" / "a.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(GoldenSetError):
        Gate(Request(golden=str(tmp_path / "empty")), store, Silent())


def test_the_template_of_the_serving_settings_is_the_models(
    machine: FakeMachine, request_: Request, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint without a template of its own can be gated with one that the settings name."""
    serving = tmp_path / "serving.yaml"
    serving.write_text("chat_template: templates/mine.jinja\n", encoding="utf-8")
    given: list[Any] = []
    resolved = machine.resolve

    def note(*arguments: Any) -> Any:
        given.extend(arguments)
        return resolved(*arguments)

    monkeypatch.setattr(runner.resolve, "run", note)
    _ = Gate(Request(golden=request_.golden, serving=str(serving)), store, Silent()).baseline
    assert given[-1] == runner.PROJECT_ROOT / "templates" / "mine.jinja"


# --- what overlaps -----------------------------------------------------------------------------

LIMIT_S = 30  # a wait that should end at once; reached only when the test fails


def test_without_room_for_two_the_candidate_waits_for_the_baseline(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.overlap = False
    quantized = threading.Event()
    machine.hooks["quantize"] = quantized.set
    machine.hooks["baseline"] = lambda: _wait(quantized)  # the baseline is served while the candidate is quantized
    gate(request_, store)
    assert [step for step in machine.done if step != "quantize"] == [
        *("start baseline", "end baseline", "start candidate", "end candidate")
    ]


def test_with_room_for_two_both_are_served_at_once(machine: FakeMachine, request_: Request, store: Store) -> None:
    baseline, candidate = threading.Event(), threading.Event()
    machine.hooks["baseline"] = lambda: (baseline.set(), _wait(candidate))[1]
    machine.hooks["candidate"] = lambda: (candidate.set(), _wait(baseline))[1]
    assert gate(request_, store).verdict is Verdict.ACCEPT


def _wait(event: threading.Event) -> None:
    assert event.wait(LIMIT_S)


class FakeServer:
    """Work that ends when it is stopped, like a served replay or a quantizer."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.stopped = threading.Event()
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()

    def work(self) -> None:
        processes.enrol(self)
        try:
            self.started.set()
            _wait(self.stopped)
            raise ServerError("stopped from outside")
        finally:
            processes.leave(self)


@pytest.mark.parametrize(("failing", "running"), [("quantize", "baseline"), ("baseline", "quantize")])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_failing_side_stops_the_other(
    failing: str, running: str, overlap: bool, machine: FakeMachine, request_: Request, store: Store
) -> None:
    other = FakeServer()
    machine.overlap = overlap

    def fail() -> None:
        _wait(other.started)
        raise QuantizeError(f"{failing} is broken")

    machine.hooks |= {failing: fail, running: other.work}
    with pytest.raises(QuantizeError, match=f"{failing} is broken"):
        gate(request_, store)
    assert other.stops == 1
    assert "start candidate" not in machine.done
    machine.hooks.clear()
    assert gate(request_, store).verdict is Verdict.ACCEPT  # nothing is left that hinders the next run


# --- how it ends -------------------------------------------------------------------------------


@pytest.fixture
def _signals() -> Iterator[None]:
    """The command line takes over signals; give them back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def ending(
    _signals: None, request_: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int | str | None]:
    """Runs the whole command line and tells its exit code."""
    monkeypatch.setenv("QUANT_GATE_HOME", str(store.root))
    line = shlex.split(request_.command)

    def end(*words: str) -> int | str | None:
        monkeypatch.setattr("sys.argv", [*line, *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code

    return end


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


PLACES = ("resolve", "plan", "quantize", "baseline", "candidate", "evaluate", "decide", "report", "keep", "show")


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
        monkeypatch.setattr(getattr(runner, place), "run", fail)
    elif place == "keep":
        monkeypatch.setattr(runner, "_keep", fail)
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
        _wait(baseline.started)
        os.kill(os.getpid(), number)
        candidate.work()

    machine.hooks |= {"baseline": baseline.work, "candidate": interrupt}
    assert ending() == 130
    assert (baseline.stops, candidate.stops) in ((1, 1), (1, 0))  # 0: it came too late to be started
    told = capsys.readouterr().err
    assert "interrupted" in told
    assert "what is complete is reused" in told
    assert "Traceback" not in told


def test_the_command_repeats_the_request() -> None:
    assert Request().command == "quant-gate run --model demo --recipe fp8-dynamic"
    request = Request("a model", "./mine.yaml", "sets/x", "gpu", Path("strict gate.yaml"))
    assert shlex.split(request.command) == [
        *("quant-gate", "run", "--model", "a model", "--recipe", "./mine.yaml"),
        *("--golden", "sets/x", "--serving", "gpu", "--policy", "strict gate.yaml"),
    ]


def test_the_embedded_models_have_a_policy_of_their_own(machine: FakeMachine, request_: Request, store: Store) -> None:
    def margin(request: Request) -> float:
        return Gate(request, store, Silent()).policy.metrics["tool_call_correct"].margin

    assert margin(Request("demo", golden=request_.golden)) == 0.06
    assert margin(Request("some/model", golden=request_.golden)) == 0.03
    assert margin(Request("demo", golden=request_.golden, policy=request_.policy)) == 0.1


def test_a_policy_may_ask_for_a_sample(machine: FakeMachine, request_: Request, store: Store) -> None:
    assert request_.policy is not None
    request_.policy.write_text("scenarios: 5\n" + request_.policy.read_text("utf-8"), encoding="utf-8")
    result = gate(request_, store)
    assert (result.decision["golden_set"]["scenarios"], result.decision["golden_set"]["turns"]) == (5, 15)
    assert result.verdict is Verdict.INCONCLUSIVE  # 15 turns without a flip leave 2.706 / 17.706 = 15 points open


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demo", "demo"),
        ("models:/support@prod", "models--support-prod"),
        ("../../etc", "etc"),
        ("/", "model"),
        ("x" * 100, "x" * 60),
    ],
)
def test_names_of_runs_are_file_names(text: str, expected: str) -> None:
    assert runner._slug(text) == expected


def test_half_a_copied_record_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    output.mkdir()
    (output / "decision.json").write_text("{}")

    def full(source: Path, target: Path) -> None:
        target.write_text("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner.shutil, "copy2", full)
    store = Store(tmp_path / "home")
    with pytest.raises(OSError, match="No space left"):
        runner._keep(store, "name", output)
    assert list((store.root / "runs").iterdir()) == []
