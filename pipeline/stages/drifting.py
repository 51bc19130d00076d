"""Next-token distributions of both sides, where the policy asks for them: which turns, who was asked, what came out.

The stages themselves are :mod:`pipeline.stages.logprobs` and :mod:`pipeline.stages.drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evaluators.turn import Turn
from pipeline.golden import GoldenSet, restrict, select
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import GateSettings, SamplePolicy
from pipeline.stages import drift, logprobs
from pipeline.statistics import divergence
from pipeline.statistics.facts import Reason
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, drift_metrics, drift_table


@dataclass
class Drifting:
    """The drift of a candidate from its baseline.

    :ivar golden: what is replayed; a sample of it is read.
    :ivar said: output of the ``logprobs`` stage by side, once that was asked.
    :ivar found: the content of ``drift.json``, once both were compared.
    """

    store: Store
    golden: GoldenSet
    policy: GateSettings
    progress: Progress
    said: dict[str, StageOutput] = field(default_factory=dict)
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> bool:
        """Whether the policy asks for it and there is a golden reply to read."""
        return self.policy.drift is not None and bool(self._replies)

    @cached_property
    def _replies(self) -> tuple[Turn, ...]:
        return tuple(t for t in self.golden.turns if t.gold.get("content") or t.gold.get("tool_calls"))

    @cached_property
    def asked(self) -> GoldenSet:
        """The turns whose golden replies are read: a fixed sample in whole scenarios, from all slices alike."""
        assert self.policy.drift is not None
        answered = restrict(self.golden, self._replies, "turns with a golden reply")
        return select(answered, SamplePolicy(turns=self.policy.drift.turns))

    def ask(
        self, side: str, serve: Callable[[], Server], checkpoint_digest: str, baseline: Checkpoint, plan: EnginePlan
    ) -> StageOutput:
        """Ask one side's server, or reuse what it said; see :func:`pipeline.stages.logprobs.run`."""

        def asking() -> Server:
            divergence.import_ahead()
            return serve()

        self.said[side] = logprobs.run(
            self.store,
            asking,
            checkpoint_digest=checkpoint_digest,
            golden=self.asked,
            plan=plan,
            ends=logprobs.reply_ends(baseline),
            settings=self.policy.replay,
            progress=self.progress,
            side=side,
        )
        return self.said[side]

    def compare(self) -> StageOutput:
        """The comparison, once both sides were asked."""
        baseline, candidate = (self.said[side].path for side in ("baseline", "candidate"))
        output = drift.run(self.store, baseline=baseline, candidate=candidate, golden=self.asked)
        self.found = drift.read_drift(output.path)
        return output

    def track(self, run: StageRun, output: StageOutput) -> None:
        """Log the figures and the turns of a comparison to its nested run."""
        run.metrics(drift_metrics(self.found))
        run.table("drift_turns.json", drift_table(output.path / drift.TURNS))

    def reasons(self) -> list[Reason]:
        """What the comparison argues for."""
        return drift.reasons(self.found, self.policy.drift) if self.found and self.policy.drift else []
