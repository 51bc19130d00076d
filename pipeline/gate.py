"""The stages of a gate: which needs which, which may run at the same time, and what may end a run early."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pipeline import environments
from pipeline import golden as golden_sets
from pipeline.errors import GoldenSetError
from pipeline.evidence.record import BaselineFacts, CandidateFacts, RecordContext
from pipeline.golden import GoldenSet
from pipeline.golden.private import demand_no_private_data
from pipeline.inspection import Finding
from pipeline.inspection.served import served_findings
from pipeline.load.settings import load_load_settings
from pipeline.load.sweep import Served
from pipeline.processes import as_done, supervised
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint, read_template
from pipeline.quantizers.hardware import demand_engine
from pipeline.reporting import RunFacts
from pipeline.request import Request, default_policy
from pipeline.secrets import scrubbed
from pipeline.serving import variables
from pipeline.serving.plan import EnginePlan, can_overlap, make_plan
from pipeline.settings import (
    PROJECT_ROOT,
    GateSettings,
    Recipe,
    ServingSettings,
    load_gate,
    load_recipe,
    load_serving,
)
from pipeline.stages import decide, evaluate, inspect, load, quantize, report, resolve, serve_replay
from pipeline.stages.ahead import EnginesAhead
from pipeline.stages.beside import Beside
from pipeline.stages.comparability import compared
from pipeline.stages.evaluate import OUTCOMES
from pipeline.stages.looks import Looks
from pipeline.stages.resources import kv_pool
from pipeline.stages.serve_replay import REPLIES, named
from pipeline.statistics.benefit import unmeasured_reasons
from pipeline.statistics.facts import Reason, Resource
from pipeline.statistics.planning import PowerPlan, exploratory_reason, plan_power, underpowered_reasons
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, Tracker, download_model_uri

Side = Literal["baseline", "candidate"]
Result = TypeVar("Result")
READ_S = 5.0
"""Seconds after which a baseline is being replayed, not its kept replies read."""


class _Refused(Exception):
    """The candidate is not to be served."""


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
        if self.policy.sample is not None:
            self.golden = golden_sets.select(self.golden, self.policy.sample)
        if not self.golden.turns:
            raise GoldenSetError(f"{request.golden}: no checkpointed turn", "Add `expect` to the turns to score.")
        demand_no_private_data(self.golden.turns, scrubbed(request.golden))
        self._seconds: dict[str, float] = {}
        """What each stage took when its output was made."""
        self._replays: dict[Side, tuple[StageOutput, ...]] = {}
        self._baseline_replayed = threading.Event()
        self._outcomes: dict[Side, tuple[StageOutput, ...]] = {}
        self._evaluating = threading.Lock()
        self._looks = Looks(self.store, self.golden, self.policy, self.progress)
        self._beside = Beside(self.store, self.golden, self.policy, self.progress, self._staged, self._note)
        self._beside.demand_usable(Path(request.calibration))
        self._environment: concurrent.futures.Future[None] | None = None
        self._ahead = EnginesAhead(self.store, self.progress)
        self._calibrated: dict[str, str] = {}

    # --- stages --------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> EnginePlan:
        """How the engine is started, the same for both sides. Its environment is built first where it is missing."""
        environments.provide("serve", self.progress)
        plan = make_plan(self.serving, self.store)
        demand_engine(self.recipe, plan.version)
        return plan

    def demand_servable(self) -> None:
        """Refuse a recipe whose candidate this machine could not serve, before anything is made.

        :raises RecipeError: says why.
        """
        quantize.demand_servable(self.store, self.request.model, self.recipe, self.serving.kv_cache_dtype)

    @cached_property
    def power(self) -> PowerPlan:
        """What the golden set can decide, under the flip rate that the policy assumes."""
        return plan_power(self.golden.turns, self.policy)

    @cached_property
    def settled(self) -> list[Reason]:
        """Reasons that end the run before anything is quantized or served; empty when it is to go on."""
        return [] if self.request.explore else underpowered_reasons(self.power)

    @cached_property
    def baseline(self) -> Checkpoint:
        """The BF16 checkpoint."""
        return self._staged(
            "resolve",
            lambda run: resolve.run(self.store, self.request.model, self.progress, download_model_uri, self._template),
        )

    @property
    def _template(self) -> Path | None:
        """The chat template that the serving settings name, if they do."""
        return PROJECT_ROOT / self.serving.chat_template if self.serving.chat_template else None

    @property
    def template_override(self) -> str | None:
        """Text of that template."""
        return read_template(self._template) if self._template else None

    @cached_property
    def candidate(self) -> Checkpoint:
        """The quantized checkpoint."""
        self.demand_servable()

        def work(run: StageRun | None) -> Checkpoint:
            output, checkpoint = quantize.run(
                self.store, self.baseline, self.recipe, Path(self.request.calibration), self.golden, self.progress
            )
            self._note(run, output)
            self._calibrated = quantize.calibration_digest(output)
            return checkpoint

        return self._staged("quantize", work)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the inspection of the candidate beside the baseline found."""

        def work(run: StageRun | None) -> tuple[Finding, ...]:
            output = inspect.run(
                self.store,
                candidate=self.candidate,
                baseline=self.baseline,
                golden=self.golden,
                recipe=self.recipe,
                template_override=self.template_override,
                progress=self.progress,
            )
            self._note(run, output, inspect.FINDINGS)
            return inspect.read_findings(output.path / inspect.FINDINGS)

        return self._staged("inspect", work)

    @cached_property
    def early(self) -> list[Reason]:
        """Reasons that settle the verdict without a replay: of the plan, else of the artifact."""
        return self.settled or inspect.reasons(self.findings)

    def replays(self, side: Side) -> tuple[StageOutput, ...]:
        """Replies of one side to every turn, once or several times: see :meth:`_repeats`."""
        if side not in self._replays:
            checkpoint = self.baseline if side == "baseline" else self.candidate

            def work(run: StageRun | None) -> tuple[StageOutput, ...]:
                outputs = serve_replay.run(
                    self.store,
                    checkpoint_path=checkpoint.path,
                    checkpoint_digest=checkpoint.digest,
                    golden=self.golden,
                    plan=self.plan,
                    sampling=self.policy.sampling,
                    replay_settings=self.policy.replay,
                    repeats=self._repeats(side),
                    looks=self._looks.parts if side == "candidate" else (),
                    stop=self._give_up,
                    probes=self._beside.probes(side, checkpoint, self.baseline, self.plan, self.serving.max_model_len),
                    ahead=self._ahead.take(f"replay {side}"),
                    progress=self.progress,
                    label=f"replay {side}",
                )
                for number, output in enumerate(outputs):
                    self._note(None if number else run, output, "server.log", "engine.json", side=named(side, number))
                return outputs

            self._replays[side] = self._staged(f"replay {side}", work)
        return self._replays[side]

    def _repeats(self, side: Side) -> int:
        """Further replays of a side: where turns are sampled its other samples, else the baseline's noise floor."""
        samples = self.policy.sampling.samples
        return samples - 1 if samples > 1 or side == "candidate" else self.policy.noise.repeats

    def _give_up(self, look: int, replay: StageOutput) -> bool:
        """Whether the candidate is hopeless after a part of the set."""
        self._baseline_replayed.wait()
        if "baseline" not in self._replays:
            return False  # it broke, which ends the run
        outcomes = [output.path / OUTCOMES for output in self.outcomes("baseline")]
        return self._looks.hopeless(look, replay, outcomes)

    def outcomes(self, side: Side) -> tuple[StageOutput, ...]:
        """Outcomes of each replay of one side; of a candidate that was given up at a look, up to there."""
        replays = self.replays(side)
        golden = self._looks.asked if side == "candidate" else self.golden

        def work(run: StageRun | None) -> tuple[StageOutput, ...]:
            outputs = []
            for number, replay in enumerate(replays):
                name = named(side, number)
                output = evaluate.run(self.store, golden, replay.path, name, self.progress)
                self._note(None if number else run, output, "outcomes_summary.json", side=name)
                outputs.append(output)
            return tuple(outputs)

        with self._evaluating:  # the looks want the baseline's as well, from another thread
            if side not in self._outcomes:
                self._outcomes[side] = self._staged(f"evaluate {side}", work)
        return self._outcomes[side]

    @cached_property
    def decision(self) -> StageOutput:
        """Decision record and flips."""
        return self._staged("decide", self._decide_early if self.early else self._decide)

    def _decide_early(self, run: StageRun | None) -> StageOutput:
        output = decide.run_without_replay(
            self.store,
            golden=self.golden,
            policy=self.policy,
            context=self._context() if self.settled else self._context(self.candidate, findings=self.findings),
            reasons=self.early,
        )
        self._note(run, output, "decision.json")
        return output

    def _decide(self, run: StageRun | None) -> StageOutput:
        baseline, *repeats = self.outcomes("baseline")
        candidate, *samples = self.outcomes("candidate")
        beside = self._beside.judge() if self._looks.given_up_at is None else []
        served = served_findings(*(self.replays(side)[0].path for side in get_args(Side)))
        output = decide.run(
            self.store,
            golden=self.golden,
            baseline_outcomes_path=baseline.path / OUTCOMES,
            candidate_outcomes_path=candidate.path / OUTCOMES,
            repeat_outcomes_paths=[repeat.path / OUTCOMES for repeat in repeats],
            candidate_repeat_outcomes_paths=[sample.path / OUTCOMES for sample in samples],
            policy=self.policy,
            context=self._context(
                self.candidate,
                {**self._replayed("baseline"), **self._replayed("candidate")},
                (*self.findings, *served),
                [*kv_pool(*(self.replays(side)[0].path for side in get_args(Side))), *self._under_load[1]],
                self._under_load[0],
            ),
            findings=[*inspect.reasons(served), *self._findings(), *beside, *self._unmeasured()],
            look=self._looks.given_up_at,
        )
        self._note(run, output, "decision.json")
        return output

    def _unmeasured(self) -> list[Reason]:
        loaded = self._under_load[0] is not None
        return unmeasured_reasons(self.policy.benefit, device=self.plan.device, loaded=loaded)

    @cached_property
    def _under_load(self) -> tuple[Mapping[str, Any] | None, Sequence[Resource]]:
        """What both sides bear, where that was asked for and the candidate was not given up."""
        if not self.request.load or self._looks.given_up_at is not None:
            return None, ()

        def work(run: StageRun | None) -> StageOutput:
            sides = [(each, Served(each.path, each.digest, self.plan)) for each in (self.baseline, self.candidate)]
            output = load.run(
                self.store,
                baseline=sides[0],
                candidate=sides[1],
                golden=self.golden,
                max_model_len=self.serving.max_model_len,
                settings=load_load_settings(),
                progress=self.progress,
            )
            self._note(run, output, load.LOAD)
            return output

        return load.read_load(self._staged("load", work))

    def _context(
        self,
        candidate: Checkpoint | None = None,
        inputs: Mapping[str, str] | None = None,
        findings: Sequence[Finding] = (),
        resources: Sequence[Resource] = (),
        under_load: Mapping[str, Any] | None = None,
    ) -> RecordContext:
        """What the record says beside the decision. Without a candidate none was made."""
        digest, weight_bytes = (candidate.digest, candidate.weight_bytes) if candidate else (None, None)
        return RecordContext(
            baseline=BaselineFacts(
                self.baseline.source, self.baseline.revision, self.baseline.digest, self.baseline.weight_bytes
            ),
            candidate=CandidateFacts(digest, weight_bytes, self.recipe.model_dump(mode="json")),
            engine=self.plan.facts(),
            inputs={**self._calibrated, **(inputs or {})},
            findings=[finding.as_json() for finding in findings],
            drift=self._beside.drift,
            general=self._beside.general,
            resources=resources,
            conditions=variables.combined(variables.of_recipe(self.recipe)),
            load=under_load,
            times={"decided": datetime.now(UTC).isoformat(timespec="seconds"), **self._seconds},
        )

    def _replayed(self, side: Side) -> dict[str, str]:
        """Keys of the replays of one side by name."""
        return {
            f"{named(side, n)} replies".replace(" ", "_"): replay.key for n, replay in enumerate(self.replays(side))
        }

    def _findings(self) -> list[Reason]:
        """What the outcomes cannot show: whether both sides were asked and served alike, and how the run was meant."""
        baseline, candidate = ([replay.path for replay in self.replays(side)] for side in get_args(Side))
        explored = [exploratory_reason(self.power)] if self.request.explore else []
        return [*compared(baseline, candidate), *explored]

    @property
    def replies_paths(self) -> list[Path]:
        """Replies of baseline and candidate; none where the verdict was settled before any replay."""
        return [] if self.early else [self.replays(side)[0].path / REPLIES for side in get_args(Side)]

    @cached_property
    def report(self) -> StageOutput:
        """HTML report and summaries."""

        def work(run: StageRun | None) -> StageOutput:
            output = report.run(
                self.store,
                decision_dir=self.decision.path,
                golden=self.golden,
                replies_paths=self.replies_paths,
                run_facts=RunFacts(self.request.model, self.request.recipe, self.request.command),
            )
            self._note(run, output)
            return output

        return self._staged("report", work)

    # --- all of them ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def engine_ahead(self) -> Iterator[None]:
        """Beside what the block does build the engine's environment, where it is missing, and start to import it.

        What breaks that is raised by :meth:`measure`, or where the plan is needed.
        """
        with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="setup") as pool, supervised(pool):
            self._environment = pool.submit(self._start_ahead)
            try:
                yield
                for _ in as_done([self._environment]):  # inside, where an interruption stops it
                    pass
            finally:
                self._ahead.drop()

    def _start_ahead(self) -> None:
        environments.provide("serve", self.progress)
        if not self.settled and (path := resolve.unmade(self.store, self.request.model)):
            self._ahead.start("replay baseline", self.plan, path)

    def measure(self) -> None:
        """Quantize, inspect, serve, replay and evaluate, with what can overlap overlapping.

        The baseline is replayed, and replayed again, while the candidate is quantized; the candidate's server
        starts at once when memory allows two servers, else when the baseline's has stopped.
        """
        variables.demand_one(variables.of_recipe(self.recipe), self.request.combined)
        _ = self.baseline
        if self.settled:
            self.progress.say("plan", "too few golden turns to decide: stopped before anything is quantized")
            return
        with contextlib.suppress(_Refused):
            self._measure()

    def _measure(self) -> None:
        # When one side fails, or the candidate is refused, the other is of no use any more; what it has is kept.
        with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="gate") as pool, supervised(pool):
            sides = [pool.submit(self._measure_baseline), pool.submit(self._measure_candidate)]
            for work in as_done([*sides, *([self._environment] if self._environment else [])]):
                work.result()

    def _measure_baseline(self) -> None:
        try:
            _ = self.plan
            self.replays("baseline")
        finally:
            self._baseline_replayed.set()
        self.outcomes("baseline")

    def _measure_candidate(self) -> None:
        weight_bytes = self.candidate.weight_bytes  # quantizes
        if self.early:
            self.progress.say("inspect", "the candidate's files settle the verdict: it is not served")
            raise _Refused
        if not can_overlap(self.plan, max(weight_bytes, self.baseline.weight_bytes)):
            if not self._baseline_replayed.wait(READ_S):
                self._ahead.start("replay candidate", self.plan, self.candidate.path)
            self._baseline_replayed.wait()
        self._looks.plan()
        self.outcomes("candidate")

    def _staged(self, name: str, work: Callable[[StageRun | None], Result]) -> Result:
        """Run one stage inside a nested tracking run."""
        if self.tracker is None:
            return work(None)
        with self.tracker.stage(name) as run:
            return work(run)

    def _note(self, run: StageRun | None, output: StageOutput, *files: str, side: str = "") -> None:
        """Tell the user and the tracker what a stage made."""
        text = "reused" if output.reused else f"done in {output.seconds:.0f} s"
        name = f"{output.stage} {side}".strip()
        self._seconds[f"{name}, seconds"] = round(output.seconds, 1)
        self.progress.say(name, f"{text} ({output.key})")
        if run is not None:
            run.output(output)
            run.artifacts(*(output.path / name for name in files))
