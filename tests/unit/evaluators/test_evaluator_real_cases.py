"""Public cases that nobody on this project wrote; read where they are, skipped where they are not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluator_samples import reply, result

from evaluators.turn import Behaviour, Expectation, ExpectedCall, ToolCall, Turn

CASES = Path(__file__).resolve().parents[4] / "shared" / "real_cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the public cases (../shared/real_cases) are not here")

CORRECT, VALID = "tool_call_correct", "tool_call_valid"


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def expected_call(raw: dict[str, Any]) -> ExpectedCall:
    acceptable = raw.get("acceptable") or {name: [value] for name, value in raw["arguments"].items()}
    free = frozenset(raw.get("any_value_arguments", ()))
    return ExpectedCall(
        raw["name"],
        {name: tuple(values) for name, values in acceptable.items() if name not in free},
        frozenset(raw.get("optional_arguments", ())),
        free,
        frozenset(raw.get("unordered_arguments", ())),
    )


def turn_of(case: dict[str, Any]) -> Turn:
    raw = case["expect"]
    calls = tuple(expected_call(call) for call in raw["tool_calls"])
    order = "exact" if raw.get("order") == "exact" else "any"
    expectation = Expectation(
        Behaviour(raw["behaviour"]), calls, order=order, forbidden_tools=frozenset(raw["forbidden_tools"])
    )
    return Turn(case["id"], case["id"], "s", (), tuple(case["messages"]), tuple(case["tools"]), expectation, {})


def gold_calls(case: dict[str, Any]) -> list[ToolCall]:
    return [ToolCall(call["name"], json.dumps(call["arguments"])) for call in case["expect"]["tool_calls"]]


def with_calls(name: str) -> list[dict[str, Any]]:
    return [case for case in cases(name) if case["expect"]["tool_calls"]]


# Every gold call of the public sets is right, except where the set itself compares more leniently.
@pytest.mark.parametrize(
    ("name", "turns"), [("bfcl_tool_calls", 110), ("tau_retail_airline", 64), ("abcd_support", 80), ("injection", 61)]
)
def test_gold_calls_are_correct_and_damaged_ones_are_not(name: str, turns: int) -> None:
    labels: Counter[str] = Counter()
    for case in with_calls(name):
        a_turn, calls = turn_of(case), gold_calls(case)
        labels[result(CORRECT, a_turn, reply("", *calls))[1]] += 1
        assert result(CORRECT, a_turn, reply("Let me see."))[1] == "no_call"
        cut = ToolCall(calls[0].name, calls[0].arguments[:-1])
        assert result(CORRECT, a_turn, reply("", cut, *calls[1:]))[1] == "malformed"
        unread = f"<tool_call>\n{json.dumps({'name': calls[0].name, 'arguments': {}})}\n</tool_call>"
        assert result(CORRECT, a_turn, reply(unread, *calls[1:]))[1] == "malformed"
        assert result(CORRECT, a_turn, reply("", *calls, calls[0]))[1] == "extra_call"
        assert result(CORRECT, a_turn, reply("", ToolCall("no_such_tool", "{}")))[1] == "unknown_tool"
        if len(calls) > 1:
            assert result(CORRECT, a_turn, reply("", *calls[:-1]))[1] == "missing_call"
            in_any_order = a_turn.expect.order == "any" or calls == calls[::-1]
            assert (result(CORRECT, a_turn, reply("", *calls[::-1]))[0] == "passed") is in_any_order
    assert labels == {"correct": turns}


def other(value: Any) -> Any:
    """Another value of the same JSON type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1_234_567
    if isinstance(value, str):
        return value + " (not)"
    if isinstance(value, list):
        return [*value, *(value or ["x"])]
    return {**value, "other": 1} if isinstance(value, dict) else "x"


def test_one_changed_argument_is_wrong() -> None:
    labels: Counter[str] = Counter()
    for case in with_calls("bfcl_tool_calls"):
        a_turn, calls = turn_of(case), case["expect"]["tool_calls"]
        for index, raw in enumerate(calls):
            for name, value in raw["arguments"].items():
                changed = [json.loads(json.dumps(call["arguments"])) for call in calls]
                changed[index][name] = other(value)
                made = [ToolCall(c["name"], json.dumps(a)) for c, a in zip(calls, changed, strict=True)]
                labels[result(CORRECT, a_turn, reply("", *made))[1]] += 1
    # Enumerations and limits make some changes invalid rather than wrong.
    assert set(labels) <= {"wrong_arguments", "schema_invalid"}
    assert labels["wrong_arguments"] > 3 * labels["schema_invalid"] > 0


def test_no_call_is_due_where_no_tool_fits() -> None:
    turns = [case for case in cases("bfcl_tool_calls") if case["expect"]["behaviour"] == "answer"]
    assert len(turns) == 17
    for case in turns:
        a_turn = turn_of(case)
        assert result(CORRECT, a_turn, reply("I have no tool for that.")) == ("passed", "correct")
        assert result(VALID, a_turn, reply("I have no tool for that.")) == ("passed", "none_due")
        call = ToolCall(case["tools"][0]["function"]["name"], "{}")
        assert result(CORRECT, a_turn, reply("", call))[1] == "forbidden_call"  # the set forbids every tool there
        allowed = replace(a_turn, expect=replace(a_turn.expect, forbidden_tools=frozenset()))
        assert result(CORRECT, allowed, reply("", call))[1] in ("not_due", "schema_invalid")


def test_calls_that_an_injection_asks_for_are_forbidden() -> None:
    tried = 0
    for case in cases("injection"):
        banned = tuple(expected_call(call) for call in case["expect"].get("forbidden_calls", ()))
        a_turn = turn_of(case)
        a_turn = replace(a_turn, expect=replace(a_turn.expect, forbidden_calls=banned))
        for raw in case["expect"].get("forbidden_calls", ()):
            call = ToolCall(raw["name"], json.dumps(raw["arguments"]))
            assert result(CORRECT, a_turn, reply("", *gold_calls(case), call))[1] == "forbidden_call"
            tried += 1
        if banned and case["expect"]["tool_calls"]:
            assert result(CORRECT, a_turn, reply("", *gold_calls(case)))[1] == "correct"
    assert tried == 23


def test_gold_calls_that_break_their_schema_are_seen() -> None:
    labels = Counter(
        result(VALID, turn_of(c), reply("", *gold_calls(c)))[1] for c in with_calls("bfcl_contradictory_gold")
    )
    assert labels == {"schema_invalid": 26}


def test_requests_that_only_look_unsafe() -> None:
    # Openings of the kind that the models tested with XSTest gave.
    declines = ["Sorry, but I can't assist with that.", "I cannot provide information on how to do this."]
    helps = ["There are several ways to do this:\n\n1. Use the terminal.", "Here are some tips. Be careful."]
    seen: Counter[str] = Counter()
    for index, case in enumerate(cases("xstest_refusals")):
        a_turn = turn_of(case)
        seen[a_turn.expect.behaviour] += 1
        right, wrong = (declines, helps) if a_turn.expect.behaviour is Behaviour.REFUSE else (helps, declines)
        metric = "refuses_when_required" if a_turn.expect.behaviour is Behaviour.REFUSE else "complies_when_allowed"
        assert result(metric, a_turn, reply(right[index % 2]))[0] == "passed"
        assert result(metric, a_turn, reply(wrong[index % 2]))[0] == "failed"
    assert seen == {"comply": 75, "refuse": 65}


def test_what_people_and_tools_write_is_no_degeneration() -> None:
    seen: set[str] = set()
    for name in ("abcd_support", "tau_retail_airline", "injection"):
        for case in cases(name):
            seen |= {m["content"] for m in case["messages"] if m["role"] != "system" and isinstance(m["content"], str)}
    case = cases("xstest_refusals")[0]
    flagged = [
        text
        for text in seen
        if text.strip() and result("free_of_degeneration", turn_of(case), reply(text))[0] != "passed"
    ]
    assert len(seen) > 500
    assert flagged == []
