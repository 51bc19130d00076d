"""What a run asks of the servers beside the replies: next-token distributions and general ability.

Each is asked of one side after the other while the server of its replay runs, and compared when both were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pipeline.golden import GoldenSet
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import GateSettings
from pipeline.stages import abilities, drift
from pipeline.stages.abilities import Abilities
from pipeline.stages.drifting import Drifting
from pipeline.stages.serve_replay import Probe
from pipeline.statistics.facts import Reason
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, drift_table, figures_of

Result = TypeVar("Result")


class Staged(Protocol):
    """Runs the work of one stage inside its tracking run."""

    def __call__(self, name: str, work: Callable[[StageRun | None], Result]) -> Result:
        """Return what the work returns."""


class Note(Protocol):
    """Tells the user and the tracker what a stage made."""

    def __call__(self, run: StageRun | None, output: StageOutput, *files: str, side: str = "") -> None:
        """``files`` of the output are kept with the run."""


class Beside:
    """Both of them, as far as the policy asks for them."""

    def __init__(
        self, store: Store, golden: GoldenSet, policy: GateSettings, progress: Progress, staged: Staged, note: Note
    ) -> None:
        self._drifting = Drifting(store, golden, policy, progress)
        self._abilities = Abilities(store, policy, progress)
        self._staged = staged
        self._note = note

    def demand_usable(self, calibration: Path) -> None:
        """Refuse a suite of general tasks that cannot be used, before any work.

        :param calibration: directory of calibration text, in which no item of the suite may stand.
        :raises SettingsError: no such suite, or a task that it does not have.
        :raises GoldenSetError: a leak.
        """
        self._abilities.demand_unseen(calibration)

    def probes(
        self, side: str, checkpoint: Checkpoint, baseline: Checkpoint, plan: EnginePlan, max_model_len: int
    ) -> tuple[Probe, ...]:
        """What the server of one side is asked."""

        def probe(name: str, ask: Callable[[Callable[[], Server]], StageOutput], serve: Callable[[], Server]) -> None:
            self._staged(f"{name} {side}", lambda run: self._note(run, ask(serve), side=side))

        asked: list[Probe] = []
        if self._drifting.wanted:
            logprobs = partial(
                self._drifting.ask, side, checkpoint_digest=checkpoint.digest, baseline=baseline, plan=plan
            )
            asked.append(partial(probe, "logprobs", logprobs))
        if self._abilities.wanted:
            general = partial(self._abilities.ask, side, checkpoint=checkpoint, plan=plan, max_model_len=max_model_len)
            asked.append(partial(probe, "general", general))
        return tuple(asked)

    def judge(self) -> list[Reason]:
        """Compare what both sides said; what that argues for."""
        if self._drifting.wanted:
            self._staged("drift", self._compare_drift)
        if self._abilities.wanted:
            self._staged("general comparison", self._compare_abilities)
        return [*self._drifting.reasons(), *self._abilities.reasons()]

    def _compare_drift(self, run: StageRun | None) -> None:
        output = self._drifting.compare()
        self._note(run, output, drift.DRIFT, drift.TURNS)
        if run is not None:
            self._drifting.track(run, output)

    def _compare_abilities(self, run: StageRun | None) -> None:
        output = self._abilities.compare()
        self._note(run, output, abilities.FOUND, abilities.FLIPS)
        if run is not None:
            run.metrics(figures_of(self._abilities.found["metrics"]))
            run.table("general_items.json", drift_table(output.path / abilities.ITEMS))

    @property
    def drift(self) -> Mapping[str, Any] | None:
        """Figures of next-token distributions; None where they were not compared."""
        return self._drifting.found or None

    @property
    def general(self) -> Mapping[str, Any] | None:
        """Suite, tasks and metrics of general ability; None where it was not compared."""
        found = self._abilities.found
        return {name: value for name, value in found.items() if name != "reasons"} if found else None
