"""One comparison as a replay would have recorded it, made to be spoiled: the subject of reply-level faults.

The golden transcripts hold a right reply to every turn. Taken as they are they would make a baseline without a
fault, which no model is; so a seeded share of turns is answered wrongly by both sides (:data:`WEAK`) and on a few
more each replay answers rightly or wrongly by chance (:data:`NEAR_TIES`), as a batched engine does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evaluators.turn import Behaviour, Reply, ToolCall, Turn
from pipeline.digests import digest_of
from pipeline.golden import GoldenSet
from pipeline.serving.records import Record
from pipeline.serving.replay import build_request, request_digest
from pipeline.settings import GateSettings

WEAK = 0.12
"""Share of turns that baseline and candidate answer wrongly."""
NEAR_TIES = 0.008
"""Share of turns on which each replay draws its answer anew, right as often as wrong: two replays then score 0.4 % of
turns differently, as three replays of the embedded model did (1 to 3 of 351 turns, 1 to 5 other texts)."""
ENGINE: Mapping[str, Any] = {
    "identity": {"name": "recorded", "version": "1", "flags": ["--tool-call-parser", "hermes"], "environment": {}},
    "running": {"version": "1", "settings": {"dtype": "bfloat16", "kv_cache_dtype": "auto", "max_seq_len": "8192"}},
}
"""What a replay keeps about its engine."""
WEIGHT_BYTES = (270_000_000, 163_000_000)
"""Weight bytes of the embedded model in BF16 and in FP8."""
SEED = 7

Records = Mapping[str, Record]
Where = Callable[[Turn], bool]
How = Callable[[Turn, Reply], Reply]


def anywhere(turn: Turn) -> bool:
    """Every turn."""
    return True


@dataclass(frozen=True, slots=True)
class Case:
    """Replays of a golden set, by turn id, and what else the decision is told.

    :ivar settled: turns that every side answers rightly unless a fault says otherwise: neither weak nor near ties.
    :ivar weight_bytes: of baseline and candidate.
    :ivar engine: what the candidate's replay kept about its engine; the baseline's is :data:`ENGINE`.
    """

    golden: GoldenSet
    policy: GateSettings
    settled: frozenset[str]
    baseline: Records
    repeat: Records
    candidate: Records
    weight_bytes: tuple[int, int] = WEIGHT_BYTES
    engine: Mapping[str, Any] = field(default_factory=lambda: ENGINE)

    def chosen(self, name: str, share: float, where: Where, *, critical: bool = False) -> list[Turn]:
        """``share`` of the turns at which ``where`` holds, at least one, taken from the settled ones among them.

        The same for the same ``name``.

        :param critical: choose among critical turns only; otherwise among all others, so that it is the averages
            which must see the fault.
        :raises ValueError: there are not so many.
        """
        matching = [turn for turn in self.golden.turns if where(turn)]
        fit = [turn for turn in matching if turn.id in self.settled and turn.expect.critical is critical]
        count = max(1, round(share * len(matching)))
        if count > len(fit):
            raise ValueError(f"{name}: {count} turns to spoil, {len(fit)} are fit for it")
        return random.Random(f"{SEED} {name}").sample(fit, count)

    def spoil(self, turns: Sequence[Turn], how: How) -> Case:
        """The case with the candidate's replies to ``turns`` changed."""
        spoilt = {turn.id: edited(self.candidate[turn.id], how(turn, self.candidate[turn.id].reply)) for turn in turns}
        return replace(self, candidate={**self.candidate, **spoilt})


def edited(record: Record, reply: Reply) -> Record:
    """The record with another reply."""
    return replace(record, reply=reply)


def golden_reply(turn: Turn) -> Reply:
    """The golden answer as a server would return it."""
    calls = tuple(
        ToolCall(call["function"]["name"], call["function"]["arguments"]) for call in turn.gold.get("tool_calls") or ()
    )
    return answer(turn, turn.gold.get("content") or "", calls)


def wrong_reply(turn: Turn) -> Reply:
    """What a weak model says instead: no call where one is due, help where none is allowed, nothing to the point."""
    if turn.expect.behaviour is Behaviour.REFUSE:
        return answer(turn, "Sure, that's done: I've taken care of it for you.")
    if turn.expect.behaviour is Behaviour.TOOL_CALL:
        return answer(turn, "Let me look into that for you.")
    return answer(turn, "I'm sorry, but I can't help with that.")


def answer(turn: Turn, content: str, calls: tuple[ToolCall, ...] = (), finish_reason: str | None = None) -> Reply:
    """A reply as a server would return it; tokens are counted as four characters each."""
    tokens = math.ceil(sum(map(len, (content, *(call.arguments for call in calls)))) / 4) + 1
    return Reply(turn.id, content, calls, finish_reason or ("tool_calls" if calls else "stop"), tokens)


@dataclass(frozen=True, slots=True)
class Draw:
    """Which turns are answered wrongly: ``wrong`` by baseline, its repeat and candidate; ``settled`` as in Case."""

    settled: frozenset[str]
    wrong: tuple[frozenset[str], frozenset[str], frozenset[str]]


def draw(golden: GoldenSet, seed: int) -> Draw:
    """Three replays of one model, drawn with ``seed``."""
    chance = random.Random(seed)
    weak, near = set(), set()
    for turn in golden.turns:
        drawn = chance.random()
        if drawn < WEAK:
            weak.add(turn.id)
        elif drawn < WEAK + NEAR_TIES:
            near.add(turn.id)
    ties = sorted(near)
    baseline, repeat, candidate = (frozenset(weak.union(t for t in ties if chance.random() < 0.5)) for _ in range(3))
    return Draw(frozenset(turn.id for turn in golden.turns) - weak - near, (baseline, repeat, candidate))


def make_case(golden: GoldenSet, policy: GateSettings) -> Case:
    """A baseline, its repeat and a candidate that is as good as the baseline."""
    drawn = draw(golden, SEED)
    requests = {turn.id: request_digest(build_request(turn, policy.sampling)) for turn in golden.turns}

    def replay(wrong: frozenset[str]) -> dict[str, Record]:
        replies = {turn.id: wrong_reply(turn) if turn.id in wrong else golden_reply(turn) for turn in golden.turns}
        return {
            name: Record(name, requests[name], reply, digest_of([name, "prompt"]), 100, 1.0, 1)
            for name, reply in replies.items()
        }

    baseline, repeat, candidate = map(replay, drawn.wrong)
    return Case(golden, policy, drawn.settled, baseline, repeat, candidate)
