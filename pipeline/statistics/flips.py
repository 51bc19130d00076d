"""The turns on which the sides disagree."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.turn import Outcome
from pipeline.statistics.facts import Flip, WorstFlip
from pipeline.statistics.study import Study

WORST = 5
"""Flips named in the record for a person to start with."""


def all_flips(study: Study, baseline: Sequence[Outcome], candidate: Sequence[Outcome]) -> tuple[Flip, ...]:
    """Every flip of every metric, by turn id and metric, with both outcomes."""
    index, pairs = study.index, study.pairs
    masks = {name: pair.lost | pair.gained for name, pair in pairs.items()}
    found: list[dict[tuple[str, str], Outcome]] = []
    for outcomes in (baseline, candidate):
        side: dict[tuple[str, str], Outcome] = {}
        for outcome in outcomes:
            mask, i = masks.get(outcome.metric), index.number.get(outcome.turn_id)
            if mask is not None and i is not None and mask[i]:
                side[outcome.turn_id, outcome.metric] = outcome
        found.append(side)
    flips = []
    for key in sorted(found[0]):
        i = index.number[key[0]]
        turn, lost = index.turns[i], bool(pairs[key[1]].lost[i])
        flips.append(Flip(*key, lost, turn.expect.critical, turn.scenario, turn.slices, found[0][key], found[1][key]))
    return tuple(flips)


def worst_flips(flips: Sequence[Flip], gating: Sequence[str]) -> tuple[WorstFlip, ...]:
    """The lost turns to look at first: critical ones, then most metrics, then the hardest hit scenario."""
    turns: dict[str, list[Flip]] = {}
    losses: dict[str, int] = {}
    for flip in flips:
        if flip.lost and flip.metric in gating:
            turns.setdefault(flip.turn_id, []).append(flip)
            losses[flip.scenario] = losses.get(flip.scenario, 0) + 1
    ranked = sorted(
        turns.items(), key=lambda item: (not item[1][0].critical, -len(item[1]), -losses[item[1][0].scenario], item[0])
    )
    return tuple(
        WorstFlip(turn_id, lost[0].scenario, lost[0].critical, tuple(flip.metric for flip in lost))
        for turn_id, lost in ranked[:WORST]
    )
