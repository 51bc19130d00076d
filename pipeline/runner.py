"""The whole gate: which stage needs which, what may run at the same time, and what is kept of a run."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import shlex
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pipeline import golden as golden_sets
from pipeline.errors import GoldenSetError, ReplayError, Verdict
from pipeline.evidence.record import BaselineFacts, CandidateFacts, RecordContext, read_decision
from pipeline.golden import GoldenSet
from pipeline.processes import supervised
from pipeline.progress import Progress
from pipeline.quantizers import embedded
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.reporting import RunFacts
from pipeline.serving.plan import EnginePlan, can_overlap, make_plan
from pipeline.serving.records import prompt_mismatches, read_records
from pipeline.settings import (
    CONFIGS,
    PROJECT_ROOT,
    GateSettings,
    Recipe,
    ServingSettings,
    load_gate,
    load_recipe,
    load_serving,
)
from pipeline.stages import decide, evaluate, quantize, report, resolve, serve_replay
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, Tracker, download_model_uri

Side = Literal["baseline", "candidate"]
Result = TypeVar("Result")
CALIBRATION = PROJECT_ROOT / "golden_sets" / "calibration"
SIGNAL_S = 0.5
"""Seconds after which a waiting main thread looks for signals."""
SUPPORT = PROJECT_ROOT / "golden_sets" / "support"


@dataclass(frozen=True, slots=True)
class Request:
    """What to gate, as the user gave it: names or paths."""

    model: str = "demo"
    recipe: str = "fp8-dynamic"
    golden: str = str(SUPPORT)
    serving: str = "default"
    policy: Path | None = None

    @property
    def command(self) -> str:
        """The shell command that repeats this run."""
        default = Request()
        words = ["quant-gate", "run", "--model", self.model, "--recipe", self.recipe]
        if self.golden != default.golden:
            words += ["--golden", self.golden]
        if self.serving != default.serving:
            words += ["--serving", self.serving]
        if self.policy is not None:
            words += ["--policy", str(self.policy)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to. ``directory`` holds copies of the decision record and the reports."""

    verdict: Verdict
    exit_code: int
    decision: dict[str, Any]
    facts: RunFacts
    directory: Path


def default_policy(model: str) -> Path:
    """The decision policy of a request that names none: the embedded models are for a quick tour."""
    return CONFIGS / ("gate-demo.yaml" if model in embedded.NAMES else "gate.yaml")


class Gate:
    """The stages for one request, each made (or reused) when first asked for.

    Settings and golden set are read when the gate is built, so that bad input is found before any work.
    """

    def __init__(self, request: Request, store: Store, progress: Progress, tracker: Tracker | None = None) -> None:
        self.request = request
        self.store = store
        self.progress = progress
        self.tracker = tracker
        self.policy: GateSettings = load_gate(request.policy or default_policy(request.model))
        self.recipe: Recipe = load_recipe(request.recipe)
        self.serving: ServingSettings = load_serving(request.serving)
        self.golden: GoldenSet = golden_sets.load(request.golden)
        if self.policy.scenarios is not None:
            self.golden = golden_sets.select(self.golden, self.policy.scenarios)
        if not self.golden.turns:
            raise GoldenSetError(f"{request.golden}: no checkpointed turn", "Add `expect` to the turns to score.")
        self._replies: dict[Side, StageOutput] = {}
        self._baseline_replayed = threading.Event()

    # --- stages --------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> EnginePlan:
        """How the engine is started, the same for both sides."""
        return make_plan(self.serving, self.store)

    @cached_property
    def baseline(self) -> Checkpoint:
        """The BF16 checkpoint."""
        template = PROJECT_ROOT / self.serving.chat_template if self.serving.chat_template else None
        return self._staged(
            "resolve",
            lambda run: resolve.run(self.store, self.request.model, self.progress, download_model_uri, template),
        )

    @cached_property
    def candidate(self) -> Checkpoint:
        """The quantized checkpoint."""

        def work(run: StageRun | None) -> Checkpoint:
            output, checkpoint = quantize.run(self.store, self.baseline, self.recipe, CALIBRATION, self.progress)
            self._note(run, output)
            return checkpoint

        return self._staged("quantize", work)

    def replies(self, side: Side) -> StageOutput:
        """Replies of one side to every turn."""
        if side not in self._replies:
            checkpoint = self.baseline if side == "baseline" else self.candidate

            def work(run: StageRun | None) -> StageOutput:
                output = serve_replay.run(
                    self.store,
                    checkpoint_path=checkpoint.path,
                    checkpoint_digest=checkpoint.digest,
                    golden=self.golden,
                    plan=self.plan,
                    sampling=self.policy.sampling,
                    replay_settings=self.policy.replay,
                    progress=self.progress,
                    label=f"replay {side}",
                )
                self._note(run, output, "server.log", "engine.json", side=side)
                return output

            self._replies[side] = self._staged(f"replay {side}", work)
        return self._replies[side]

    def outcomes(self, side: Side) -> StageOutput:
        """Outcomes of one side."""
        replies = self.replies(side)

        def work(run: StageRun | None) -> StageOutput:
            output = evaluate.run(self.store, self.golden, replies.path, replies.key, side, self.progress)
            self._note(run, output, "outcomes_summary.json", side=side)
            return output

        return self._staged(f"evaluate {side}", work)

    @cached_property
    def decision(self) -> StageOutput:
        """Decision record and flips."""
        baseline, candidate = self.outcomes("baseline"), self.outcomes("candidate")
        self._demand_equal_prompts()
        context = RecordContext(
            baseline=BaselineFacts(
                self.baseline.source, self.baseline.revision, self.baseline.digest, self.baseline.weight_bytes
            ),
            candidate=CandidateFacts(
                self.candidate.digest, self.candidate.weight_bytes, self.recipe.model_dump(mode="json")
            ),
            engine=self.plan.facts(),
            inputs={
                "baseline_replies": self.replies("baseline").key,
                "candidate_replies": self.replies("candidate").key,
            },
            times={"decided": datetime.now(UTC).isoformat(timespec="seconds")},
        )

        def work(run: StageRun | None) -> StageOutput:
            output = decide.run(
                self.store,
                golden=self.golden,
                baseline_outcomes_path=baseline.path / "outcomes.jsonl",
                candidate_outcomes_path=candidate.path / "outcomes.jsonl",
                policy=self.policy,
                context=context,
            )
            self._note(run, output, "decision.json")
            return output

        return self._staged("decide", work)

    @cached_property
    def report(self) -> StageOutput:
        """HTML report and summaries."""

        def work(run: StageRun | None) -> StageOutput:
            output = report.run(
                self.store,
                decision_dir=self.decision.path,
                golden=self.golden,
                baseline_replies_path=self.replies("baseline").path / "replies.jsonl",
                candidate_replies_path=self.replies("candidate").path / "replies.jsonl",
                run_facts=RunFacts(self.request.model, self.request.recipe, self.request.command),
            )
            self._note(run, output)
            return output

        return self._staged("report", work)

    # --- all of them ---------------------------------------------------------------------------

    def measure(self) -> None:
        """Quantize, serve and replay, with what can overlap overlapping.

        The baseline is replayed while the candidate is quantized; the candidate's server starts at once when
        memory allows two servers, else when the baseline's has stopped.
        """
        _ = self.baseline, self.plan
        # When one side fails the other is of no use any more; what it has is kept.
        with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="gate") as pool, supervised(pool):
            sides = [pool.submit(self._measure_baseline), pool.submit(self._measure_candidate)]
            pending = set(sides)
            while pending:
                # With a time limit: a signal that another thread receives is handled only when this one wakes.
                done, pending = concurrent.futures.wait(pending, SIGNAL_S, concurrent.futures.FIRST_COMPLETED)
                for side in done:
                    side.result()

    def _measure_baseline(self) -> None:
        try:
            self.replies("baseline")
        finally:
            self._baseline_replayed.set()

    def _measure_candidate(self) -> None:
        weight_bytes = self.candidate.weight_bytes  # quantizes
        if not can_overlap(self.plan, max(weight_bytes, self.baseline.weight_bytes)):
            self._baseline_replayed.wait()
        self.replies("candidate")

    def _demand_equal_prompts(self) -> None:
        """Both sides must have read the same tokens, or they were not given the same task.

        :raises ReplayError: another template or tokenizer on one side.
        """
        first, second = (read_records(self.replies(side).path / "replies.jsonl") for side in get_args(Side))
        if differing := prompt_mismatches(first, second):
            raise ReplayError(
                f"the two sides did not read the same prompt at {len(differing)} of {len(self.golden.turns)} turns, "
                f"first {differing[0]}",
                "Compare chat template and tokenizer of the two checkpoints.",
            )

    def _staged(self, name: str, work: Callable[[StageRun | None], Result]) -> Result:
        """Run one stage inside a nested tracking run."""
        if self.tracker is None:
            return work(None)
        with self.tracker.stage(name) as run:
            return work(run)

    def _note(self, run: StageRun | None, output: StageOutput, *files: str, side: str = "") -> None:
        """Tell the user and the tracker what a stage made."""
        text = "reused" if output.reused else f"done in {output.seconds:.0f} s"
        self.progress.say(f"{output.stage} {side}".strip(), f"{text} ({output.key})")
        if run is not None:
            run.output(output)
            run.artifacts(*(output.path / name for name in files))


def run(request: Request, store: Store, progress: Progress) -> RunResult:
    """Do the whole job of the gate and keep its record.

    :raises GateError: bad input or a broken stage. Nothing that raises can end in a verdict.
    """
    gate = Gate(request, store, progress)
    started = datetime.now(UTC)
    name = f"{started:%Y%m%d-%H%M%S}-{_slug(request.model)}-{_slug(gate.recipe.name)}"
    tracker = Tracker(f"quant-gate/{request.model}", name)
    gate.tracker = tracker
    try:
        _ = gate.baseline  # a model that does not exist is answered at once, and leaves no run
        tracker.start({"model": request.model, "recipe": gate.recipe.name, "command": request.command})
        tracker.dataset(
            gate.golden.name,
            gate.golden.digest,
            request.golden,
            {"turns": len(gate.golden.turns), "scenarios": gate.golden.scenarios, **gate.golden.slice_counts},
        )
        gate.measure()
        decision_dir, report_dir = gate.decision.path, gate.report.path
        decision = read_decision(decision_dir / "decision.json")
        directory = _keep(store, name, decision_dir, report_dir)
        tracker.decision(
            decision,
            [directory / file for file in ("decision.json", "report.html", "flips.jsonl", "summary.md")],
        )
    except BaseException as error:
        tracker.finish(error)
        raise
    problem = tracker.finish()
    facts = RunFacts(request.model, request.recipe, request.command)
    facts = replace(
        facts,
        report=directory / "report.html",
        decision=directory / "decision.json",
        mlflow_run=tracker.run_id,
        notes=(f"Not recorded in MLflow: {problem}",) if problem else (),
    )
    verdict = Verdict(decision["verdict"])
    return RunResult(verdict, int(decision["exit_code"]), decision, facts, directory)


def _keep(store: Store, name: str, *outputs: Path) -> Path:
    """Copy the record and the reports of a run to a new ``runs/<name>`` and point ``runs/latest`` at it."""
    runs = store.root / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    directory = _new_directory(runs, name)
    try:
        for output in outputs:
            for file in output.iterdir():
                if file.name != "stage.json":
                    shutil.copy2(file, directory / file.name)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)  # half a record must not pass for one
        raise
    link = runs / f".latest-{directory.name}"
    link.symlink_to(directory.name)
    link.replace(runs / "latest")
    return directory


def _new_directory(parent: Path, name: str) -> Path:
    """A directory that did not exist before: two runs may begin in the same second."""
    for number in itertools.count(1):
        directory = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise AssertionError("unreachable")


def _slug(text: str) -> str:
    """``text`` as part of a file name."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.")[-60:] or "model"
