"""Which lost turns are measured, and what the worker reads of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluators.turn import Behaviour, Expectation, Reply, ToolCall, Turn
from pipeline.diagnosis.turns import LostTurn, as_lines, choose, read_lost
from pipeline.errors import RecordError


def flip(turn_id: str, metric: str, direction: str = "pass_to_fail", critical: bool = False) -> str:
    return json.dumps({"turn_id": turn_id, "metric": metric, "direction": direction, "critical": critical}) + "\n"


def test_lost_turns_are_those_of_gating_metrics(tmp_path: Path) -> None:
    file = tmp_path / "flips.jsonl"
    file.write_text(
        flip("b#1", "tools") + flip("a#1", "policy", critical=True) + flip("b#1", "policy")
        + flip("c#1", "watched") + flip("d#1", "tools", "fail_to_pass")
    )  # fmt: skip
    assert read_lost(file, ["tools", "policy"]) == [
        LostTurn("a#1", ("policy",), True),
        LostTurn("b#1", ("policy", "tools"), False),
    ]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="flips"):
        read_lost(tmp_path / "flips.jsonl", ["tools"])


def test_critical_turns_first_then_every_metric_has_its_turn() -> None:
    lost = [LostTurn(f"t{n:02}", ("tools",), False) for n in range(20)]
    lost += [LostTurn("rare", ("refusals",), False), LostTurn("grave", ("tools",), True)]
    chosen = [turn.turn_id for turn in choose(lost, 3)]
    assert chosen[0] == "grave" and "rare" in chosen
    assert choose(list(reversed(lost)), 3) == choose(lost, 3)
    assert len(choose(lost, 100)) == 22


def turn() -> Turn:
    messages = ({"role": "user", "content": "where?"},)
    return Turn("t#1", "t", "s", (), messages, ({"type": "function"},), Expectation(Behaviour.ANSWER), {})


def test_the_baselines_reply_is_a_chat_message() -> None:
    reply = Reply("t#1", content="", tool_calls=(ToolCall("look", '{"id": 1}'),))
    (line,) = as_lines([LostTurn("t#1", ("tools",), False)], {"t#1": turn()}, {"t#1": reply})
    assert json.loads(line) == {
        "id": "t#1",
        "messages": [{"role": "user", "content": "where?"}],
        "tools": [{"type": "function"}],
        "answer": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": '{"id": 1}'}}],
        },
    }


def test_a_lost_turn_without_the_baselines_reply_is_an_error() -> None:
    with pytest.raises(RecordError, match="t#1"):
        as_lines([LostTurn("t#1", ("tools",), False)], {"t#1": turn()}, {})
