"""Evaluators: pure functions from a turn and a reply to outcomes, and the one place that runs them.

For every turn and side there is exactly one outcome per metric of :data:`METRICS`. Whether a metric
applies is decided by the turn alone. An applicable metric is unscorable, never passed and never
dropped, when there is no usable reply (label ``no_reply``) or when its evaluator raises (label
``evaluator_error``, with the exception as evidence).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import cast

from evaluators import degeneration, policy, refusals, tool_calls
from evaluators.results import clip
from evaluators.turn import Evaluator, Outcome, Reply, Status, Turn

__all__ = ["METRICS", "evaluate", "source_digest"]

_MODULES: tuple[ModuleType, ...] = (policy, tool_calls, refusals, degeneration)

METRICS: tuple[str, ...] = tuple(metric for module in _MODULES for metric in module.METRICS)
"""All metrics, in the order of reports."""


def evaluate(turn: Turn, reply: Reply | None) -> list[Outcome]:
    """Score every metric of one reply; ``None`` stands for a reply that was never obtained."""
    outcomes: list[Outcome] = []
    for module in _MODULES:
        applicability = cast("Mapping[str, Callable[[Turn], bool]]", module.METRICS)
        outcomes += _run(applicability, cast("Evaluator", module.evaluate), turn, reply)
    return outcomes


def _run(
    applicability: Mapping[str, Callable[[Turn], bool]], evaluator: Evaluator, turn: Turn, reply: Reply | None
) -> list[Outcome]:
    try:
        applicable = {metric: applies(turn) for metric, applies in applicability.items()}
        if reply is None or reply.error is not None:
            why = "no reply was kept" if reply is None else clip(str(reply.error))
            return _unscorable(turn, applicable, "no_reply", why)
        outcomes = {outcome.metric: outcome for outcome in evaluator(turn, reply)}
        return [outcomes[metric] for metric in applicability]
    except Exception as error:  # noqa: BLE001 - whatever it is, the turn must not count as passed
        everything = dict.fromkeys(applicability, True)
        return _unscorable(turn, everything, "evaluator_error", clip(f"{type(error).__name__}: {error}"))


def _unscorable(turn: Turn, applicable: Mapping[str, bool], label: str, evidence: str) -> list[Outcome]:
    return [
        Outcome(turn.id, metric, Status.UNSCORABLE, label, (evidence,))
        if applies
        else Outcome(turn.id, metric, Status.NOT_APPLICABLE, "not_applicable")
        for metric, applies in applicable.items()
    ]


def source_digest() -> str:
    """SHA-256 (hex) over the names and bytes of this package's modules: changed code, new outcomes."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        name = path.relative_to(Path(__file__).parent).as_posix()
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
