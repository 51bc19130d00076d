"""Stage ``evaluate``: the replies of one replay to outcomes, without serving anything.

Output directory::

    outcomes.jsonl         {"turn_id", "metric", "status", "label", "evidence"} a line, by turn and metric
    outcomes_summary.json  counts by metric, status and label, and of what could not be scored

Every turn of the golden set has one outcome per metric; a turn without a kept reply is unscorable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evaluators
from evaluators.turn import Outcome, Status
from pipeline.digests import canonical_json, file_digest
from pipeline.errors import RecordError
from pipeline.progress import Progress
from pipeline.serving.records import read_replies
from pipeline.store import StageOutput, Store

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet

STAGE = "evaluate"
REPLIES, OUTCOMES, SUMMARY = "replies.jsonl", "outcomes.jsonl", "outcomes_summary.json"
PROGRESS_EVERY = 50


def inputs(golden: GoldenSet, replies: Path) -> dict[str, Any]:
    """What the outcomes depend on. Of the replay its replies: a later run may add answers that an earlier lacked."""
    return {"replies": file_digest(replies), "golden": golden.digest, "evaluators": evaluators.source_digest()}


def run(store: Store, golden: GoldenSet, replay_dir: Path, side: str, progress: Progress) -> StageOutput:
    """Score the replies in ``replay_dir`` against ``golden``, or reuse the kept outcomes.

    :param side: how progress names it, e.g. ``baseline``.
    :raises RecordError: no replies, an unreadable record, or one of a turn that the set does not hold.
    """
    label = f"{STAGE} {side}"
    path = replay_dir / REPLIES
    remedy = f"Remove {replay_dir} and run again."
    if not path.is_file():
        raise RecordError(f"{path}: no replies were kept", remedy)

    def build(directory: Path) -> None:
        replies = read_replies(path)
        stray = sorted(replies.keys() - {turn.id for turn in golden.turns})
        if stray:
            raise RecordError(f"{path}: replies to turns that are not in golden set {golden.name}: {stray[:5]}", remedy)
        outcomes: list[Outcome] = []
        for done, turn in enumerate(golden.turns, start=1):
            outcomes += evaluators.evaluate(turn, replies.get(turn.id))
            if done % PROGRESS_EVERY == 0 or done == len(golden.turns):
                progress.advance(label, done, len(golden.turns))
        outcomes.sort(key=lambda outcome: (outcome.turn_id, outcome.metric))
        summary = summarise(outcomes)
        _write_lines(directory / OUTCOMES, map(_line, outcomes))
        _write_lines(directory / SUMMARY, [json.dumps(summary, indent=1, sort_keys=True)])
        if summary["evaluator_errors"]:
            first = next(outcome for outcome in outcomes if outcome.label == "evaluator_error")
            progress.say(
                label,
                f"{summary['evaluator_errors']} outcomes could not be scored because an evaluator failed; "
                f"the first: {first.turn_id}, {first.metric}: {first.evidence[0]}",
            )

    return store.make(STAGE, inputs(golden, path), build)


def summarise(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Counts by metric, status and label; ``no_reply`` and ``evaluator_errors`` count outcomes, not turns."""
    counts: dict[str, dict[str, dict[str, int]]] = {metric: {} for metric in evaluators.METRICS}
    unscorable = {"no_reply": 0, "evaluator_error": 0}
    for outcome in outcomes:
        labels = counts[outcome.metric].setdefault(outcome.status.value, {})
        labels[outcome.label] = labels.get(outcome.label, 0) + 1
        if outcome.status is Status.UNSCORABLE:
            unscorable[outcome.label] += 1
    return {
        "metrics": counts,
        "no_reply": unscorable["no_reply"],
        "evaluator_errors": unscorable["evaluator_error"],
    }


def _line(outcome: Outcome) -> str:
    return canonical_json(
        {
            "turn_id": outcome.turn_id,
            "metric": outcome.metric,
            "status": outcome.status.value,
            "label": outcome.label,
            "evidence": list(outcome.evidence),
        }
    )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(f"{line}\n" for line in lines)
