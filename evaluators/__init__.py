"""Evaluators: pure functions from a turn and a reply to outcomes, and the one place that runs them.

For every turn and side there is exactly one outcome per metric of :data:`METRICS`. Whether a metric
applies is decided by the turn alone, its alternatives included. An applicable metric is unscorable,
never passed and never dropped, when there is no usable reply (label ``no_reply``) or when its
evaluator raises (label ``evaluator_error``, with the exception as evidence).

Where a turn has alternatives, the reply is read as one answer: the expectation under which most
applicable metrics pass, the earliest of several such. All metrics are scored against that one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from evaluators import degeneration, policy, refusals, tool_calls
from evaluators.alternatives import options
from evaluators.results import clip, not_applicable, unscorable
from evaluators.turn import Evaluator, Outcome, Reply, Status, Turn

__all__ = ["METRICS", "evaluate", "source_digest"]

_MODULES: tuple[ModuleType, ...] = (policy, tool_calls, refusals, degeneration)

METRICS: tuple[str, ...] = tuple(metric for module in _MODULES for metric in module.METRICS)
"""All metrics, in the order of reports."""


def evaluate(turn: Turn, reply: Reply | None) -> list[Outcome]:
    """Score every metric of one reply; ``None`` stands for a reply that was never obtained."""
    answers = options(turn)
    scores: list[list[Outcome]] = [[] for _ in answers]
    for module in _MODULES:
        for score, outcomes in zip(scores, _run(module, turn, answers, reply), strict=True):
            score.extend(outcomes)
    return max(scores, key=lambda score: sum(outcome.status is Status.PASSED for outcome in score))


def _run(module: ModuleType, turn: Turn, answers: Sequence[Turn], reply: Reply | None) -> list[list[Outcome]]:
    """The outcomes of one module's metrics for each of ``answers``, which are the options of ``turn``."""
    applicability = cast("Mapping[str, Callable[[Turn], bool]]", module.METRICS)
    evaluator = cast("Evaluator", module.evaluate)
    try:
        applicable = {metric: applies(turn) for metric, applies in applicability.items()}
        if reply is None or reply.error is not None:
            why = "no reply was kept" if reply is None else clip(str(reply.error))
            return [_unscorable(turn, applicable, "no_reply", why)] * len(answers)
        if module is degeneration:  # reads no expectation
            return [_of(applicable, turn, evaluator(turn, reply))] * len(answers)
        return [_of(applicable, turn, evaluator(answer, reply)) for answer in answers]
    except Exception as error:  # noqa: BLE001 - whatever it is, the turn must not count as passed
        everything = dict.fromkeys(applicability, True)
        why = clip(f"{type(error).__name__}: {error}")
        return [_unscorable(turn, everything, "evaluator_error", why)] * len(answers)


def _of(applicable: Mapping[str, bool], turn: Turn, outcomes: Sequence[Outcome]) -> list[Outcome]:
    found = {outcome.metric: outcome for outcome in outcomes}
    return [found[metric] if applies else not_applicable(turn, metric) for metric, applies in applicable.items()]


def _unscorable(turn: Turn, applicable: Mapping[str, bool], label: str, evidence: str) -> list[Outcome]:
    return [
        unscorable(turn, metric, label, evidence) if applies else not_applicable(turn, metric)
        for metric, applies in applicable.items()
    ]


def source_digest() -> str:
    """SHA-256 (hex) over the names and bytes of this package's modules: changed code, new outcomes."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        name = path.relative_to(Path(__file__).parent).as_posix()
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
