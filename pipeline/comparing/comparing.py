"""The whole job for two sides that are there already: replay both, evaluate, decide, report, and keep the record.

The rules of the verdict are those of the gate. What differs is how much is known: of an endpoint the answers alone are
measured, so a verdict about it names what it is conditional on.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pipeline import golden as golden_sets
from pipeline.comparing.combinations import demand_read, demand_sense
from pipeline.comparing.declared import load_declarations
from pipeline.comparing.sides import CheckpointSide, EndpointSide, Name, Side
from pipeline.errors import GoldenSetError, UsageError, Verdict
from pipeline.evidence.record import BaselineFacts, CandidateFacts, RecordContext, read_decision
from pipeline.golden import GoldenSet
from pipeline.golden.private import demand_no_private_data
from pipeline.inspection import Finding
from pipeline.inspection.served import served_findings
from pipeline.load.settings import load_load_settings
from pipeline.load.sweep import Served
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import read_template
from pipeline.reporting import RunFacts
from pipeline.request import SUPPORT, default_policy
from pipeline.runs import TRACKED, keep, slug
from pipeline.secrets import scrubbed
from pipeline.serving import variables
from pipeline.settings import PROJECT_ROOT, GateSettings, load_gate
from pipeline.stages import decide, drift, evaluate, inspect, load, report
from pipeline.stages.comparability import compared, compared_with_endpoints, without_effect
from pipeline.stages.drifting import Drifting
from pipeline.stages.evaluate import OUTCOMES
from pipeline.stages.resources import kv_pool
from pipeline.stages.serve_replay import REPLIES
from pipeline.stages.traces import flipped
from pipeline.statistics.benefit import UNDER_LOAD, unmeasured_reasons
from pipeline.statistics.facts import Reason, ReasonCode, Resource
from pipeline.statistics.planning import exploratory_reason, plan_power, underpowered_reasons
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, Tracker

DEMO = "demo"
SHIP = (
    "Ship it on these conditions, and keep the baseline at hand for a rollback. A comparison is not signed off: for a "
    "signed release have `quant-gate run` make the candidate."
)


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What to compare, as the user gave it. A side is an endpoint where it has a URL, else a checkpoint."""

    baseline: str | None = None
    """None, and no URL: the demo model."""
    baseline_url: str | None = None
    candidate: str | None = None
    """None: the baseline's checkpoint, in another serving variant."""
    candidate_url: str | None = None
    serving: str = "default"
    candidate_serving: str | None = None
    """None: as the baseline."""
    declared: Path | None = None
    combined: bool = False
    golden: str = str(SUPPORT)
    policy: Path | None = None
    explore: bool = False
    load: bool = False
    """Put load on both sides as well, where we serve both."""
    slo: Path | None = None

    @property
    def command(self) -> str:
        """The shell command that repeats this comparison, without secrets that a URL may hold."""
        default, words = CompareRequest(), ["quant-gate", "compare"]
        for name in self.__slots__:
            value = getattr(self, name)
            if value != getattr(default, name):
                words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return scrubbed(shlex.join(words))


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison came to."""

    decision: dict[str, Any]
    facts: RunFacts
    directory: Path

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return int(self.decision["exit_code"])


class Comparison:
    """One comparison; both sides are found, and the rule of one variable is checked, when it is built."""

    def __init__(self, request: CompareRequest, store: Store, progress: Progress) -> None:
        demand_sense(request)
        self.request, self.store, self.progress = request, store, progress
        self.load_settings = load_load_settings(request.slo)
        declared = load_declarations(request.declared)
        demand_read(request, declared)
        checkpoint = request.baseline or DEMO
        policy = load_gate(request.policy or default_policy("" if request.baseline_url else checkpoint))
        self.general = policy.general
        self.policy: GateSettings = policy.model_copy(update={"general": None})
        self.golden: GoldenSet = golden_sets.load(request.golden)
        if self.policy.sample is not None:
            self.golden = golden_sets.select(self.golden, self.policy.sample)
        if not self.golden.turns:
            raise GoldenSetError(f"{request.golden}: no checkpointed turn", "Add `expect` to the turns to score.")
        demand_no_private_data(self.golden.turns, scrubbed(request.golden))
        self._drifting = Drifting(store, self.golden, self.policy, progress)
        model, serving = request.candidate or checkpoint, request.candidate_serving or request.serving
        if not (request.baseline_url or request.candidate_url) and (model, serving) == (checkpoint, request.serving):
            raise _one_thing(f"{checkpoint} ({request.serving})")
        self.baseline = self._side("baseline", request.baseline_url, checkpoint, request.serving, declared.baseline)
        self.candidate = self._side("candidate", request.candidate_url, model, serving, declared.candidate)
        if (endpoints := self._endpoints) and len(
            {(side.endpoint.url, side.endpoint.model) for side in endpoints}
        ) == 1:
            raise UsageError(
                f"both sides are {self.baseline.label}: an endpoint compared with itself shows nothing",
                "Give the candidate's own URL, or name its `model` in the --declared file.",
            )
        self.changes = variables.changed(self.baseline.variables(), self.candidate.variables())
        if self._checkpoints and not self.changes:
            raise _one_thing(self.baseline.label)
        variables.demand_one(self.changes, request.combined)

    def _side(self, name: Name, url: str | None, model: str, serving: str, declared: Any) -> Side:
        if url is not None:
            return EndpointSide.of(name, url, declared, self.golden, self.policy)
        return CheckpointSide.of(name, model, serving, self.store, self.progress)

    @property
    def _checkpoints(self) -> tuple[CheckpointSide, CheckpointSide] | None:
        """Both sides, where we serve both."""
        if isinstance(self.baseline, CheckpointSide) and isinstance(self.candidate, CheckpointSide):
            return self.baseline, self.candidate
        return None

    @property
    def _endpoints(self) -> tuple[EndpointSide, EndpointSide] | None:
        """Both sides, where we serve neither."""
        if isinstance(self.baseline, EndpointSide) and isinstance(self.candidate, EndpointSide):
            return self.baseline, self.candidate
        return None

    def _alike(self) -> list[str]:
        """That two addresses may lead to one model: builds that differ may honestly answer a few prompts alike."""
        if (sides := self._endpoints) is None or sides[0].digest != sides[1].digest:
            return []
        weights = [side.declared.weights for side in sides]
        if weights[0] is not None and weights[0] == weights[1]:
            return []
        return [
            "that there are two models at all: both endpoints answer the fixed prompts word for word alike, as one "
            "model behind two addresses does."
        ]

    @property
    def _same_weights(self) -> bool:
        """Whether a quantized candidate can be held against its baseline in 16 bits, weight by weight."""
        sides = self._checkpoints
        return sides is not None and not sides[0].quantized and sides[1].quantized

    def _unseen(self) -> list[str]:
        """What was not measured, because of what the sides are."""
        if sides := self._checkpoints:
            if self._same_weights or sides[0].digest == sides[1].digest:
                return []
            why = "the baseline is quantized as well" if sides[0].quantized else "the candidate is not quantized"
            return [
                f"that the candidate's weights are sound: {why}, so they were not compared value by value. "
                "Names, shapes and magnitudes, tokenizer, template and configs were."
            ]
        speed = [name for name in UNDER_LOAD if getattr(self.policy.benefit, name) is not None]
        if not speed:
            return []
        return [
            f"that {', '.join(speed)} are no worse: the policy counts them, and load is put on no endpoint, so "
            "nothing of speed was measured."
        ]

    def conditions(self) -> list[str]:
        """What the verdict is conditional on, whatever the replays show."""
        told = variables.told(self.changes)
        lines = [f"what was changed: {'; '.join(told)}." if told else "no known difference between the sides."]
        sides = [*self.baseline.conditions(), *self.candidate.conditions()]
        if self._drifting.wanted and not self._drift_known:
            sides.append(
                "that no side is a ruined model: the policy draws a line for drift, and next-token distributions of an "
                "endpoint are not compared."
            )
        return [*lines, *variables.combined(self.changes), *sides, *self._unseen(), *self._alike()]

    def load(self) -> StageOutput:
        """Both sides under load, in pairs.

        :raises LoadError: a request failed.
        """
        sides = self._checkpoints
        assert sides is not None, "checked when the comparison was built"
        served = [(side.checkpoint, Served(side.checkpoint.path, side.digest, side.plan)) for side in sides]
        return load.run(
            self.store,
            baseline=served[0],
            candidate=served[1],
            golden=self.golden,
            max_model_len=min(side.serving.max_model_len for side in sides),
            settings=self.load_settings,
            progress=self.progress,
        )

    def decide(self, tracker: Tracker) -> tuple[StageOutput, list[Path]]:
        """The decision record, and the replies that it rests on (none where nothing was replayed)."""
        power = plan_power(self.golden.turns, self.policy)
        early = [] if self.request.explore else underpowered_reasons(power)
        found: tuple[Finding, ...] = ()
        if not early and (sides := self._checkpoints) and sides[0].digest != sides[1].digest:
            found = self._inspected(*sides)
            early = inspect.reasons(found)
        if early:
            context = self._context(found)
            output = decide.run_without_replay(
                self.store, golden=self.golden, policy=self.policy, context=context, reasons=early
            )
            return output, []
        sides_replays = [self._replays(side) for side in (self.baseline, self.candidate)]
        paths = [[output.path for output in outputs] for outputs in sides_replays]
        reasons, conditions, served = self._comparable(*paths)
        for side, outputs in zip((self.baseline, self.candidate), sides_replays, strict=True):
            conditions += side.reused(outputs)
        if self._drift_known:
            with tracker.stage("drift") as run:
                self._compare_drift(run)
            reasons += self._drifting.reasons()
        (baseline, *repeats), (candidate, *samples) = (
            [
                evaluate.run(self.store, self.golden, output.path, name, self.progress).path / OUTCOMES
                for output in outputs
            ]
            for name, outputs in zip(("baseline", "candidate"), sides_replays, strict=True)
        )
        told, resources = load.read_load(self.load()) if self.request.load else (None, ())
        explored = [exploratory_reason(power)] if self.request.explore else []
        keys = {
            f"{name}_replies_{number}": output.key
            for name, outputs in zip(("baseline", "candidate"), sides_replays, strict=True)
            for number, output in enumerate(outputs)
        }
        output = decide.run(
            self.store,
            golden=self.golden,
            baseline_outcomes_path=baseline,
            candidate_outcomes_path=candidate,
            repeat_outcomes_paths=repeats,
            candidate_repeat_outcomes_paths=samples,
            policy=self.policy,
            context=replace(
                self._context(
                    (*found, *served), conditions, [*self._resources(*(p[0] for p in paths)), *resources], keys
                ),
                load=told,
                drift=self._drifting.found or None,
            ),
            findings=[*inspect.reasons(served), *reasons, *explored, *self._not_asked(), *self._unmeasured()],
        )
        return output, [path[0] / REPLIES for path in paths]

    @property
    def _drift_known(self) -> bool:
        """Whether next-token distributions are compared: an endpoint is asked for replies alone."""
        return self._drifting.wanted and self._checkpoints is not None

    def _compare_drift(self, run: StageRun) -> None:
        output = self._drifting.compare()
        run.output(output)
        run.artifacts(output.path / drift.DRIFT, output.path / drift.TURNS)
        self._drifting.track(run, output)

    def _replays(self, side: Side) -> tuple[StageOutput, ...]:
        arguments = self.store, self.golden, self.policy, self.progress
        if not (isinstance(side, CheckpointSide) and self._checkpoints and self._drift_known):
            return side.replays(*arguments)
        baseline = self._checkpoints[0].checkpoint
        ask = partial(self._drifting.ask, side.name, checkpoint_digest=side.digest, baseline=baseline, plan=side.plan)
        return side.replays(*arguments, probes=(ask,))

    def _not_asked(self) -> list[Reason]:
        """What the policy demands and a comparison does not measure: unknown is no ACCEPT."""
        gating = [name for name, task in self.general.tasks.items() if task.gating] if self.general else []
        if not gating:
            return []
        text = (
            f"the policy demands general ability ({', '.join(gating)}), which `compare` does not measure: give it a "
            "policy with `general: null`."
        )
        return [Reason(ReasonCode.NO_DATA, Verdict.INCONCLUSIVE, text)]

    def _unmeasured(self) -> list[Reason]:
        if (sides := self._checkpoints) is None:  # load is put on no endpoint: what is known of it is declared
            return []
        return unmeasured_reasons(self.policy.benefit, device=sides[0].plan.device, loaded=self.request.load)

    def _inspected(self, baseline: CheckpointSide, candidate: CheckpointSide) -> tuple[Finding, ...]:
        template = baseline.serving.chat_template
        return inspect.look(
            candidate.checkpoint.path,
            baseline.checkpoint,
            golden=self.golden,
            recipe=None,
            template_override=read_template(PROJECT_ROOT / template) if template else None,
            progress=self.progress,
            weights=self._same_weights,
        )

    def _comparable(
        self, baseline: Sequence[Path], candidate: Sequence[Path]
    ) -> tuple[list[Reason], list[str], list[Finding]]:
        if self._checkpoints:
            reasons = compared(baseline, candidate, variables.may_differ(self.changes))
            idle = without_effect(baseline[0], candidate[0], self.changes)
            return reasons, idle, served_findings(baseline[0], candidate[0])
        return *compared_with_endpoints(baseline, candidate), []

    def _resources(self, baseline: Path, candidate: Path) -> list[Resource]:
        """The pools of the KV caches: of our engines by their logs, of endpoints as declared."""
        if self._checkpoints:
            return kv_pool(baseline, candidate)
        pools = [side.declared.kv_tokens for side in (self.baseline, self.candidate) if isinstance(side, EndpointSide)]
        if len(pools) < 2 or None in pools:
            return []
        before, after = (float(pool or 0) for pool in pools)
        return [Resource("kv_tokens", (before,), (after,), declared=True)]

    def _context(
        self,
        findings: Sequence[Finding] = (),
        conditions: Sequence[str] = (),
        resources: Sequence[Resource] = (),
        keys: dict[str, str] | None = None,
    ) -> RecordContext:
        baseline, candidate = self.baseline, self.candidate
        engine = baseline.engine()
        if (other := candidate.engine()) != engine:
            engine["candidate"] = other
            engine["notes"] = list(dict.fromkeys([*engine["notes"], *other["notes"]]))
            engine["speed_representative"] &= other["speed_representative"]
        return RecordContext(
            baseline=BaselineFacts(
                baseline.label,
                baseline.checkpoint.revision if isinstance(baseline, CheckpointSide) else None,
                baseline.digest,
                baseline.weight_bytes,
            ),
            candidate=CandidateFacts(
                candidate.digest,
                candidate.weight_bytes,
                {"name": candidate.label, "variables": candidate.variables(), "changed": variables.told(self.changes)},
            ),
            engine=engine,
            inputs=keys or {},
            findings=[finding.as_json() for finding in findings],
            resources=resources,
            conditions=[*self.conditions(), *conditions],
            weights_declared=self._checkpoints is None,
            ship=SHIP,
            times={"decided": datetime.now(UTC).isoformat(timespec="seconds")},
        )


def _one_thing(label: str) -> UsageError:
    return UsageError(
        f"both sides are {label}: a checkpoint compared with itself shows nothing",
        "Name another checkpoint with --candidate, or another serving variant with --candidate-serving.",
    )


def begun(comparison: Comparison, *words: str) -> tuple[str, str, str, Tracker]:
    """What both sides are called, the name of a run about them, and its tracker."""
    baseline, candidate = comparison.baseline.label, comparison.candidate.label
    name = "-".join([f"{datetime.now(UTC):%Y%m%d-%H%M%S}", *words, slug(baseline), slug(candidate)])
    return baseline, candidate, name, Tracker(f"quant-gate/{baseline}", name)


def compare(request: CompareRequest, store: Store, progress: Progress) -> Compared:
    """Do the whole comparison and keep its record.

    :raises GateError: bad input or a broken stage. Nothing that raises can end in a verdict.
    """
    comparison = Comparison(request, store, progress)
    baseline, candidate, name, tracker = begun(comparison)
    try:
        tracker.start({"model": baseline, "recipe": candidate, "command": request.command})
        golden = comparison.golden
        tracker.golden_set(golden, request.golden)
        decided, replies = comparison.decide(tracker)
        facts = RunFacts(baseline, candidate, request.command)
        page = report.run(store, decision_dir=decided.path, golden=golden, replies_paths=replies, run_facts=facts)
        decision = read_decision(decided.path / "decision.json")
        directory = keep(store, name, decided.path, page.path)
        traces = flipped(decided.path / "flips.jsonl", golden, replies)
        tracker.decision(decision, [directory / file for file in TRACKED], traces)
    except BaseException as error:
        tracker.finish(error)
        raise
    problem = tracker.finish()
    facts = replace(
        facts,
        report=directory / "report.html",
        decision=directory / "decision.json",
        mlflow_run=tracker.run_id,
        notes=(f"Not recorded in MLflow: {problem}",) if problem else (),
    )
    progress.say("compare", f"{Verdict(decision['verdict'])}")
    return Compared(decision, facts, directory)
