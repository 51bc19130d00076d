"""Small golden sets and outcomes for tests of the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluators.turn import Behaviour, Expectation, Outcome, Status, Turn
from pipeline.settings import GateSettings

Passes = Callable[[int], bool]
"""Whether turn number i passes."""


def always(_: int) -> bool:
    return True


def make_policy(metrics: Mapping[str, Any] | None = None, **fields: Any) -> GateSettings:
    """A policy of one gating metric ``m`` with a margin of 3 points and a floor of 70 %."""
    return GateSettings.model_validate({"metrics": metrics or {"m": {"margin": 0.03, "floor": 0.7}}, **fields})


def make_turns(
    count: int,
    *,
    per_scenario: int = 1,
    critical: Sequence[int] = (),
    slices: Callable[[int], tuple[str, ...]] = lambda i: (),
) -> list[Turn]:
    """Turns ``t000#1``, ... in scenarios ``s000``, ... of ``per_scenario`` turns."""
    return [
        Turn(
            id=f"t{i:03}#1",
            transcript_id=f"t{i:03}",
            scenario=f"s{i // per_scenario:03}",
            slices=slices(i),
            messages=(),
            tools=(),
            expect=Expectation(Behaviour.ANSWER, critical=i in critical),
            gold={},
        )
        for i in range(count)
    ]


def make_outcomes(turns: Sequence[Turn], passes: Passes = always, metric: str = "m") -> list[Outcome]:
    """One outcome of ``metric`` for each turn."""
    return [
        Outcome(turn.id, metric, Status.PASSED if passes(i) else Status.FAILED, "label", (f"evidence {i}",))
        for i, turn in enumerate(turns)
    ]


def constant(turns: Sequence[Turn], status: Status, metric: str) -> list[Outcome]:
    """The same status on every turn."""
    return [Outcome(turn.id, metric, status, "label") for turn in turns]
