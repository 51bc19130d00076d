"""What a ladder came to: the facts that its reports show and that ``ladder.json`` keeps.

The models are the form of the file: ``LadderRecord.model_json_schema()`` is its JSON Schema. Rates, limits and
margins are shares, as in the decision records of the candidates, from which they are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.errors import VERDICT_EXIT_CODES, Verdict

LADDER_FILE = "ladder.json"
CHEAPER = 0.01
"""Share of weight bytes that a candidate must save over another to count as smaller. Equal formats differ by less
(headers, zero points), and predicted sizes are right within it."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = int | Finite
"""A number of turns; a fraction where turns were sampled several times."""


class State(StrEnum):
    """What became of a candidate."""

    JUDGED = "judged"
    FAILED = "failed"
    """It could not be made or measured."""
    SKIPPED = "skipped"
    """It was not tried, because it could not have been chosen."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricFacts(_Part):
    """A gating metric of a candidate; None where no turn was scored."""

    metric: str
    verdict: Verdict
    baseline_rate: Finite | None
    candidate_rate: Finite | None
    lower: Finite | None
    margin: Finite
    b: Count
    c: Count

    @property
    def headroom(self) -> float | None:
        """How far the lower limit lies above minus the margin; negative: a loss beyond it is not ruled out."""
        return None if self.lower is None else self.lower + self.margin


class Judgement(_Part):
    """One gate run, as far as a ladder reads its record. ``run`` is the name of its directory beside the ladder's."""

    verdict: Verdict
    golden_set: str
    golden_set_digest: str
    turns: int
    why: str = Field(description="the weightiest reason")
    next_step: str
    metrics: tuple[MetricFacts, ...]
    baseline_weight_bytes: int
    candidate_weight_bytes: int | None
    speed_representative: bool
    quantize_s: Finite | None = Field(description="seconds that quantizing took; None where it is not on record")
    drift: Finite | None = Field(None, description="mean divergence of next tokens, nats; None where not measured")
    speed: Finite | None = Field(
        None, description="requests a second within the service level, the baseline's being 1; None without load"
    )
    run: str
    mlflow_run: str | None = None

    @property
    def replayed(self) -> bool:
        """Whether anything was asked; a run can be settled before."""
        return self.turns > 0

    @property
    def worst(self) -> MetricFacts | None:
        """The gating metric with the least headroom."""
        measured = [(row.headroom, row) for row in self.metrics if row.headroom is not None]
        return min(measured, key=lambda pair: pair[0])[1] if measured else None

    @property
    def flips(self) -> tuple[Count, Count]:
        """Outcomes on gating metrics that got worse, and that got better."""
        return sum(row.b for row in self.metrics), sum(row.c for row in self.metrics)


class Confirmation(_Part):
    """A second gate run of an accepted candidate, on scenarios that had no part in the choice."""

    verdict: Verdict
    note: str = Field(description="why, or the error that broke the run")
    run: str | None = None


class Candidate(_Part):
    """One recipe of the ladder.

    ``predicted_bytes`` is the size of its weights as reckoned beforehand; None where the recipe does not fit.
    ``note`` says why it failed or was skipped.
    """

    recipe: str
    state: State
    predicted_bytes: int | None = None
    judgement: Judgement | None = None
    confirmation: Confirmation | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """What is known of it at the end: INVALID when it failed; None when it was skipped."""
        if self.state is State.SKIPPED:
            return None
        if self.judgement is None:
            return Verdict.INVALID
        return self.confirmation.verdict if self.confirmation else self.judgement.verdict

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of its weights: as made, else as predicted."""
        made = self.judgement.candidate_weight_bytes if self.judgement else None
        return self.predicted_bytes if made is None else made


class ErrorBound(_Part):
    """Chance that the chosen candidate is bad; see :mod:`pipeline.statistics.selection`."""

    candidates: int
    alpha: Finite
    basis: Literal["boole", "fixed_sequence", "confirmed"]
    bound: Finite


class LadderRecord(_Part):
    """``ladder.json``. ``all`` says that every candidate was asked for, ``confirm`` what the ladder's file asks for."""

    schema_version: Literal[1] = 1
    model: str
    command: str
    verdict: Verdict
    exit_code: int
    chosen: str | None
    all: bool
    confirm: str | None
    alpha: Finite
    error: ErrorBound | None = Field(description="None where nothing is chosen")
    candidates: tuple[Candidate, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> LadderRecord:
        """An ACCEPT is one only with an accepted candidate, confirmed where that is asked for."""
        if self.exit_code != VERDICT_EXIT_CODES[self.verdict]:
            raise ValueError(f"exit_code {self.exit_code} is not that of {self.verdict}")
        if (self.verdict is Verdict.ACCEPT) != (self.chosen is not None) or (self.error is None) != (
            self.chosen is None
        ):
            raise ValueError("verdict, chosen candidate and error bound do not agree")
        for candidate in self.candidates:
            if candidate.recipe == self.chosen:
                judged = candidate.judgement is not None and candidate.judgement.verdict is Verdict.ACCEPT
                if not judged or candidate.verdict is not Verdict.ACCEPT:
                    raise ValueError(f"{self.chosen} was chosen without being accepted")
                if self.confirm is not None and candidate.confirmation is None:
                    raise ValueError(f"{self.chosen} was chosen without being confirmed")
                return self
        if self.chosen is not None:
            raise ValueError(f"{self.chosen} was chosen, but is no candidate")
        return self

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The gate runs of the candidates."""
        return tuple(candidate.judgement for candidate in self.candidates if candidate.judgement)

    @property
    def choice(self) -> Candidate | None:
        """The chosen candidate."""
        return next((candidate for candidate in self.candidates if candidate.recipe == self.chosen), None)


def judgement_of(decision: Mapping[str, Any], run: str, mlflow_run: str | None) -> Judgement:
    """The facts of a decision record that a ladder keeps."""
    golden = decision["golden_set"]
    rows = [row for row in decision["metrics"] if row["gating"]]
    return Judgement(
        verdict=decision["verdict"],
        golden_set=golden["name"],
        golden_set_digest=golden["digest"],
        turns=decision["accounting"]["turns"],
        why=decision["reasons"][0]["text"],
        next_step=decision["next_step"],
        metrics=tuple(MetricFacts(**{name: row[name] for name in MetricFacts.model_fields}) for row in rows),
        baseline_weight_bytes=decision["baseline"]["weight_bytes"],
        candidate_weight_bytes=decision["candidate"]["weight_bytes"],
        speed_representative=decision["engine"]["speed_representative"],
        quantize_s=decision["times"].get("quantize, seconds"),
        drift=next((row["mean"] for row in (decision["drift"] or {}).get("rows", ()) if row["group"] == "all"), None),
        speed=next((1 + row["change"] for row in decision["resources"] if _is_speed(row)), None),
        run=run,
        mlflow_run=mlflow_run,
    )


def _is_speed(row: Mapping[str, Any]) -> bool:
    return row["name"] == "throughput_at_slo" and row["change"] is not None


def cheapest(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one with the fewest weight bytes; the earlier of two whose sizes differ by less than :data:`CHEAPER`."""
    best: Candidate | None = None
    for candidate in candidates:
        if best is None or is_cheaper(candidate.weight_bytes, best):
            best = candidate
    return best


def is_cheaper(weight_bytes: int | None, than: Candidate) -> bool:
    """Whether so many bytes are fewer than those of ``than``, by :data:`CHEAPER` at least."""
    if weight_bytes is None or than.weight_bytes is None:
        return False
    return weight_bytes < (1 - CHEAPER) * than.weight_bytes


class Against(StrEnum):
    """What quality is weighed against."""

    BYTES = "bytes"
    SPEED = "speed"

    def of(self, candidate: Candidate) -> float | None:
        """A candidate's weight bytes, or its speed as a share of the baseline's."""
        if self is Against.BYTES:
            return candidate.weight_bytes
        return candidate.judgement.speed if candidate.judgement else None


def front(candidates: Iterable[Candidate], against: Against) -> list[tuple[float, float, Candidate]]:
    """The Pareto front of the measured candidates, the smallest or fastest first: (figure, headroom, candidate).

    A candidate is on it when no other is at least as small (as fast) and has at least its headroom, one of both
    strictly. INVALID ones are left out: their figures are no basis.
    """
    sign = 1 if against is Against.BYTES else -1
    points = sorted(plotted(candidates, against), key=lambda point: (sign * point[0], -point[1]))
    best, found = float("-inf"), []
    for figure, headroom, candidate in points:
        if headroom > best:
            best = headroom
            found.append((figure, headroom, candidate))
    return found


def plotted(candidates: Iterable[Candidate], against: Against) -> list[tuple[float, float, Candidate]]:
    """Candidates with figures that may be compared: (bytes or speed, headroom, candidate)."""
    points = []
    for candidate in candidates:
        judged, figure = candidate.judgement, against.of(candidate)
        if judged is None or judged.verdict is Verdict.INVALID or figure is None:
            continue
        worst = judged.worst
        if worst is not None and worst.headroom is not None:
            points.append((figure, worst.headroom, candidate))
    return points
