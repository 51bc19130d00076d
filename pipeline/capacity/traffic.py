"""Requests in flight from users and their habits, and how fast tokens can be made at all."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.capacity.model import Model
from pipeline.capacity.weights import Weights
from pipeline.inspection.hardware import Gpu


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is to be served: so many users, each of whom reads and types for ``think_s`` after every answer.

    :ivar answer_s: seconds from sending a message to the end of its answer, queueing included.
    """

    users: int
    think_s: float
    answer_s: float

    @property
    def requests_per_s(self) -> float:
        """Messages a second."""
        return self.users / (self.think_s + self.answer_s)

    @property
    def in_flight(self) -> float:
        """Requests in flight on average, by Little's law: rate times time in the system (Little 1961).

        With the interactive response time law (Denning & Buzen 1978), rate = users / (think time + answer time).
        """
        return self.requests_per_s * self.answer_s


def decode_bytes(model: Model, weights: Weights, sequences: int, context: int, kv_bytes: int, cards: int) -> float:
    """Bytes that each card reads for one token of each of ``sequences``.

    All weights but the embedding, of which single rows are read unless it is the output head too; of the experts
    those that any sequence needs, with routing taken as uniform: E (1 - (1 - k/E)^n) of E; the whole cache.
    """
    tied = not any(part.group == "head" for part in weights.parts)
    routed = 1.0
    if model.experts:
        routed = 1 - (1 - model.experts.active / model.experts.count) ** sequences
    read = 0.0
    for part in weights.parts:
        if part.group == "embedding" and not tied:
            continue
        read += part.bytes_on_each(cards) * (routed if part.group == "experts" else 1)
    tokens = sum(context if window is None else min(window, context) for window in model.attention.windows)
    return read + sequences * tokens * model.attention.layer_bytes(kv_bytes, cards)


def decode_ceiling(
    model: Model, weights: Weights, gpu: Gpu, *, sequences: int, context: int, kv_bytes: int, cards: int
) -> float:
    """Output tokens a second, of all sequences together, that the memory's peak bandwidth allows: an upper limit."""
    read = decode_bytes(model, weights, sequences, context, kv_bytes, cards)
    return sequences * gpu.bandwidth_gb_s * 1e9 / read
