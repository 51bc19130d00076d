"""A small golden set, outcomes with every kind of finding, and a context for decision records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluators.turn import Behaviour, Expectation, Outcome, Status, Turn
from pipeline.evidence.record import BaselineFacts, CandidateFacts, RecordContext
from pipeline.golden import GoldenSet
from pipeline.settings import GateSettings

POLICY = GateSettings.model_validate(
    {
        "metrics": {
            "m": {"margin": 0.03, "floor": 0.7},
            "k": {"margin": 0.03, "floor": 0.7},
            "unfed": {"gating": False, "margin": 0.03},
        }
    }
)


def make_golden(count: int = 300) -> GoldenSet:
    turns = tuple(
        Turn(
            id=f"t{i:03}#1",
            transcript_id=f"t{i:03}",
            scenario=f"s{i // 3:03}",
            slices=("refunds",) if i % 2 else ("tool_calls", "long_history"),
            messages=(),
            tools=(),
            expect=Expectation(Behaviour.ANSWER, critical=i < 10),
            gold={},
        )
        for i in range(count)
    )
    slices = {"refunds": count // 2, "tool_calls": count // 2, "long_history": count // 2}
    return GoldenSet("support", Path("golden"), "5e" * 32, count, count // 3, turns, slices)


def make_outcomes(turns: Sequence[Turn], passes: Callable[[int], bool]) -> list[Outcome]:
    """``m`` as told, ``k`` always passed, ``unfed`` applicable nowhere."""
    outcomes = []
    for i, turn in enumerate(turns):
        status = Status.PASSED if passes(i) else Status.FAILED
        outcomes.append(Outcome(turn.id, "m", status, "wrong_tool", ("called “lookup” → got 42 €",)))
        outcomes.append(Outcome(turn.id, "k", Status.PASSED, "held"))
        outcomes.append(Outcome(turn.id, "unfed", Status.NOT_APPLICABLE, "not_applicable"))
    return outcomes


def make_context(**times: float) -> RecordContext:
    return RecordContext(
        baseline=BaselineFacts("demo", None, "ba" * 32, 1000),
        candidate=CandidateFacts("ca" * 32, 600, {"name": "fp8-dynamic", "ignore": ["lm_head"]}),
        engine={
            "name": "vllm",
            "version": "0.32.0",
            "device": "cpu",
            "hardware": "a processor",
            "flags": ["--seed=0"],
            "environment": {"OMP_NUM_THREADS": "1"},
            "speed_representative": False,
            "notes": ["reference FP8 kernel"],
        },
        inputs={"baseline_replies": "01" * 32},
        times=times,
    )


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> Path:
    """``outcomes.jsonl`` as the evaluate stage writes it."""
    lines = [
        json.dumps(
            {
                "turn_id": outcome.turn_id,
                "metric": outcome.metric,
                "status": outcome.status.value,
                "label": outcome.label,
                "evidence": list(outcome.evidence),
            },
            ensure_ascii=False,
        )
        for outcome in outcomes
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
