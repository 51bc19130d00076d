"""The ladder: what is measured, what is skipped, which candidate is chosen, and how it all ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, Answer, FakeMachine, always, write_golden, write_policy
from typer.testing import CliRunner

from pipeline import cli
from pipeline.digests import digest_of
from pipeline.errors import (
    GoldenSetError,
    QuantizeError,
    RecipeError,
    ServerError,
    SettingsError,
    UsageError,
    Verdict,
)
from pipeline.ladder import LadderResult, climb, default_ladder, steps
from pipeline.ladder.steps import error_bound
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.reporting.ladder.facts import LadderRecord, judgement_of
from pipeline.request import Request
from pipeline.settings import (
    CONFIGS,
    GateSettings,
    GeneralPolicy,
    LadderSettings,
    MetricPolicy,
    Recipe,
    load_recipe,
    load_settings,
)
from pipeline.stages import quantize
from pipeline.store import StageOutput, Store
from pipeline.tracking import Tracker

# With 90 turns in 30 scenarios and a margin of 10 points, as in the tests of the runner.
UNDECIDED: Answer = lambda number: number not in range(0, 27, 3)  # noqa: E731 - a table of answers
BAD: Answer = lambda number: number % 2 > 0  # noqa: E731
BYTES = {"fp8-dynamic": 600, "int8-w8a8": 602, "int4-gptq": 400, "int4-awq": 402, "int4-rtn": 399}
"""Weights of the fake candidates; the baseline has 1000 bytes."""


class FakeLadder(FakeMachine):
    """A machine whose candidates answer each in its own way; ``broken`` recipes raise what is given."""

    def __init__(self, **answers: Answer) -> None:
        super().__init__()
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.later: dict[str, Answer] = {}
        """Answers on the set that confirms."""
        self.broken: dict[str, BaseException] = {}
        self.made: list[str] = []
        self.recipes: dict[str, str] = {}
        """Recipe of each candidate by its digest."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().install(monkeypatch)
        monkeypatch.setattr(steps, "fit_recipe", self.fit)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)

    def fit(self, recipe: Recipe, checkpoint: Checkpoint) -> SimpleNamespace:
        if recipe.name not in BYTES:
            raise RecipeError(f"recipe {recipe.name}: does not fit", "Use another.")
        return SimpleNamespace(predicted_bytes=BYTES[recipe.name])

    def quantize(
        self, store: Store, checkpoint: Checkpoint, recipe: Recipe, *more: Any, **named: Any
    ) -> tuple[StageOutput, Checkpoint]:
        self.made.append(recipe.name)
        if error := self.broken.get(recipe.name):
            raise error
        self.saved = 1 - BYTES[recipe.name] / checkpoint.weight_bytes
        self.candidate_name = recipe.name
        output, candidate = super().quantize(store, checkpoint, recipe, *more, **named)
        self.recipes[candidate.digest] = recipe.name
        return output, candidate

    def replay(self, store: Store, **named: Any) -> tuple[StageOutput, ...]:
        answers = self.later if "second" in str(named["golden"].root) else self.answers
        if recipe := self.recipes.get(named["checkpoint_digest"]):
            self.candidate = answers.get(recipe, always)
        return super().replay(store, **named)


Climb = Callable[..., LadderResult]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_golden(tmp_path_factory.mktemp("sets") / "orders"))


@pytest.fixture
def climbing(golden: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Climb:
    """Climbs a ladder of these recipes on a fake machine."""
    policy = write_policy(tmp_path / "gate.yaml")
    text = policy.read_text(encoding="utf-8")

    def climb_(
        machine: FakeLadder,
        *recipes: str,
        everything: bool = False,
        confirm: str = "null",
        margin: float = 0.1,
        combined: bool = False,
    ) -> LadderResult:
        machine.install(monkeypatch)
        policy.write_text(text.replace("margin: 0.1", f"margin: {margin}"), encoding="utf-8")
        file = tmp_path / "ladder.yaml"
        file.write_text(f"candidates: [{', '.join(recipes)}]\nconfirm: {confirm}\n", encoding="utf-8")
        request = Request(model="some/model", golden=golden, policy=policy, combined=combined)
        return climb(request, file, store, Silent(), measure_all=everything)

    return climb_


def quantize_key(recipe: str, baseline: str) -> str:
    """The key of a fake candidate's stage output."""
    return digest_of({"checkpoint": baseline, "recipe": recipe})[:16]


def states(record: LadderRecord) -> dict[str, str]:
    """Verdict or state by recipe."""
    return {c.recipe: c.verdict.value if c.judgement and c.verdict else c.state.value for c in record.candidates}


# --- which candidates are measured, and which one is chosen -------------------------------------


def test_the_smallest_that_passes_is_chosen_and_what_is_not_smaller_is_skipped(climbing: Climb) -> None:
    machine = FakeLadder()
    record = climbing(machine, "fp8-dynamic", "int8-w8a8", "int4-awq", "int4-gptq").record
    assert (record.verdict, record.exit_code, record.chosen) == (Verdict.ACCEPT, 0, "int4-awq")
    assert machine.made == ["fp8-dynamic", "int4-awq"]
    assert states(record) == {
        "fp8-dynamic": "ACCEPT",
        "int8-w8a8": "skipped",  # 602 bytes, not 1 % below 600
        "int4-awq": "ACCEPT",
        "int4-gptq": "skipped",  # 400 bytes, not 1 % below 402
    }
    assert "not smaller than int4-awq" in record.candidates[3].note


def test_all_measures_every_candidate(climbing: Climb) -> None:
    machine = FakeLadder(int4_gptq=BAD)
    record = climbing(machine, "fp8-dynamic", "int8-w8a8", "int4-gptq", "int4-awq", everything=True).record
    assert machine.made == ["fp8-dynamic", "int8-w8a8", "int4-gptq", "int4-awq"]
    assert (record.chosen, record.verdict) == ("int4-awq", Verdict.ACCEPT)
    assert states(record)["int4-gptq"] == "REJECT"


def test_after_a_reject_the_next_one_is_tried(climbing: Climb) -> None:
    machine = FakeLadder(int4_awq=BAD, int4_gptq=UNDECIDED)
    record = climbing(machine, "fp8-dynamic", "int4-awq", "int4-gptq", "int4-rtn").record
    assert machine.made == ["fp8-dynamic", "int4-awq", "int4-gptq", "int4-rtn"]
    assert record.chosen == "int4-rtn"


def test_the_baseline_is_measured_once(climbing: Climb) -> None:
    machine = FakeLadder()
    climbing(machine, "fp8-dynamic", "int4-awq", "int4-rtn", everything=True)
    assert machine.done.count("start baseline") == machine.done.count("start repeat") == 1
    assert machine.done.count("start candidate") == 3


def test_a_second_ladder_reuses_everything_and_says_the_same(climbing: Climb) -> None:
    machine = FakeLadder(int4_awq=BAD)
    first = climbing(machine, "fp8-dynamic", "int4-awq").record
    machine.done.clear()
    second = climbing(machine, "fp8-dynamic", "int4-awq").record
    assert machine.done == []
    assert states(first) == states(second)
    assert first.chosen == second.chosen == "fp8-dynamic"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"fp8_dynamic": BAD, "int4_awq": UNDECIDED}, Verdict.INCONCLUSIVE),
        ({"fp8_dynamic": UNDECIDED, "int4_awq": BAD}, Verdict.INCONCLUSIVE),
        ({"fp8_dynamic": BAD, "int4_awq": BAD}, Verdict.REJECT),
    ],
)
def test_without_a_choice_the_verdict_is_the_nearest_to_accept(
    answers: dict[str, Answer], expected: Verdict, climbing: Climb
) -> None:
    record = climbing(FakeLadder(**answers), "fp8-dynamic", "int4-awq", "int4-autoawq").record  # the last does not fit
    assert (record.verdict, record.chosen, record.error) == (expected, None, None)
    assert record.exit_code == {Verdict.INCONCLUSIVE: 20, Verdict.REJECT: 10}[expected]


# --- what breaks -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [QuantizeError("out of memory", "Use a smaller one."), ZeroDivisionError("odd")])
def test_a_candidate_that_breaks_is_a_row_and_the_ladder_goes_on(error: Exception, climbing: Climb) -> None:
    machine = FakeLadder()
    machine.broken["int4-awq"] = error
    record = climbing(machine, "fp8-dynamic", "int4-awq", "int4-gptq").record
    assert states(record) == {"fp8-dynamic": "ACCEPT", "int4-awq": "failed", "int4-gptq": "ACCEPT"}
    assert str(error) in record.candidates[1].note
    assert record.chosen == "int4-gptq"


def test_a_recipe_that_does_not_fit_costs_nothing(climbing: Climb) -> None:
    machine = FakeLadder()
    record = climbing(machine, "int4-autoawq", "fp8-dynamic").record
    assert states(record) == {"int4-autoawq": "failed", "fp8-dynamic": "ACCEPT"}
    assert "does not fit Use another." in record.candidates[0].note
    assert machine.made == ["fp8-dynamic"]


def test_nothing_that_could_be_judged_is_invalid(climbing: Climb) -> None:
    machine = FakeLadder()
    machine.broken = {name: QuantizeError("broken") for name in BYTES}
    record = climbing(machine, "fp8-dynamic", "int4-awq").record
    assert (record.verdict, record.exit_code) == (Verdict.INVALID, 30)
    assert record.judgements == ()


def test_a_baseline_that_cannot_be_measured_ends_the_ladder(climbing: Climb, store: Store) -> None:
    machine = FakeLadder()

    def fail() -> None:
        raise ServerError("the engine does not start")

    machine.hooks["baseline"] = fail
    with pytest.raises(ServerError):
        climbing(machine, "fp8-dynamic", "int4-awq", "int4-gptq")
    assert "int4-awq" not in machine.made
    assert not (store.root / "runs").exists()


def test_serving_that_no_candidate_could_have_ends_the_ladder_before_any_is_made(
    climbing: Climb, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = FakeLadder()

    def fail() -> None:
        raise SettingsError("tensor_parallel_size is 2, but this machine serves on its CPU", "Set it to 1.")

    machine.hooks["plan"] = fail
    monkeypatch.setattr(Tracker, "start", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(SettingsError, match="tensor_parallel_size is 2"):
        climbing(machine, "fp8-dynamic", "int4-awq")
    assert machine.made == []


def test_an_engine_too_old_for_the_first_recipe_is_that_candidates_fault(
    climbing: Climb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BYTES, "own", 500)
    own = tmp_path / "own.yaml"
    own.write_text(
        "description: for an engine to come\nmethod: rtn\nscheme: FP8_DYNAMIC\n"
        "hardware: {compute_capability: 8.9, engine: 99.0.0}\n"
    )
    record = climbing(FakeLadder(), str(own), "fp8-dynamic").record
    assert states(record) == {"own": "failed", "fp8-dynamic": "ACCEPT"}
    assert "served from 99.0.0 on" in record.candidates[0].note


def test_weights_and_cache_at_once_need_a_word(climbing: Climb, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "cpu_flags", lambda: frozenset({"avx512f"}))  # a processor that could serve it
    monkeypatch.setitem(BYTES, "fp8-dynamic+fp8-kv", 500)
    machine = FakeLadder()
    machine.hooks["resolve"] = lambda: pytest.fail("work was done")
    with pytest.raises(UsageError, match=r"ladder\.yaml: fp8-dynamic\+fp8-kv: .* differ in 2 variables at once"):
        climbing(machine, "fp8-dynamic", "fp8-dynamic+fp8-kv")
    machine.hooks.clear()
    record = climbing(machine, "fp8-dynamic", "fp8-dynamic+fp8-kv", combined=True).record
    assert (record.chosen, "--combined" in record.command) == ("fp8-dynamic+fp8-kv", True)
    conditions = {}
    for judged in record.judgements:
        decision = json.loads((store.root / "runs" / judged.run / "decision.json").read_text(encoding="utf-8"))
        conditions[decision["candidate"]["recipe"]["name"]] = decision["conditions"]
    assert conditions["fp8-dynamic"] == []
    assert "no single one of them being judged" in conditions["fp8-dynamic+fp8-kv"][0]


@pytest.mark.parametrize("everything", [False, True])
def test_a_weak_baseline_ends_a_ladder_that_need_not_show_all(everything: bool, climbing: Climb) -> None:
    machine = FakeLadder()
    machine.baseline = lambda number: number < 6  # below its floor
    record = climbing(machine, "fp8-dynamic", "int4-awq", everything=everything).record
    assert (record.verdict, record.exit_code) == (Verdict.INVALID, 30)
    assert states(record) == {"fp8-dynamic": "INVALID", "int4-awq": "INVALID" if everything else "skipped"}
    if not everything:
        assert "no candidate can pass" in record.candidates[1].note


@pytest.mark.parametrize("everything", [False, True])
def test_a_set_too_small_ends_the_ladder_before_anything_is_spent(everything: bool, climbing: Climb) -> None:
    machine = FakeLadder()
    record = climbing(machine, "fp8-dynamic", "int4-awq", everything=everything, margin=0.02).record
    assert (record.verdict, record.exit_code) == (Verdict.INCONCLUSIVE, 20)
    assert states(record) == {"fp8-dynamic": "INCONCLUSIVE", "int4-awq": "skipped"}
    assert machine.done == []


# --- winning by luck ----------------------------------------------------------------------------


def test_the_error_of_an_unbroken_chain_is_that_of_one_test(climbing: Climb) -> None:
    error = climbing(FakeLadder(), "fp8-dynamic", "int4-awq").record.error
    assert error is not None
    assert (error.basis, error.candidates, error.alpha, error.bound) == ("fixed_sequence", 2, 0.05, 0.05)


def test_a_chain_with_a_failure_is_bounded_by_boole(climbing: Climb) -> None:
    error = climbing(FakeLadder(int4_awq=BAD), "fp8-dynamic", "int4-awq", "int4-gptq").record.error
    assert error is not None
    assert (error.basis, error.candidates, error.bound) == ("boole", 3, pytest.approx(0.15))


WIDE = 0.2
"""A margin that half of the set can prove: 15 scenarios without a flip rule out a loss of 1 - 0.05^(1/15) = 18.1 %."""


def test_a_choice_is_confirmed_on_the_other_half(climbing: Climb) -> None:
    record = climbing(FakeLadder(), "fp8-dynamic", "int4-awq", confirm="half", margin=WIDE).record
    choice = record.choice
    assert choice is not None and choice.judgement is not None and choice.confirmation is not None
    assert (choice.recipe, choice.confirmation.verdict, choice.judgement.turns) == ("int4-awq", Verdict.ACCEPT, 45)
    assert record.candidates[0].confirmation is None  # only the chosen one is measured again
    assert record.error is not None
    assert (record.error.basis, record.error.bound) == ("confirmed", pytest.approx(2 * 0.05 * 0.05))


def test_general_tasks_are_confirmed_by_no_second_set(climbing: Climb) -> None:
    record = climbing(FakeLadder(), "fp8-dynamic", "int4-awq", confirm="half", margin=WIDE).record
    assert record.chosen is not None
    candidates = {candidate.recipe: candidate for candidate in record.candidates}
    gated = GateSettings(
        metrics={"policy_adherence": MetricPolicy(margin=0.1)},
        general=GeneralPolicy(suite="own", tasks={"reading": MetricPolicy(margin=0.1)}),
    )
    error = error_bound(gated, candidates, record.chosen)
    assert error is not None and (error.basis, error.bound) == ("fixed_sequence", 0.05)
    explained = gated.model_copy(
        update={"general": GeneralPolicy(suite="own", tasks={"reading": MetricPolicy(margin=0.1, gating=False)})}
    )
    error = error_bound(explained, candidates, record.chosen)
    assert error is not None and (error.basis, error.bound) == ("confirmed", pytest.approx(2 * 0.05 * 0.05))


def test_one_that_is_not_confirmed_gives_way_to_the_next(climbing: Climb) -> None:
    machine = FakeLadder()
    machine.later = {"int4-awq": BAD}
    record = climbing(machine, "fp8-dynamic", "int4-awq", confirm="half", margin=WIDE).record
    assert record.chosen == "fp8-dynamic"
    assert states(record) == {"fp8-dynamic": "ACCEPT", "int4-awq": "REJECT"}


def test_none_that_is_confirmed_is_no_accept(climbing: Climb) -> None:
    machine = FakeLadder()
    machine.later = {"int4-awq": BAD, "fp8-dynamic": BAD}
    record = climbing(machine, "fp8-dynamic", "int4-awq", confirm="half", margin=WIDE).record
    assert (record.verdict, record.exit_code, record.chosen) == (Verdict.REJECT, 10, None)


def test_a_confirmation_that_breaks_is_no_accept(climbing: Climb, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeLadder()
    replay = machine.replay

    def fail(store: Store, **named: Any) -> Any:
        if "second" in str(named["golden"].root):
            raise ServerError("the engine died")
        return replay(store, **named)

    monkeypatch.setattr(machine, "replay", fail)
    record = climbing(machine, "fp8-dynamic", confirm="half", margin=WIDE).record
    assert (record.verdict, record.exit_code) == (Verdict.INVALID, 30)
    assert "the engine died" in str(record.candidates[0].confirmation)


def test_a_second_set_can_confirm(climbing: Climb, golden: str, tmp_path: Path) -> None:
    second = tmp_path / "second" / "transcripts"
    second.mkdir(parents=True)
    text = (Path(golden) / "transcripts" / "orders.jsonl").read_text(encoding="utf-8")
    (second / "orders.jsonl").write_text(text.replace("A-", "B-").replace("order-", "other-"), encoding="utf-8")
    record = climbing(FakeLadder(), "fp8-dynamic", confirm=str(second.parent)).record
    choice = record.choice
    assert choice is not None and choice.judgement is not None and choice.confirmation is not None
    assert (record.chosen, choice.judgement.turns, choice.confirmation.verdict) == ("fp8-dynamic", 90, Verdict.ACCEPT)


def test_a_set_cannot_confirm_itself(climbing: Climb, golden: str) -> None:
    machine = FakeLadder()
    with pytest.raises(GoldenSetError, match="90 of its turns ask what turns of orders ask"):
        climbing(machine, "fp8-dynamic", confirm=golden)
    assert machine.done == []


def test_a_set_too_small_to_confirm_is_refused_before_anything_is_spent(climbing: Climb) -> None:
    machine = FakeLadder()
    with pytest.raises(GoldenSetError, match="too small to confirm"):
        climbing(machine, "fp8-dynamic", confirm="half")  # 18.1 % against a margin of 10
    assert machine.done == []


# --- what is kept ------------------------------------------------------------------------------


def test_the_record_the_page_and_the_table_are_kept_beside_the_runs(climbing: Climb, store: Store) -> None:
    result = climbing(FakeLadder(int4_awq=BAD), "fp8-dynamic", "int4-awq")
    assert {path.name for path in result.directory.iterdir()} == {"ladder.json", "ladder.html", "ladder.md"}
    assert (store.root / "runs" / "latest").resolve() == result.directory
    text = (result.directory / "ladder.json").read_text(encoding="utf-8")
    assert LadderRecord.model_validate_json(text) == result.record
    page = (result.directory / "ladder.html").read_text(encoding="utf-8")
    for judged in result.record.judgements:
        decision = json.loads((store.root / "runs" / judged.run / "decision.json").read_text(encoding="utf-8"))
        assert decision["verdict"] == judged.verdict
        assert f'href="../{judged.run}/report.html"' in page
        assert (result.directory / ".." / judged.run / "report.html").is_file()


def test_the_figures_are_those_of_the_candidates_records(climbing: Climb, store: Store) -> None:
    record = climbing(FakeLadder(int4_awq=UNDECIDED), "fp8-dynamic", "int4-awq").record
    judged = record.candidates[1].judgement
    assert judged is not None
    decision = json.loads((store.root / "runs" / judged.run / "decision.json").read_text(encoding="utf-8"))
    worst = min((row["lower"] + row["margin"], row["metric"]) for row in decision["metrics"] if row["gating"])
    assert judged.worst is not None and judged.worst.headroom == pytest.approx(worst[0])
    assert (judged.worst.metric, judged.flips) == ("tool_call_correct", (9, 0))
    (made,) = (store.root / "stages" / "quantize").glob(
        f"{quantize_key('int4-awq', decision['baseline']['digest'])}/stage.json"
    )
    assert judged.quantize_s == round(json.loads(made.read_text(encoding="utf-8"))["seconds"], 1)
    assert (judged.drift, judged.speed) == (None, None)  # neither was measured
    decision["drift"] = {"rows": [{"group": "role", "mean": 0.5}, {"group": "all", "mean": 0.02}]}
    decision["resources"].append({"name": "throughput_at_slo", "change": 0.31})
    again = judgement_of(decision, "a-run", None)
    assert (again.drift, again.speed) == (0.02, pytest.approx(1.31))


# --- bad input, and the command line ------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipes", "error"),
    [
        (("fp8-dynamic", "int5"), RecipeError),
        (("fp8-dynamic", "fp8-dynamic"), SettingsError),
        ((), SettingsError),
    ],
)
def test_bad_ladders_are_found_before_any_work(
    recipes: tuple[str, ...], error: type[Exception], climbing: Climb, store: Store
) -> None:
    machine = FakeLadder()
    machine.hooks["resolve"] = lambda: pytest.fail("work was done")
    with pytest.raises(error):
        climbing(machine, *recipes)
    assert not store.root.exists()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("ladder*.yaml")), ids=lambda path: path.name)
def test_the_shipped_ladders_name_recipes_that_exist(path: Path) -> None:
    settings = load_settings(path, LadderSettings)
    assert [load_recipe(name).name for name in settings.candidates] == list(settings.candidates)
    assert settings.candidates[0] == "fp8-dynamic"


def test_only_the_demo_models_are_shown_a_bad_candidate() -> None:
    listed = {model: load_settings(default_ladder(model), LadderSettings).candidates for model in ("demo", "a/model")}
    assert "int4-rtn" in listed["demo"]
    assert "int4-rtn" not in listed["a/model"]


End = Callable[..., SimpleNamespace]


@pytest.fixture
def end(
    golden: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[End]:
    """Runs the whole command line on a fake machine: exit code, output and errors."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.setenv("QUANT_GATE_HOME", str(store.root))
    monkeypatch.setenv("COLUMNS", "80")
    policy = write_policy(tmp_path / "gate.yaml")
    file = tmp_path / "ladder.yaml"
    file.write_text("candidates: [fp8-dynamic, int4-awq]\n", encoding="utf-8")
    line = ["quant-gate", "ladder", "some/model", "--golden", golden, "--policy", str(policy), "--ladder", str(file)]

    def run(machine: FakeLadder, *words: str) -> SimpleNamespace:
        machine.install(monkeypatch)
        monkeypatch.setattr("sys.argv", [*line, *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        shown = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code, out=shown.out, err=shown.err, line=line)

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("answers", "code"),
    [({}, 0), ({"fp8_dynamic": BAD, "int4_awq": BAD}, 10), ({"fp8_dynamic": UNDECIDED, "int4_awq": BAD}, 20)],
)
def test_the_command_shows_the_table_and_ends_with_the_ladders_code(
    answers: dict[str, Answer], code: int, end: End
) -> None:
    done = end(FakeLadder(**answers))
    assert done.code == code
    assert done.out.startswith({0: "ACCEPT", 10: "REJECT", 20: "INCONCLUSIVE"}[code])
    assert max(len(line) for line in done.out.splitlines() if not line.startswith(("Page", "Sign", "Again"))) <= 80
    for recipe in ("fp8-dynamic", "int4-awq"):
        assert recipe in done.out
    again = next(line for line in done.out.splitlines() if line.startswith("Again"))
    program, *words = shlex.split(again)[1:]
    assert [Path(program).name, *words] == done.line
    assert (re.search(r"^Sign off +make signoff RUN=\S+int4-awq ", done.out, re.MULTILINE) is not None) == (code == 0)
    assert "replay" in done.err and "replay" not in done.out


@pytest.mark.parametrize("option", ["load", "combined"])
def test_load_and_two_changes_are_for_those_who_ask(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Request] = []

    def stop(request: Request, *rest: object, **named: object) -> None:
        given.append(request)
        raise SettingsError("seen", "")

    monkeypatch.setattr(cli, "climb", stop)
    monkeypatch.setattr(cli, "diagnose", stop)
    monkeypatch.setattr(cli, "Gate", stop)
    commands = [
        ["ladder", "demo"],
        ["diagnose", "--model", "demo"],
        *([["decide"], ["report"]] * (option == "combined")),
    ]
    for words in commands:
        CliRunner().invoke(cli.app, [*words, f"--{option}"])
        CliRunner().invoke(cli.app, words)
    asked = [(getattr(request, option), f"--{option}" in request.command) for request in given]
    assert asked == [(True, True), (False, False)] * len(commands)


def test_markdown_is_the_table_and_nothing_else(end: End) -> None:
    done = end(FakeLadder(), "--all", "--markdown")
    lines = done.out.splitlines()
    assert done.code == 0
    assert all(line.startswith("|") for line in lines)
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["BF16", "fp8-dynamic", "int4-awq"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_with_130_and_what_is_complete_is_reused(number: signal.Signals, end: End) -> None:
    machine = FakeLadder()
    machine.hooks["candidate"] = lambda: os.kill(os.getpid(), number) if "int4-awq" in machine.made else None
    done = end(machine)
    assert done.code == 130
    assert "what is complete is reused" in done.err
    machine.hooks.clear()
    machine.done.clear()
    assert end(machine).code == 0
    assert "start baseline" not in machine.done
    assert machine.done.count("start candidate") <= 1
