"""Whether two replays may be compared: everything but the weights must be the same, and known to be.

Read from what the replays kept, not from what was meant: the token ids that the server made of each request, the
digest of each request (messages, tools, sampling), and the engine's identity and settings in effect.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.digests import canonical_json
from pipeline.errors import Verdict
from pipeline.serving import variables
from pipeline.serving.records import Record, prompt_mismatches, read_records
from pipeline.stages.serve_replay import ENGINE, REPLIES
from pipeline.statistics.advice import listed
from pipeline.statistics.facts import Reason, ReasonCode

_SHOWN = 200
"""Characters of a differing value that a record shows."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what conditions one replay was made. ``engine`` is None where nothing is known of it."""

    records: Mapping[str, Record]
    engine: Mapping[str, Any] | None

    @property
    def tells_tokens(self) -> bool:
        """Whether the server told the token ids of any prompt."""
        return any(record.prompt_token_ids_digest is not None for record in self.records.values())

    @staticmethod
    def of(replay_dir: Path) -> Conditions:
        """Read them from a replay's output.

        :raises RecordError: a line that is not a reply record.
        """
        return Conditions(read_records(replay_dir / REPLIES), _engine(replay_dir / ENGINE))


def _engine(path: Path) -> dict[str, Any] | None:
    """Identity of the engine and its settings in effect, flat."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        running = told["running"]
        effective = {f"{name} in effect": value for name, value in running["settings"].items()}
        return {**told["identity"], "version in effect": running["version"], **effective}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def without_effect(baseline: Path, candidate: Path, changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """What a verdict is conditional on where settings were changed and the engine runs both sides alike all the same.

    :param changes: of :func:`pipeline.serving.variables.changed`. What a checkpoint asks for is not told in effect.
    """
    before, after = (_engine(path / ENGINE) or {} for path in (baseline, candidate))
    names = {variables.in_effect(name): name for name, (_, value) in changes.items() if not _asked(value)}
    return [
        f"that the candidate's {name} does anything: {effect} is {before[effect]} on both sides, as the engine tells."
        for effect, name in names.items()
        if effect in before and before[effect] == after.get(effect)
    ]


def _asked(value: Any) -> bool:
    return isinstance(value, str) and value.endswith(variables.OF_THE_CHECKPOINT)


def compared(baseline: Sequence[Path], candidate: Sequence[Path], may_differ: Collection[str] = ()) -> list[Reason]:
    """What keeps the replays of the two sides from being compared; each side's first, then its repeats.

    Where the candidate has other samples they are compared with the baseline's of the same number, which have the same
    seed; else the baseline's repeats with its first replay.

    :param may_differ: what of the engine differs between the sides by intent.
    """
    first, second = ([Conditions.of(path) for path in side] for side in (baseline, candidate))
    reasons = []
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        side = f"candidate repeat {number}" if number else "candidate"
        reasons += comparable(one, {side: other}, may_differ)
    if len(second) == 1:
        repeats = {f"baseline repeat {number}": repeat for number, repeat in enumerate(first[1:], 1)}
        reasons += comparable(first[0], repeats)
    return reasons


def comparable(
    baseline: Conditions, others: Mapping[str, Conditions], may_differ: Collection[str] = ()
) -> list[Reason]:
    """What keeps ``others`` (by side) from being compared with the baseline. Each finding is INVALID."""
    reasons = []
    for side, other in others.items():
        reasons += _prompts(baseline, other, side)
        reasons += _requests(baseline, other, side)
        reasons += _engines(baseline, other, side, may_differ)
    return reasons


def compared_with_endpoints(baseline: Sequence[Path], candidate: Sequence[Path]) -> tuple[list[Reason], list[str]]:
    """The same where a side is an endpoint, which is another engine by intent and seldom tells its prompts' token ids.

    :returns: what keeps the replays from being compared, and what the verdict is conditional on instead.
    """
    first, *repeats = map(Conditions.of, baseline)
    others = {f"baseline repeat {number}": repeat for number, repeat in enumerate(repeats, 1)}
    others |= {
        f"candidate repeat {n}" if n else "candidate": other for n, other in enumerate(map(Conditions.of, candidate))
    }
    reasons: list[Reason] = []
    conditions: list[str] = []
    for side, other in others.items():
        reasons += _requests(first, other, side)
        if first.tells_tokens and other.tells_tokens:
            reasons += _prompts(first, other, side)
        elif side == "candidate":
            conditions.append(_prompt_lengths(first, other))
    return reasons, conditions


def _prompt_lengths(baseline: Conditions, candidate: Conditions) -> str:
    """What the numbers of tokens show of prompts whose ids are not known."""
    lengths = [
        {turn_id: record.prompt_tokens for turn_id, record in side.records.items() if record.prompt_tokens is not None}
        for side in (baseline, candidate)
    ]
    both = sorted(lengths[0].keys() & lengths[1].keys())
    differing = [turn_id for turn_id in both if lengths[0][turn_id] != lengths[1][turn_id]]
    if differing:
        return (
            f"the prompts: by their lengths the two sides read other tokens at {len(differing)} of {len(both)} turns "
            f"({listed(differing)}). Template and tokenizer of the endpoints are part of what was compared."
        )
    return (
        f"the prompts: the endpoints do not tell their tokens. At {len(both)} of {len(baseline.records)} turns their "
        "lengths are known, and equal."
    )


def _prompts(baseline: Conditions, other: Conditions, side: str) -> list[Reason]:
    differing = prompt_mismatches(baseline.records, other.records)
    if not differing:
        return []
    unknown = sum(
        records[turn_id].prompt_token_ids_digest is None
        for turn_id in differing
        for records in (baseline.records, other.records)
    )
    turns = len(baseline.records.keys() | other.records.keys())
    text = f"baseline and {side} did not read the same prompt at {len(differing)} of {turns} turns: {listed(differing)}"
    text += f"; in {unknown} replies the token ids are missing." if unknown else "."
    figures: dict[str, float | int | str] = {"turns": turns, "differing": len(differing), "unknown": unknown}
    return [Reason(ReasonCode.PROMPTS_DIFFER, Verdict.INVALID, text, figures=figures)]


def _requests(baseline: Conditions, other: Conditions, side: str) -> list[Reason]:
    both = sorted(baseline.records.keys() & other.records.keys())
    differing = [t for t in both if baseline.records[t].request_digest != other.records[t].request_digest]
    if not differing:
        return []
    text = (
        f"baseline and {side} were not asked the same at {len(differing)} of {len(both)} turns (messages, tools or "
        f"sampling): {listed(differing)}."
    )
    figures: dict[str, float | int | str] = {"turns": len(both), "differing": len(differing)}
    return [Reason(ReasonCode.CONDITIONS_DIFFER, Verdict.INVALID, text, figures=figures)]


def _engines(baseline: Conditions, other: Conditions, side: str, may_differ: Collection[str]) -> list[Reason]:
    first, second = baseline.engine, other.engine
    if first is None or second is None:
        unknown = " and ".join(name for name, engine in (("baseline", first), (side, second)) if engine is None)
        text = f"it is not known by which engine and settings the replies were made ({unknown})."
        return [Reason(ReasonCode.CONDITIONS_DIFFER, Verdict.INVALID, text, figures={"unknown": unknown})]
    names = (first.keys() | second.keys()).difference(may_differ)
    differing = sorted(name for name in names if first.get(name) != second.get(name))
    if not differing:
        return []
    figures: dict[str, float | int | str] = {
        f"{name} ({who})": canonical_json(engine.get(name))[:_SHOWN]
        for name in differing
        for who, engine in (("baseline", first), (side, second))
    }
    text = f"baseline and {side} were not served alike: {', '.join(differing)} differ."
    return [Reason(ReasonCode.CONDITIONS_DIFFER, Verdict.INVALID, text, figures=figures)]
