"""A fixed sample of a golden set: whole scenarios, stratified over its slices."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from evaluators.turn import Turn
from pipeline.digests import digest_of
from pipeline.errors import SettingsError
from pipeline.golden.building import DERIVED_SLICES
from pipeline.golden.load import GoldenSet
from pipeline.settings import SamplePolicy

_NO_SLICE = ""
"""Stands for turns without a slice, so that they are drawn like the others."""


def select(golden: GoldenSet, sample: SamplePolicy) -> GoldenSet:
    """The set restricted to some of its scenarios, all turns of each; the set itself when it has no more turns.

    Again and again the slice of which the smallest part is taken gets its next scenario: among the slices of
    ``sample.at_least`` until they have that (or all there are), then among all until there are ``sample.turns``.
    Scenarios with a conversation of more than ``sample.longest`` characters are no part of this.
    Scenarios come in the order of the SHA-256 of seed and name, which is as good as at random and the same
    everywhere. The digest is that of the whole set with the settings: another sample is another set.

    :raises SettingsError: no scenario is short enough, or ``sample.at_least`` names a slice that the set has not.
    """
    known = sorted({*golden.slice_counts, *DERIVED_SLICES})  # a set need not have turns of every derived one
    if unknown := [name for name in sample.at_least if name not in known]:
        raise SettingsError(
            f"sample.at_least: no slice {', '.join(unknown)} in {golden.name}", f"Known slices: {', '.join(known)}."
        )
    members: dict[str, list[Turn]] = {}
    for turn in golden.turns:
        members.setdefault(turn.scenario, []).append(turn)
    if sample.longest is not None:
        members = {name: turns for name, turns in members.items() if max(map(_length, turns)) <= sample.longest}
    eligible = [turn for turns in members.values() for turn in turns]
    if not eligible:
        raise SettingsError(
            f"sample.longest is {sample.longest}, but every scenario of {golden.name} has a longer conversation",
            "Raise it in the policy, or remove it.",
        )
    if sample.turns >= len(golden.turns) == len(eligible):
        return golden
    wanted_turns = min(sample.turns, len(eligible))
    available = _counts(eligible)
    demands = {name: min(wanted, available[name]) for name, wanted in sample.at_least.items() if available[name]}
    order = sorted(members, key=lambda name: hashlib.sha256(f"{sample.seed} {name}".encode()).digest())
    holding = {name: _counts(turns) for name, turns in members.items()}
    taken: dict[str, None] = {}
    have: Counter[str] = Counter()
    while True:
        wanting = [name for name, wanted in demands.items() if have[name] < wanted]
        if not wanting and sum(len(members[name]) for name in taken) >= wanted_turns:
            break
        behind = min(wanting or available, key=lambda name: (have[name] / available[name], name))
        chosen = next(name for name in order if name not in taken and holding[name][behind])
        taken[chosen] = None
        have += holding[chosen]
    turns = tuple(turn for turn in golden.turns if turn.scenario in taken)
    return restrict(golden, turns, sample.model_dump(mode="json"))


def restrict(golden: GoldenSet, turns: tuple[Turn, ...], choice: Any) -> GoldenSet:
    """The set restricted to ``turns``, all of some scenarios.

    :param choice: how they were chosen, as JSON values; the digest is that of the whole set with it.
    """
    scenarios = len({turn.scenario for turn in turns})
    return replace(
        golden,
        name=f"{golden.name} ({scenarios} of {golden.scenarios} scenarios)",
        digest=digest_of([golden.digest, choice]),
        transcript_count=len({turn.transcript_id for turn in turns}),
        scenarios=scenarios,
        turns=turns,
        slice_counts=dict(sorted(Counter(name for turn in turns for name in turn.slices).items())),
    )


def _length(turn: Turn) -> int:
    """Characters of what was said up to the turn, and of its calls."""
    return sum(len(json.dumps(message, ensure_ascii=False)) for message in turn.messages)


def _counts(turns: tuple[Turn, ...] | list[Turn]) -> Counter[str]:
    """Turns by slice."""
    return Counter(name for turn in turns for name in dict.fromkeys(turn.slices or (_NO_SLICE,)))
