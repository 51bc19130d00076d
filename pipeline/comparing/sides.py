"""The two kinds of sides: a checkpoint that we serve, and an endpoint that somebody else runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from pipeline import environments
from pipeline.comparing.declared import Declared
from pipeline.errors import RecordError
from pipeline.golden import GoldenSet
from pipeline.progress import Progress
from pipeline.quantizers.checkpoint import Checkpoint, is_quantized
from pipeline.serving import variables
from pipeline.serving.endpoint import Endpoint, connect
from pipeline.serving.plan import EnginePlan, make_plan
from pipeline.serving.replay import build_request
from pipeline.settings import PROJECT_ROOT, GateSettings, ServingSettings, load_serving
from pipeline.stages import endpoint_replay, resolve, serve_replay
from pipeline.store import StageOutput, Store, record_of, started_at
from pipeline.tracking import download_model_uri

Name = Literal["baseline", "candidate"]


class Side(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> Name:
        """Which one."""

    @property
    def label(self) -> str:
        """How people know it."""

    @property
    def digest(self) -> str:
        """Identity of what is served, as far as it can be known."""

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of its weights; None where neither measured nor declared."""

    def variables(self) -> dict[str, Any]:
        """What it may differ in from the other side, as far as that is known."""

    def engine(self) -> dict[str, Any]:
        """The ``engine`` part of a decision record."""

    def replays(
        self, store: Store, golden: GoldenSet, policy: GateSettings, progress: Progress
    ) -> tuple[StageOutput, ...]:
        """Its replies to every turn, then the repeats that the policy asks for."""

    def conditions(self) -> list[str]:
        """What a verdict is conditional on because of it."""

    def reused(self, outputs: Sequence[StageOutput]) -> list[str]:
        """What it is conditional on where replies of an earlier time were used."""


@dataclass(frozen=True, slots=True)
class CheckpointSide:
    """A checkpoint, served by our engine."""

    name: Name
    checkpoint: Checkpoint
    serving_name: str
    serving: ServingSettings
    plan: EnginePlan

    @staticmethod
    def of(name: Name, model: str, serving_name: str, store: Store, progress: Progress) -> CheckpointSide:
        """Find the checkpoint and plan its engine.

        :raises GateError: an unknown model, an unfit checkpoint, or flags that the engine does not know.
        """
        serving = load_serving(serving_name)
        template = PROJECT_ROOT / serving.chat_template if serving.chat_template else None
        checkpoint = _checkpoint(model, template, store, progress)
        environments.provide("serve", progress)
        return CheckpointSide(name, checkpoint, serving_name, serving, make_plan(serving, store))

    @property
    def label(self) -> str:
        """Model and serving settings."""
        return f"{_called(self.checkpoint)} ({self.serving_name})"

    @property
    def digest(self) -> str:
        """That of the checkpoint."""
        return self.checkpoint.digest

    @property
    def weight_bytes(self) -> int | None:
        """Measured."""
        return self.checkpoint.weight_bytes

    @property
    def quantized(self) -> bool:
        """Whether its weights are."""
        return is_quantized(self.checkpoint.path)

    def variables(self) -> dict[str, Any]:
        """Weights and every serving setting."""
        return variables.of_checkpoint(self.checkpoint.digest, self.checkpoint.path, self.serving)

    def engine(self) -> dict[str, Any]:
        """The plan's facts."""
        return self.plan.facts()

    def replays(
        self,
        store: Store,
        golden: GoldenSet,
        policy: GateSettings,
        progress: Progress,
        probes: Sequence[serve_replay.Probe] = (),
    ) -> tuple[StageOutput, ...]:
        """Serve it and replay; ``probes`` ask the same server for something else."""
        return serve_replay.run(
            store,
            checkpoint_path=self.checkpoint.path,
            checkpoint_digest=self.checkpoint.digest,
            golden=golden,
            plan=self.plan,
            sampling=policy.sampling,
            replay_settings=policy.replay,
            repeats=repeats(policy, self.name),
            probes=probes,
            progress=progress,
            label=f"replay {self.name}",
        )

    def conditions(self) -> list[str]:
        """None: everything about it is measured."""
        return []

    def reused(self, outputs: Sequence[StageOutput]) -> list[str]:
        """None: the same checkpoint and engine answer alike at any time."""
        return []


@dataclass(frozen=True, slots=True)
class EndpointSide:
    """An endpoint; what it cannot tell is declared."""

    name: Name
    endpoint: Endpoint
    declared: Declared

    @staticmethod
    def of(name: Name, url: str, declared: Declared, golden: GoldenSet, policy: GateSettings) -> EndpointSide:
        """Connect to it.

        :raises UsageError: the URL is none, or the model is not to be told.
        :raises ServerError: it does not answer.
        """
        turn = next((turn for turn in golden.turns if turn.tools), golden.turns[0])  # tools are what servers refuse
        request = build_request(turn, policy.sampling)
        return EndpointSide(name, connect(url, name, request, declared.model), declared)

    @property
    def label(self) -> str:
        """Model and address."""
        return f"{self.endpoint.model} at {self.endpoint.url}"

    @property
    def digest(self) -> str:
        """The fingerprint of its answers: the weights are not to be seen."""
        return self.endpoint.fingerprint

    @property
    def weight_bytes(self) -> int | None:
        """Declared."""
        return self.declared.weight_bytes

    def variables(self) -> dict[str, Any]:
        """What was declared of it."""
        known = {
            variables.WEIGHTS: self.declared.weights,
            "kv_cache_dtype": self.declared.kv_cache_dtype,
            "engine": self.declared.engine,
        }
        given = {name: value for name, value in known.items() if value is not None}
        return {**given, **variables.declared_flags(self.declared.flags)}

    def engine(self) -> dict[str, Any]:
        """What is known of what serves it."""
        told = self.endpoint.told
        version = str(told.get("version") or self.declared.engine or told.get("server") or "unknown")
        return {
            "name": "endpoint",
            "version": version,
            "device": "unknown",
            "flags": list(self.declared.flags),
            "environment": {},
            "speed_representative": False,
            "notes": [f"The {self.name} is an endpoint: {self.endpoint.url}."],
        }

    def replays(
        self, store: Store, golden: GoldenSet, policy: GateSettings, progress: Progress
    ) -> tuple[StageOutput, ...]:
        """Ask it every turn."""
        return endpoint_replay.run(
            store,
            side=self.name,
            endpoint=self.endpoint,
            declared=self.declared.told(),
            golden=golden,
            sampling=policy.sampling,
            replay_settings=policy.replay,
            repeats=repeats(policy, self.name),
            progress=progress,
            label=f"replay {self.name}",
        )

    def conditions(self) -> list[str]:
        """The weights and flags behind it."""
        told = self.declared.told()
        said = "; ".join(f"{name} {value}" for name, value in told.items() if name != "model") or "nothing was declared"
        lines = [
            f"the {self.name}'s weights and flags, which the endpoint {self.endpoint.url} does not show ({said}). "
            f"Only its answers are measured: fingerprint {self.endpoint.fingerprint[:16]}."
        ]
        if self.endpoint.dropped:
            lines.append(
                f"the {self.name}'s endpoint refuses {', '.join(self.endpoint.dropped)}, so its requests go without."
            )
        return lines

    def reused(self, outputs: Sequence[StageOutput]) -> list[str]:
        """The condition that its replies are of an earlier time, where they were kept ones."""
        times = [started_at(output) for output in outputs if output.reused]
        if not times:
            return []
        return [
            f"replies of the {self.name} that were kept from {datetime.fromtimestamp(min(times), UTC):%Y-%m-%d %H:%M} "
            "UTC on and not asked for again: that its endpoint still serves this model, the fixed prompts alone show."
        ]


def _called(checkpoint: Checkpoint) -> str:
    """A name for people: of one that `quantize` made its format, of another directory its own name."""
    made = checkpoint.path.parent
    with contextlib.suppress(RecordError, KeyError, TypeError):
        recipe = record_of(made)["inputs"]["recipe"]
        return f"{recipe['scheme']} by {recipe['method']}, {made.name[:8]}"
    return checkpoint.path.name if Path(checkpoint.source).is_absolute() else checkpoint.source


def repeats(policy: GateSettings, name: Name) -> int:
    """Further replays of a side: where turns are sampled its other samples, else the baseline's noise floor."""
    samples = policy.sampling.samples
    return samples - 1 if samples > 1 or name == "candidate" else policy.noise.repeats


def _checkpoint(model: str, template: Path | None, store: Store, progress: Progress) -> Checkpoint:
    return resolve.run(store, model, progress, download_model_uri, template, either=True)
