"""What a diagnosis found: the facts that its reports show and that ``diagnosis.json`` keeps.

The models are the form of the file: ``DiagnosisRecord.model_json_schema()`` is its JSON Schema. Drifts are in nats a
token: the mean Kullback-Leibler divergence of a changed model's next-token distribution from the baseline's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import Verdict

DIAGNOSIS_FILE = "diagnosis.json"
Nats = Annotated[float, Field(allow_inf_nan=False)]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measured(_Facts):
    """One changed model on the turns of the diagnosis."""

    drift: Nats
    same_words: int = Field(description="turns on which it would choose the baseline's every token")


class PartFacts(_Facts):
    """What the engine multiplies as one, with the drift that it causes when it alone is the candidate's."""

    name: str
    layer: int
    kind: str
    bits: int
    alone: Measured
    promoted_to: str | None = Field(description="8-bit scheme or 'full' in the proposed recipe; None: left as it is")
    extra_bytes: int = Field(description="what the proposal adds for it, or would add")


class Point(_Facts):
    """The candidate with the ``promoted`` most worthwhile parts at more bits."""

    promoted: int
    extra_bytes: int
    measured: Measured


class SliceFacts(_Facts):
    """One slice: lost turns, those of them that were measured, the candidate's drift there, the part that adds most."""

    slice: str
    lost: int
    measured: int
    drift: Nats | None
    worst_part: str | None


class TurnFacts(_Facts):
    """One measured turn."""

    turn_id: str
    critical: bool
    metrics: tuple[str, ...]
    tokens: int
    drift: Nats
    same_words: bool


class KvFacts(_Facts):
    """A quantized KV cache: what it does alone, and what the weights do without it."""

    alone: Measured
    weights: Measured
    kept: bool = Field(description="whether the proposal keeps it")


class Proposal(_Facts):
    """The recipe to try next. ``file`` lies beside the record."""

    name: str
    file: str
    recipe: dict[str, Any]
    weight_bytes: int = Field(description="predicted")
    predicted: Measured = Field(description="with the candidate's own weights where nothing is promoted")


class Tried(_Facts):
    """What the gate said of the proposal. ``run`` is the directory beside the diagnosis."""

    verdict: Verdict
    exit_code: int
    why: str
    weight_bytes: int | None
    run: str
    mlflow_run: str | None


class DiagnosisRecord(_Facts):
    """``diagnosis.json``."""

    schema_version: Literal[1] = 1
    model: str
    recipe: str
    command: str
    verdict: Verdict = Field(description="of the run that is diagnosed")
    exit_code: int
    golden_set: str
    baseline_bytes: int
    candidate_bytes: int
    smoothed: bool = Field(description="whole layers were measured, because factors were moved inside them")
    lost: int = Field(description="turns that the candidate lost on gating metrics")
    agreement: Nats = Field(description="share of the answers' tokens that the baseline would choose")
    tokens: int
    device: str
    whole: Measured
    goal: Nats = Field(description="drift that the proposal is to stay below")
    restore: float
    kv: KvFacts | None
    turns: tuple[TurnFacts, ...]
    slices: tuple[SliceFacts, ...]
    parts: tuple[PartFacts, ...]
    curve: tuple[Point, ...]
    proposal: Proposal | None
    no_proposal: str = Field("", description="why there is none")
    tried: Tried | None = None

    @property
    def worst(self) -> list[PartFacts]:
        """Parts by the drift that they cause alone, the worst first."""
        return sorted(self.parts, key=lambda part: (-part.alone.drift, part.name))

    @property
    def promoted(self) -> list[PartFacts]:
        """The parts that the proposal keeps at more bits."""
        return [part for part in self.worst if part.promoted_to is not None]

    def share(self, parts: Iterable[PartFacts]) -> float:
        """What some parts cause of the sum of what all cause alone; 0 where none causes any."""
        total = sum(part.alone.drift for part in self.parts)
        return sum(part.alone.drift for part in parts) / total if total > 0 else 0.0

    def by_kind(self) -> dict[str, list[PartFacts]]:
        """Parts by kind, the kind that causes most first."""
        return self._sorted("kind")

    def by_layer(self) -> dict[Any, list[PartFacts]]:
        """Parts by layer, the layer that causes most first."""
        return self._sorted("layer")

    def _sorted(self, name: str) -> dict[Any, list[PartFacts]]:
        groups: dict[Any, list[PartFacts]] = defaultdict(list)
        for part in self.parts:
            groups[getattr(part, name)].append(part)
        return dict(sorted(groups.items(), key=lambda group: -self.share(group[1])))
