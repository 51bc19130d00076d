"""The runner: verdicts and their exit codes, comparability, noise and power, what is kept and reused, bad input."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import TURNS, FakeMachine, always, write_checkpoint
from runner_cases import ALL_WORK, CASES, CODES, run_gate, without_times

from pipeline import cli, gate, runner, runs
from pipeline.errors import GoldenSetError, ModelError, RecipeError, ServerError, SettingsError, StageError, Verdict
from pipeline.gate import Gate
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.store import Store

# --- verdicts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_has_its_exit_code_record_and_report(
    verdict: Verdict, machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.baseline = CASES[verdict].get("baseline", always)
    machine.candidate = CASES[verdict].get("candidate", always)
    result = run_gate(request_, store)
    assert (result.verdict, result.exit_code) == (verdict, CODES[verdict])
    record = json.loads((result.directory / "decision.json").read_text(encoding="utf-8"))
    assert (record["verdict"], record["exit_code"]) == (verdict, CODES[verdict])
    assert record == result.decision
    assert {path.name for path in result.directory.iterdir()} == {
        *("decision.json", "flips.jsonl", "report.html", "summary.txt", "summary.md", "evidence.tar.zst", "run.json"),
        *("review.md", "junit.xml"),
    }
    assert (result.directory / "summary.txt").read_text(encoding="utf-8").startswith(verdict)
    assert result.facts.report == result.directory / "report.html"


def test_the_record_says_what_was_compared(machine: FakeMachine, request_: Request, store: Store) -> None:
    record = run_gate(request_, store).decision
    digest = write_checkpoint(store.root / "the same", "baseline", 1000)
    assert record["baseline"] == {"digest": digest, "revision": None, "source": "some/model", "weight_bytes": 1000}
    assert (record["candidate"]["digest"], record["candidate"]["weight_bytes"]) == (machine.candidate_digest, 600)
    assert record["candidate"]["recipe"]["name"] == "fp8-dynamic"
    assert (record["engine"]["version"], record["golden_set"]["turns"]) == ("9.9.9", TURNS)
    assert {"baseline_replies", "candidate_replies"} <= set(record["inputs"])


def test_a_candidate_that_saves_too_little_is_rejected(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.saved = 0.1
    assert run_gate(request_, store).exit_code == 10


# --- comparability -----------------------------------------------------------------------------


def reason(record: dict[str, Any], code: str) -> dict[str, Any]:
    """The one reason of that code."""
    (found,) = [reason for reason in record["reasons"] if reason["code"] == code]
    return dict(found)


def test_sides_that_read_different_prompts_are_no_comparison(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.template_of_candidate = "other"
    result = run_gate(request_, store)
    assert (result.verdict, result.exit_code) == (Verdict.INVALID, 30)
    found = reason(result.decision, "PROMPTS_DIFFER")
    assert found["figures"] == {"turns": TURNS, "differing": TURNS, "unknown": 0}
    assert "order-000#1" in found["text"]
    assert (result.directory / "report.html").exists()


@pytest.mark.parametrize(
    ("told", "differing"),
    [
        ({"version": "9.9.8"}, "version in effect"),
        ({"settings": {"dtype": "float16"}}, "dtype in effect"),
    ],
)
def test_sides_that_were_not_served_alike_are_no_comparison(
    told: dict[str, Any], differing: str, machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.engine_of_candidate = told
    result = run_gate(request_, store)
    assert result.verdict is Verdict.INVALID
    found = reason(result.decision, "CONDITIONS_DIFFER")
    assert f"{differing} differ." in found["text"]
    assert set(found["figures"]) == {f"{differing} (baseline)", f"{differing} (candidate)"}


def test_an_engine_of_which_nothing_is_known_is_no_comparison(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.engine_of_candidate = {"settings": None}
    assert "not known" in reason(run_gate(request_, store).decision, "CONDITIONS_DIFFER")["text"]


# --- noise floor -------------------------------------------------------------------------------


def test_the_baseline_is_replayed_again_and_its_noise_is_in_the_record(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.repeat = lambda number: number > 1  # differs at 2 of 90 turns
    machine.candidate = lambda number: number > 2  # differs at 3
    result = run_gate(request_, store)
    (row,) = [row for row in result.decision["metrics"] if row["metric"] == "tool_call_correct"]
    assert row["noise"]["repeats"] == 1
    assert (row["noise"]["flips"], row["noise"]["compared"]) == (2, TURNS)
    assert row["noise"]["flip_rate"] == pytest.approx(2 / 90, abs=1e-6)
    assert row["noise"]["excess_flips"] == pytest.approx(1, abs=1e-6)
    shown = (result.directory / "summary.txt").read_text(encoding="utf-8")
    assert "the baseline differs from itself on 2 of 90" in " ".join(shown.split())


def test_a_baseline_that_differs_from_itself_too_often_is_no_yardstick(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    machine.repeat = lambda number: number > 4  # 5 of 90 turns: 5.6 %, above the ceiling of 5 %
    result = run_gate(request_, store)
    assert result.verdict is Verdict.INVALID
    assert reason(result.decision, "NOISE")["figures"]["flip_rate"] == pytest.approx(5 / 90, abs=1e-6)


def test_another_candidate_shares_the_baselines_replays(machine: FakeMachine, request_: Request, store: Store) -> None:
    run_gate(request_, store)
    machine.done.clear()
    machine.candidate_name = "another"
    run_gate(replace(request_, recipe="int8-w8a8"), store)
    assert sorted(machine.done) == ["end candidate", "quantize", "start candidate"]


def test_a_repeat_that_breaks_costs_only_itself(machine: FakeMachine, request_: Request, store: Store) -> None:
    def fail() -> None:
        raise ServerError("the engine died")

    machine.hooks["repeat"] = fail
    with pytest.raises(ServerError):
        run_gate(request_, store)
    machine.hooks.clear()
    machine.done.clear()
    assert run_gate(request_, store).verdict is Verdict.ACCEPT
    assert "start baseline" not in machine.done
    assert "start repeat" in machine.done


def test_a_decision_without_the_noise_floor_is_no_accept(
    machine: FakeMachine, request_: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = machine.replay
    monkeypatch.setattr(gate.serve_replay, "run", lambda *a, **named: replayed(*a, **(named | {"repeats": 0})))
    result = run_gate(request_, store)
    assert result.verdict is Verdict.INVALID
    assert reason(result.decision, "NO_DATA")["figures"] == {"repeats": 0, "wanted": 1}


def test_turns_that_are_sampled_are_replayed_as_often_on_both_sides(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    assert request_.policy is not None
    text = request_.policy.read_text("utf-8")
    request_.policy.write_text(f"sampling: {{temperature: 0.7, samples: 3}}\n{text}", encoding="utf-8")
    machine.candidate = lambda number: number % 30 > 0
    result = run_gate(request_, store)
    assert [machine.done.count(step) for step in ("end repeat", "end sample")] == [2, 2]
    assert {"NO_DATA", "CONDITIONS_DIFFER"}.isdisjoint(reason["code"] for reason in result.decision["reasons"])
    (row,) = [row for row in result.decision["metrics"] if row["metric"] == "tool_call_correct"]
    assert (row["n"], row["b"]) == (TURNS, 3)


# --- power -------------------------------------------------------------------------------------


def small(request: Request, margin: str = "0.02") -> Request:
    """The same request with a margin that 90 turns in 30 scenarios cannot clear."""
    assert request.policy is not None
    text = request.policy.read_text("utf-8").replace("margin: 0.1", f"margin: {margin}")
    request.policy.write_text(text, encoding="utf-8")
    return request


def test_a_set_too_small_to_decide_stops_the_run_before_anything_is_spent(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    result = run_gate(small(request_), store)
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 20)
    assert machine.done == []
    record = result.decision
    assert {reason["code"] for reason in record["reasons"]} == {"UNDERPOWERED"}
    figures = {reason["metric"]: reason["figures"] for reason in record["reasons"]}
    assert set(figures) == {"tool_call_correct", "free_of_degeneration"}
    # 30 scenarios of three turns count as 30 turns while nothing flips: 1 - 0.05^(1/30) = 9.5 %; a margin of 2 %
    # needs ln 0.05 / ln 0.98 = 148.3 of them, 445 turns.
    assert figures["tool_call_correct"]["detectable"] == pytest.approx(0.095034, abs=1e-6)
    assert figures["tool_call_correct"]["needed"] == 445
    assert (record["candidate"]["digest"], record["candidate"]["weight_bytes"]) == (None, None)
    assert record["accounting"] == {"turns": 0, "baseline_scored": 0, "candidate_scored": 0}
    assert {path.name for path in result.directory.iterdir()} == {
        *("decision.json", "flips.jsonl", "report.html", "summary.txt", "summary.md", "evidence.tar.zst", "run.json"),
        *("review.md", "junit.xml"),
    }
    shown = " ".join((result.directory / "summary.txt").read_text(encoding="utf-8").split())
    assert "445 turns are needed" in shown
    assert "nothing was measured" in shown


@pytest.fixture
def plan(signals: None, store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[Request], int | str | None]:
    """The exit code of ``quant-gate plan`` for a request, on a terminal of 80 columns."""
    monkeypatch.setenv("QUANT_GATE_HOME", str(store.root))
    monkeypatch.setenv("COLUMNS", "80")

    def planned(request: Request) -> int | str | None:
        words = ["plan", "--model", request.model, "--golden", request.golden, "--policy", str(request.policy)]
        monkeypatch.setattr("sys.argv", ["quant-gate", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code

    return planned


def test_plan_says_what_the_set_can_decide_and_starts_nothing(
    machine: FakeMachine,
    request_: Request,
    plan: Callable[[Request], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.hooks["resolve"] = lambda: pytest.fail("the model was looked for")
    assert plan(request_) == 0
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if line.startswith("tool_call_correct")]
    # 90 turns in 30 scenarios; without a flip they count as 30: 1 - 0.05^(1/30) = 9.5 % at best
    assert row.split() == ["tool_call_correct", "90", "30", "2.0", "%", "9.5", "%", "10.0", "%", "86", "enough"]
    assert "Every gating metric can be decided" in shown
    assert plan(small(request_)) == 20
    shown = capsys.readouterr().out
    assert "too few" in shown
    assert "a run would stop at once, INCONCLUSIVE" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("tasks", "code", "said"),
    [
        ("{reading: {margin: 0.05}, json: {margin: 0.01, gating: false}}", 0, "Every gating metric can be decided"),
        # 120 items, no flip: 1 - 0.05^(1/120) = 2.5 % at best
        ("{reading: {margin: 0.02}}", 20, "Too few items for general.reading"),
    ],
)
def test_plan_counts_the_items_of_general_tasks(
    request_: Request,
    plan: Callable[[Request], int],
    capsys: pytest.CaptureFixture[str],
    tasks: str,
    code: int,
    said: str,
) -> None:
    assert request_.policy is not None
    section = f"general: {{suite: own, tasks: {tasks}}}\n"
    request_.policy.write_text(section + request_.policy.read_text(encoding="utf-8"), encoding="utf-8")
    assert plan(request_) == code
    shown = capsys.readouterr().out
    assert "general.reading 120 120" in " ".join(shown.split())
    assert said in " ".join(shown.split())


def test_plan_names_general_tasks_whose_items_are_a_hubs(
    request_: Request, plan: Callable[[Request], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert request_.policy is not None
    section = "general: {suite: standard, tasks: {gsm8k: {margin: 0.05}}}\n"
    request_.policy.write_text(section + request_.policy.read_text(encoding="utf-8"), encoding="utf-8")
    assert plan(request_) == 0
    assert "Not planned" in (shown := " ".join(capsys.readouterr().out.split())) and "general.gsm8k" in shown


def test_plan_takes_the_noise_of_the_last_run_where_it_is_higher(
    machine: FakeMachine,
    request_: Request,
    store: Store,
    plan: Callable[[Request], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.repeat = lambda number: number > 2  # 3 of 90 turns
    run_gate(request_, store)
    plan(request_)
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if " % " in line}
    assert "3.3 %" in rows["tool_call_correct"]
    assert "2.0 %" in rows["free_of_degeneration"]


def test_exploring_goes_on_and_never_accepts(machine: FakeMachine, request_: Request, store: Store) -> None:
    result = run_gate(replace(small(request_), explore=True), store)
    assert "end candidate" in machine.done
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 20)
    assert reason(result.decision, "EXPLORATORY")["figures"] == {
        "underpowered": "tool_call_correct, free_of_degeneration"
    }


def test_exploring_a_set_that_could_decide_does_not_accept_either(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    result = run_gate(replace(request_, explore=True), store)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [reason["code"] for reason in result.decision["reasons"]] == ["EXPLORATORY"]
    assert all(row["verdict"] == "ACCEPT" for row in result.decision["metrics"] if row["gating"])


def test_exploring_rejects_what_is_proved_bad(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = CASES[Verdict.REJECT]["candidate"]
    assert run_gate(replace(request_, explore=True), store).exit_code == 10


# --- keeping and reusing -----------------------------------------------------------------------


def test_a_second_run_does_nothing_again_and_says_the_same(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    first = run_gate(request_, store)
    assert sorted(machine.done) == ALL_WORK
    machine.done.clear()
    heard: list[str] = []

    class Heard(Silent):
        def say(self, stage: str, text: str) -> None:
            heard.append(text)

    second = run(request_, store, Heard())
    assert machine.done == []
    assert len(heard) == 10  # quantize, inspect, three replays and their evaluations, decide, report
    assert all(text.startswith("reused") for text in heard)
    assert first.directory != second.directory
    for name in ("decision.json", "flips.jsonl", "report.html"):
        assert (first.directory / name).read_bytes() == (second.directory / name).read_bytes()


def test_the_same_run_elsewhere_differs_only_by_its_times(
    machine: FakeMachine, request_: Request, tmp_path: Path
) -> None:
    machine.candidate = CASES[Verdict.REJECT]["candidate"]
    one, other = (run_gate(request_, Store(tmp_path / name)) for name in ("one", "other"))
    assert without_times(one.directory / "decision.json") == without_times(other.directory / "decision.json")
    assert (one.directory / "flips.jsonl").read_bytes() == (other.directory / "flips.jsonl").read_bytes()


def test_another_policy_decides_anew_but_serves_nothing(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = CASES[Verdict.INCONCLUSIVE]["candidate"]
    assert run_gate(request_, store).verdict is Verdict.INCONCLUSIVE
    machine.done.clear()
    assert request_.policy is not None
    request_.policy.write_text(request_.policy.read_text("utf-8").replace("margin: 0.1", "margin: 0.3"), "utf-8")
    assert run_gate(request_, store).verdict is Verdict.ACCEPT
    assert machine.done == []


def test_latest_points_at_the_newest_run(machine: FakeMachine, request_: Request, store: Store) -> None:
    latest = store.root / "runs" / "latest"
    for _ in range(3):
        result = run_gate(request_, store)
        assert latest.resolve() == result.directory
    assert sorted(path.name for path in latest.parent.iterdir() if path.name.startswith(".")) == []
    assert len(list(latest.parent.iterdir())) == 4


def test_two_runs_at_once_share_the_work_and_keep_their_own_records(
    machine: FakeMachine, request_: Request, store: Store
) -> None:
    together = threading.Barrier(2)

    def start(_: int) -> RunResult:
        together.wait(60)
        return run_gate(request_, store)

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(start, range(2))
    assert (first.verdict, second.verdict) == (Verdict.ACCEPT, Verdict.ACCEPT)
    assert sorted(machine.done) == ALL_WORK
    assert first.directory != second.directory
    assert all((result.directory / "report.html").exists() for result in (first, second))


def test_a_damaged_record_is_never_a_verdict(machine: FakeMachine, request_: Request, store: Store) -> None:
    machine.candidate = CASES[Verdict.REJECT]["candidate"]
    run_gate(request_, store)
    (kept,) = (store.root / "stages" / "decide").glob("*/decision.json")
    kept.write_text(kept.read_text("utf-8").replace('"verdict": "REJECT"', '"verdict": "ACCEPT"'), encoding="utf-8")
    with pytest.raises(StageError):
        run_gate(request_, store)


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
        run_gate(Request(**{"golden": golden, **changes}), store)
    assert not store.root.exists()


def test_an_unknown_model_leaves_no_tracking_run(
    machine: FakeMachine, request_: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> None:
        raise ModelError("no such model", "give another")

    machine.hooks["resolve"] = unknown
    monkeypatch.setattr(runner.Tracker, "start", lambda *arguments: pytest.fail("a run was begun"))
    with pytest.raises(ModelError):
        run_gate(request_, store)


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

    monkeypatch.setattr(gate.resolve, "run", note)
    _ = Gate(Request(golden=request_.golden, serving=str(serving)), store, Silent()).baseline
    assert given[-1] == gate.PROJECT_ROOT / "templates" / "mine.jinja"


# --- requests and records ----------------------------------------------------------------------


def test_the_command_repeats_the_request() -> None:
    assert Request().command == "quant-gate run --model demo --recipe fp8-dynamic"
    request = Request("a model", "./mine.yaml", "sets/x", "gpu", Path("strict gate.yaml"))
    assert shlex.split(request.command) == [
        *("quant-gate", "run", "--model", "a model", "--recipe", "./mine.yaml"),
        *("--golden", "sets/x", "--serving", "gpu", "--policy", "strict gate.yaml"),
    ]
    assert Request(explore=True).command == f"{Request().command} --explore"


def test_the_embedded_models_have_a_policy_of_their_own(machine: FakeMachine, request_: Request, store: Store) -> None:
    def margin(request: Request) -> float:
        return Gate(request, store, Silent()).policy.metrics["tool_call_correct"].margin

    assert margin(Request("demo", golden=request_.golden)) == 0.06
    assert margin(Request("some/model", golden=request_.golden)) == 0.015
    assert margin(Request("demo", golden=request_.golden, policy=request_.policy)) == 0.1


def test_a_policy_may_ask_for_a_sample(machine: FakeMachine, request_: Request, store: Store) -> None:
    assert request_.policy is not None
    request_.policy.write_text("sample: {turns: 70}\n" + request_.policy.read_text("utf-8"), encoding="utf-8")
    golden = Gate(request_, store, Silent()).golden
    assert (golden.scenarios, len(golden.turns)) == (24, 72)  # whole scenarios, of three turns each


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
    assert runs.slug(text) == expected


def test_half_a_copied_record_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    output.mkdir()
    (output / "decision.json").write_text("{}")

    def full(source: Path, target: Path) -> None:
        target.write_text("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs.shutil, "copy2", full)
    store = Store(tmp_path / "home")
    with pytest.raises(OSError, match="No space left"):
        runs.keep(store, "name", output)
    assert list((store.root / "runs").iterdir()) == []


def test_a_record_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill in the middle would leave it."""
    output = tmp_path / "output"
    output.mkdir()
    (output / "decision.json").write_text("{}")
    (output / "report.html").write_text("")
    store = Store(tmp_path / "home")
    seen, copy, link = [], runs.shutil.copy2, Path.symlink_to

    def names() -> list[str]:
        return sorted(path.name for path in (store.root / "runs" / "name").iterdir())

    def copying(source: Path, target: Path) -> None:
        copy(source, target)
        seen.append(names())

    def linking(path: Path, target: str) -> None:
        link(path, target)
        seen.append(names())

    monkeypatch.setattr(runs.shutil, "copy2", copying)
    monkeypatch.setattr(Path, "symlink_to", linking)
    runs.keep(store, "name", output, run=runs.KeptRun("m", "r", "c", None, "e", None))
    assert seen == [[], [], ["decision.json", "report.html", "run.json"]]
    assert (store.root / "runs" / "latest" / "run.json").is_file()
