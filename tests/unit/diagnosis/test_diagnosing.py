"""A diagnosis from request to record, on a fake machine: gate, decision, proposal and reports are the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, Answer, FakeMachine, always, write_golden, write_policy

from pipeline import cli
from pipeline.diagnosis import DiagnosisResult, Wanted, diagnose, measure
from pipeline.errors import RecipeError, UsageError, Verdict
from pipeline.progress import Progress, Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.reporting.diagnosis.facts import DiagnosisRecord
from pipeline.reporting.diagnosis.table import diagnosis_markdown
from pipeline.request import Request
from pipeline.settings import Recipe, load_recipe
from pipeline.store import StageOutput, Store

BAD: Answer = lambda number: number % 2 > 0  # noqa: E731 - a table of answers
WORST = "model.layers.9.mlp.down_proj"


class Machine(FakeMachine):
    """Serves the tiny checkpoints; ``better`` is how a candidate answers that keeps :data:`WORST` at 8 bits."""

    def __init__(
        self,
        base: Checkpoint,
        made: Checkpoint,
        worker: Callable[..., dict[str, Any]],
        mended: Checkpoint | None = None,
    ) -> None:
        super().__init__(candidate=BAD)
        self.base, self.made, self.worker, self.mended = base, made, worker, mended or made
        self.better: Answer = always
        self.jobs: list[Mapping[str, Any]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().install(monkeypatch)
        monkeypatch.setattr(measure, "run_worker", self.measured)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)

    def resolve(self, *arguments: Any) -> Checkpoint:
        return self.base

    def quantize(
        self, store: Store, checkpoint: Checkpoint, recipe: Recipe, *more: Any
    ) -> tuple[StageOutput, Checkpoint]:
        kept = recipe.eight_bit and WORST in recipe.eight_bit.modules
        made = self.mended if kept else self.made
        return store.make("quantize", {"made": made.digest}, lambda directory: None), made

    def replay(self, store: Store, **named: Any) -> tuple[StageOutput, ...]:
        mended = named["checkpoint_digest"] == self.mended.digest != self.made.digest
        self.candidate = self.better if mended else BAD
        return super().replay(store, **named)

    def measured(self, script: str, job: Mapping[str, Any], **named: Any) -> dict[str, Any]:
        self.jobs.append(job)
        asked = [json.loads(line) for line in Path(job["turns"]).read_text(encoding="utf-8").splitlines()]
        found = self.worker([part["name"] for part in job["parts"]], [turn["id"] for turn in asked])
        return dict(json.loads(json.dumps(found)))


def one_guilty(parts: list[str], turns: list[str]) -> dict[str, Any]:
    """The worker's result where one part causes all but a hundredth of the drift."""
    high, low = [[0.99, False]] * len(turns), [[0.01 / (len(parts) - 1), True]] * len(turns)
    return {
        "turns": dict.fromkeys(turns, 9),
        "tokens": 100,
        "agreement": 1.0,
        "device": "cpu",
        "whole": [[1.0, False]] * len(turns),
        "goal": 0.25,
        "keeps_kv": False,
        "alone": {part: high if part == WORST else low for part in parts},
        "order": [WORST, *(part for part in parts if part != WORST)],
        "level": dict.fromkeys(parts, "W8A8"),
        "count": 1,
        "curve": {0: [[1.0, False]] * len(turns), 1: [[0.02, True]] * len(turns)},
    }


def all_guilty(parts: list[str], turns: list[str]) -> dict[str, Any]:
    found = one_guilty(parts, turns)
    return found | {"count": len(parts), "curve": found["curve"] | {len(parts): [[0.02, True]] * len(turns)}}


def nothing_helps(parts: list[str], turns: list[str]) -> dict[str, Any]:
    return one_guilty(parts, turns) | {"count": None}


Diagnose = Callable[..., DiagnosisResult]


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    golden, policy = write_golden(tmp_path / "orders"), write_policy(tmp_path / "gate.yaml")
    return Request("some/model", "int4-rtn", str(golden), policy=policy)


@pytest.fixture
def diagnosing(store: Store, request_: Request, monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    def diagnose_(machine: Machine, progress: Progress | None = None, **wanted: Any) -> DiagnosisResult:
        machine.install(monkeypatch)
        return diagnose(request_, Wanted(**wanted), store, progress or Silent())

    return diagnose_


def test_a_rejected_candidate_gets_a_recipe_that_keeps_the_guilty_part(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint
) -> None:
    machine = Machine(baseline, candidate, one_guilty)
    result = diagnosing(machine, turns=5)
    record = result.record
    assert (record.verdict, result.exit_code) == (Verdict.REJECT, 10)
    assert (record.lost, len(record.turns)) == (45, 5)  # every other of 90 turns
    assert record.worst[0].name == WORST and record.worst[0].alone.drift == pytest.approx(0.99)
    assert [part.name for part in record.promoted] == [WORST]
    assert record.proposal is not None
    recipe = load_recipe(str(result.directory / record.proposal.file))
    assert recipe.eight_bit is not None and WORST in recipe.eight_bit.modules
    assert record.proposal.weight_bytes == fit_recipe(recipe, baseline).predicted_bytes
    # The topic that the author gave, and what the turn demands.
    assert [(row.slice, row.lost, row.worst_part) for row in record.slices] == [
        ("orders", 45, WORST),
        ("tool_calls", 45, WORST),
    ]
    assert DiagnosisRecord.model_validate_json((result.directory / "diagnosis.json").read_text()) == record
    assert (result.directory / "diagnosis.md").read_text() == diagnosis_markdown(record)
    page = (result.directory / "diagnosis.html").read_text()
    assert page.count(WORST) > 3 and "<script" not in page
    assert result.notes and "Not recorded in MLflow" in result.notes[0]
    assert machine.jobs[0]["layers"] == [f"model.layers.{n}" for n in range(11)]


def test_what_was_measured_is_reused(diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint) -> None:
    machine = Machine(baseline, candidate, one_guilty)
    first, second = diagnosing(machine), diagnosing(machine)
    assert len(machine.jobs) == 1
    assert first.record == second.record and first.directory != second.directory


def test_run_gates_the_proposal_and_exits_with_its_verdict(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint, mended: Checkpoint
) -> None:
    result = diagnosing(Machine(baseline, candidate, one_guilty, mended), run=True)
    tried = result.record.tried
    assert tried is not None and (tried.verdict, result.exit_code) == (Verdict.ACCEPT, 0)
    assert (result.directory.parent / tried.run / "decision.json").is_file()
    assert tried.run in (result.directory / "diagnosis.html").read_text()
    assert result.record.command.endswith(" --run")


def test_a_proposal_that_is_rejected_too_is_no_success(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint, mended: Checkpoint
) -> None:
    machine = Machine(baseline, candidate, one_guilty, mended)
    machine.better = BAD
    assert diagnosing(machine, run=True).exit_code == 10


def test_where_nothing_helps_no_recipe_is_written(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint
) -> None:
    result = diagnosing(Machine(baseline, candidate, nothing_helps), run=True)
    assert result.record.proposal is None and result.record.tried is None
    assert "8-bit recipe" in result.record.no_proposal
    assert not list(result.directory.glob("*.yaml"))
    assert result.exit_code == 10


def test_a_proposal_as_large_as_eight_bits_for_all_is_not_made(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint
) -> None:
    result = diagnosing(Machine(baseline, candidate, all_guilty))
    assert result.record.proposal is None
    # By hand, a layer at INT8: 36,864 weights, 512 scales of 2 bytes, a norm of 64 x 2; 11 of them; embeddings of 48 x
    # 64 x 2.
    assert f"a simpler build takes {11 * (36864 + 1024 + 128) + 6144:,}" in result.record.no_proposal


def test_a_run_that_lost_nothing_has_nothing_to_diagnose(
    diagnosing: Diagnose, baseline: Checkpoint, candidate: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.BAD", always)
    with pytest.raises(UsageError, match="lost no turn"):
        diagnosing(Machine(baseline, candidate, one_guilty))


def test_what_cannot_be_taken_apart_is_refused_at_once(
    store: Store, request_: Request, baseline: Checkpoint, candidate: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(baseline, candidate, one_guilty)
    machine.install(monkeypatch)
    request = Request("some/model", "int4-autoawq", request_.golden, policy=request_.policy)
    with pytest.raises(RecipeError, match="llm-compressor"):
        diagnose(request, Wanted(), store, Silent())
    assert machine.done == []


def test_the_command_line_shows_it_in_80_columns(
    request_: Request,
    baseline: Checkpoint,
    candidate: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Machine(baseline, candidate, one_guilty).install(monkeypatch)
    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    words = ["diagnose", "-m", "some/model", "-r", "int4-rtn", "-g", request_.golden, "-p", str(request_.policy)]
    with pytest.raises(SystemExit) as ended:
        cli.app([*words, "--turns", "3"])
    assert ended.value.code == 10
    out = capsys.readouterr().out
    assert WORST in out and "int4-rtn-next" in out and "3 of 45 lost turns" in " ".join(out.split())
    places = ("Recipe", "Page", "Again", "MLflow")
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith(places))
