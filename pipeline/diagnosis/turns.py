"""The turns that a diagnosis is judged by: those that the candidate lost, with what the baseline answered."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.turn import Reply, Turn
from pipeline.digests import digest_of
from pipeline.errors import RecordError


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A turn that the baseline passes and the candidate fails, on the gating ``metrics`` named."""

    turn_id: str
    metrics: tuple[str, ...]
    critical: bool


def read_lost(flips: Path, gating: Iterable[str]) -> list[LostTurn]:
    """The lost turns of a run, from its ``flips.jsonl``, in the order of their ids.

    :raises RecordError: the file cannot be read.
    """
    counted = set(gating)
    lost: dict[str, list[str]] = defaultdict(list)
    critical = set()
    try:
        for line in flips.read_text(encoding="utf-8").splitlines():
            flip = json.loads(line)
            if flip["direction"] == "pass_to_fail" and flip["metric"] in counted:
                lost[flip["turn_id"]].append(flip["metric"])
                critical |= {flip["turn_id"]} if flip["critical"] else set()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{flips}: cannot read: {error!r}", f"Remove {flips.parent} and run again.") from error
    return [LostTurn(turn, tuple(sorted(metrics)), turn in critical) for turn, metrics in sorted(lost.items())]


def choose(lost: Sequence[LostTurn], most: int) -> list[LostTurn]:
    """At most ``most`` of the lost turns: critical ones first, then one of each metric in turn.

    Within a metric the order is that of a digest of the id: as good as at random, and the same everywhere.
    """
    waiting = sorted(lost, key=lambda turn: (not turn.critical, digest_of(turn.turn_id)))
    chosen = [turn for turn in waiting if turn.critical][:most]
    waiting = [turn for turn in waiting if not turn.critical]
    served: dict[str, int] = defaultdict(int)
    while waiting and len(chosen) < most:
        following = min(waiting, key=lambda turn: min(served[metric] for metric in turn.metrics))
        waiting.remove(following)
        chosen.append(following)
        for metric in following.metrics:
            served[metric] += 1
    return chosen


def as_lines(chosen: Iterable[LostTurn], turns: Mapping[str, Turn], replies: Mapping[str, Reply]) -> list[str]:
    """The chosen turns as the worker reads them: what was asked, and the baseline's reply as a chat message.

    :raises RecordError: a reply is not on record.
    """
    lines = []
    for each in chosen:
        turn, reply = turns[each.turn_id], replies.get(each.turn_id)
        if reply is None or reply.error is not None:
            raise RecordError(f"{each.turn_id}: lost, but the baseline's reply is not on record", "Run the gate again.")
        asked = {"messages": [dict(message) for message in turn.messages], "tools": [dict(tool) for tool in turn.tools]}
        lines.append(json.dumps({"id": turn.id, **asked, "answer": _message(reply)}, ensure_ascii=False))
    return lines


def _message(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    return message
