"""Words for people: figures as they read them, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.errors import Verdict
from pipeline.statistics.facts import MetricResult, Reason, ReasonCode

_SHOWN = 5

_STEPS = {
    ReasonCode.METRICS_HELD: "Ship it: sign off this run, and keep the baseline at hand for a rollback.",
    ReasonCode.METRIC_LOSS: (
        "Look at the flips of that metric. Of a candidate made here `quant-gate diagnose` names the layers that hurt "
        "and writes a recipe that spares them; or quantize more gently (fp8-dynamic before int8-w8a8 before INT4, "
        "smaller groups, calibration on your own transcripts)."
    ),
    ReasonCode.SLICE_LOSS: (
        "Look at the flips of that slice. Of a candidate made here `quant-gate diagnose` names the layers that hurt "
        "and writes a recipe that spares them; or quantize more gently, or calibrate on text that covers the slice."
    ),
    ReasonCode.CRITICAL_TURN: (
        "Read the critical flips first: such turns may not be lost at all. Quantize more gently; where the baseline "
        "is right only by luck, raise noise.repeats and see whether it stays right."
    ),
    ReasonCode.SCENARIO_WIPED_OUT: (
        "Read that scenario's flips: a whole situation is lost, which an average hides. Quantize more gently."
    ),
    ReasonCode.NO_BENEFIT: "Nothing is gained by shipping it: choose a build that saves more, or lower the demand.",
    ReasonCode.BENEFIT_UNDECIDED: (
        "Measure the load (--load), or again with more repeats or prompts (configs/slo.yaml), on a machine that does "
        "nothing else, or take what does not matter to you out of the policy's `benefit` (null); of an endpoint, "
        "declare what its weights take."
    ),
    ReasonCode.NOISE_ABOVE_MARGIN: "Add turns, or make serving repeatable (batch-invariant mode, fixed concurrency).",
    ReasonCode.SET_UNFINISHED: "Replay the rest of the golden set.",
    ReasonCode.UNDERPOWERED: (
        "Add golden turns for the metrics named, in new scenarios rather than old ones, or set the margins, before "
        "the run, to the loss that you would really ship. `--explore` runs it all the same, but cannot ACCEPT."
    ),
    ReasonCode.EXPLORATORY: (
        "Look at the flips. For a release, run it without --explore, on a golden set that can decide "
        "(`quant-gate plan`)."
    ),
    ReasonCode.ARTIFACT_BROKEN: (
        "Mend the candidate's files as each finding says, or quantize again; `quant-gate inspect` looks at them alone."
    ),
    ReasonCode.ARTIFACT_DIFFERS: (
        "Take from the baseline what each finding names, so that only the weights differ, and run again."
    ),
    ReasonCode.PROMPTS_DIFFER: "Compare chat template, tokenizer and its settings of the two checkpoints.",
    ReasonCode.CONDITIONS_DIFFER: "Serve and ask both sides alike: same engine, flags, parser and sampling; run again.",
    ReasonCode.DRIFT: (
        "Compare the candidate's weights with the baseline's (`quant-gate inspect`): no careful quantization drifts so "
        "far."
    ),
    ReasonCode.DRIFT_UNKNOWN: (
        "Read the server log. Where this engine cannot list prompt log-probabilities, take `drift` out of the policy."
    ),
    ReasonCode.UNSCORABLE: (
        "Run again: what got no answer is asked again, answers are kept. What the server refused (`refused:` in "
        "replies.jsonl) it will refuse again: see why, a prompt may be longer than max_model_len. Read the server log."
    ),
    ReasonCode.NO_DATA: "Add golden turns that feed it, or set gating: false for that metric in configs/gate.yaml.",
    ReasonCode.UNDECLARED_METRIC: "Name the metric in configs/gate.yaml, with gating: false if it is not to decide.",
    ReasonCode.PAIRS_DIFFER: "Evaluate both sides again with the same evaluators and the same golden set.",
    ReasonCode.BAD_RECORDS: "Run `quant-gate golden check`, then evaluate both sides again.",
    ReasonCode.BASELINE_BELOW_FLOOR: (
        "Mend the baseline before quantizing it: its prompt or chat template, its tool parser, or the golden turns "
        "themselves. A floor below what the product needs only hides the problem."
    ),
    ReasonCode.ANOMALOUS_GAIN: (
        "Check that only the weights differ: chat template, calibration text that contains golden turns, evaluators."
    ),
    ReasonCode.NOISE: "Make serving repeatable (batch-invariant mode, lower concurrency), then replay both sides.",
}


def percent(share: float, *, sign: bool = False) -> str:
    """A share as percent, two digits at most: ``3 %``, ``-2.11 %``; with ``sign`` also ``+1.5 %``."""
    text = f"{share * 100:+.2f}" if sign else f"{share * 100:.2f}"
    text = text.rstrip("0").rstrip(".")
    return ("0" if text in {"+0", "-0"} else text) + " %"


def at_most(share: float) -> str:
    """An upper limit with one decimal, rounded up as in the reports, so that it never shows less than was computed."""
    return f"at most {math.ceil(round(share * 1000, 6)) / 10:.1f} %"


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def next_step(reasons: Sequence[Reason], metrics: Sequence[MetricResult]) -> str:
    """What to try next, from the weightiest reason."""
    first = reasons[0]
    if first.code is ReasonCode.ANOMALOUS_GAIN and first.verdict is Verdict.REJECT:
        return _STEPS[ReasonCode.METRIC_LOSS]
    if first.code is not ReasonCode.METRIC_UNDECIDED:
        return _STEPS[first.code]
    undecided = [m for m in metrics if m.gating and m.verdict is Verdict.INCONCLUSIVE]
    if not undecided:  # a metric that is measured elsewhere
        return f"Take a suite with more items for {first.metric}, or quantize more gently."
    needs = [f"{m.metric} {m.n_to_decide} turns (has {m.n})" for m in undecided if m.n_to_decide]
    if len(needs) == len(undecided):
        return f"Add golden turns, in new scenarios rather than old ones: {', '.join(needs)}. Or quantize more gently."
    return "More turns of this kind will hardly decide it: the loss is close to the margin. Quantize more gently."
