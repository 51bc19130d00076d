"""Sample ladders for looking at reports. Every figure here is made up.

``python ladder_samples.py DIRECTORY`` (with the project root on the path) writes their pages and tables.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipeline.errors import VERDICT_EXIT_CODES, Verdict
from pipeline.reporting.ladder.facts import (
    Candidate,
    Confirmation,
    ErrorBound,
    Judgement,
    LadderRecord,
    MetricFacts,
    State,
)
from pipeline.reporting.ladder.page import render
from pipeline.reporting.ladder.table import ladder_markdown

BASELINE_BYTES = 269_060_552
RATES = {
    "policy_adherence": 0.91,
    "tool_call_correct": 0.88,
    "refuses_when_required": 0.86,
    "complies_when_allowed": 0.93,
    "free_of_degeneration": 0.99,
}


def judged(
    verdict: Verdict,
    size: int,
    lower: float,
    *,
    flips: tuple[int, int] = (3, 2),
    turns: int = 340,
    run: str = "a-run",
    speed: float | None = None,
) -> Judgement:
    """A gate run whose worst metric, the right tool call, has that lower limit; the margin is 6 points."""
    rows = [
        MetricFacts(
            metric=name,
            verdict=verdict if name == "tool_call_correct" else Verdict.ACCEPT,
            baseline_rate=rate,
            candidate_rate=rate + (flips[1] - flips[0]) / turns if name == "tool_call_correct" else rate,
            lower=lower if name == "tool_call_correct" else -0.011,
            margin=0.06,
            b=flips[0] if name == "tool_call_correct" else 0,
            c=flips[1] if name == "tool_call_correct" else 0,
        )
        for name, rate in RATES.items()
    ]
    return Judgement(
        verdict=verdict,
        golden_set="support (160 of 610 scenarios)",
        golden_set_digest="5a" * 32,
        turns=turns,
        why="tool_call_correct: figures of a sample.",
        next_step="Do as the sample says.",
        metrics=tuple(rows),
        baseline_weight_bytes=BASELINE_BYTES,
        candidate_weight_bytes=size,
        speed_representative=False,
        quantize_s=83.4,
        drift=0.01064,
        speed=speed,
        run=run,
        mlflow_run="0123456789abcdef0123456789abcdef",
    )


def candidate(recipe: str, verdict: Verdict, size: int, lower: float, **figures: Any) -> Candidate:
    run = f"20250102-030405-demo-{recipe}"
    return Candidate(
        recipe=recipe,
        state=State.JUDGED,
        predicted_bytes=size,
        judgement=judged(verdict, size, lower, run=run, **figures),
    )


def record(
    candidates: list[Candidate], chosen: str | None = None, verdict: Verdict = Verdict.ACCEPT, **facts: Any
) -> LadderRecord:
    bound = ErrorBound(candidates=len(candidates), alpha=0.05, basis="boole", bound=0.05 * len(candidates))
    return LadderRecord(
        **{
            "model": "demo",
            "command": "quant-gate ladder demo --all",
            "verdict": verdict,
            "exit_code": VERDICT_EXIT_CODES[verdict],
            "chosen": chosen,
            "all": True,
            "confirm": None,
            "alpha": 0.05,
            "error": bound if chosen else None,
            "candidates": tuple(candidates),
            **facts,
        }
    )


FP8 = candidate("fp8-dynamic", Verdict.ACCEPT, 163_204_712, -0.021)
INT8 = candidate("int8-w8a8", Verdict.INCONCLUSIVE, 163_310_080, -0.064, flips=(9, 6))
GPTQ = candidate("int4-gptq", Verdict.ACCEPT, 113_030_912, -0.058, flips=(8, 8))
AWQ = candidate("int4-awq", Verdict.REJECT, 114_030_912, -0.113, flips=(27, 9))
RTN = candidate("int4-rtn", Verdict.REJECT, 113_028_864, -0.412, flips=(88, 4))
BLOCK = Candidate(
    recipe="fp8-block",
    state=State.FAILED,
    note="recipe fp8-block: blocks of 128 rows do not divide the output dimension of\n  model.layers.*.mlp.up_proj",
)
MIXED = Candidate(
    recipe="int4-mixed",
    state=State.SKIPPED,
    predicted_bytes=121_000_000,
    note="not smaller than int4-gptq, which passes; --all measures it as well",
)


def samples() -> dict[str, LadderRecord]:
    unconfirmed = Confirmation(verdict=Verdict.INCONCLUSIVE, note="tool_call_correct: undecided.", run="another-run")
    confirmed = Confirmation(verdict=Verdict.ACCEPT, note="all hold.", run="one-more-run")
    bound = ErrorBound(candidates=2, alpha=0.05, basis="confirmed", bound=0.005)
    return {
        "chosen": record([FP8, INT8, GPTQ, AWQ, RTN, BLOCK], "int4-gptq"),
        "some": record([FP8, GPTQ, MIXED], "int4-gptq", all=False, command="quant-gate ladder demo"),
        "none": record([INT8, AWQ, RTN, BLOCK], None, Verdict.INCONCLUSIVE),
        "loaded": record(
            [
                candidate("fp8-dynamic", Verdict.ACCEPT, 163_204_712, -0.021, speed=1.42),
                candidate("int8-w8a8", Verdict.ACCEPT, 163_310_080, -0.030, speed=1.1),
                candidate("int4-awq", Verdict.REJECT, 114_030_912, -0.113, flips=(27, 9), speed=0.9),
                BLOCK,
            ],
            "fp8-dynamic",
            command="quant-gate ladder demo --load --all",
        ),
        "broken": record([BLOCK], None, Verdict.INVALID),
        "confirmed": record(
            [
                FP8.model_copy(update={"confirmation": confirmed}),
                GPTQ.model_copy(update={"confirmation": unconfirmed}),
            ],
            "fp8-dynamic",
            confirm="half",
            error=bound,
        ),
    }


if __name__ == "__main__":
    for name, ladder in samples().items():
        (Path(sys.argv[1]) / f"ladder-{name}.html").write_text(render(ladder), encoding="utf-8")
        (Path(sys.argv[1]) / f"ladder-{name}.md").write_text(ladder_markdown(ladder), encoding="utf-8")
