"""The candidate was sampled at another temperature.

Settings edited between the two replays: what differs is the dice, not the weights.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case
from pipeline.serving.replay import build_request, request_digest

CAUGHT_BY = "CONDITIONS_DIFFER candidate sampling"


def inject(case: Case) -> Case:
    """Give every request of the candidate the digest that another temperature makes."""
    warm = case.policy.sampling.model_copy(update={"temperature": 0.7})
    asked = {turn.id: request_digest(build_request(turn, warm)) for turn in case.golden.turns}
    candidate = {name: replace(record, request_digest=asked[name]) for name, record in case.candidate.items()}
    return replace(case, candidate=candidate)
