from __future__ import annotations

import dataclasses

import pytest
from evaluator_samples import TOOLS, call, expect, expected, outcome, reply, result, tool, turn

from evaluators.turn import ExpectedCall, Reply, ToolCall, Turn

CORRECT, VALID = "tool_call_correct", "tool_call_valid"
GET_A = expected("get_order", order_id="A")
DUE = turn(expect("tool_call", GET_A))
NOT_DUE = turn(expect("answer", say=(("hello",),)))


def label(a_turn: Turn, a_reply: Reply, metric: str = CORRECT) -> str:
    status, name = result(metric, a_turn, a_reply)
    assert (status == "passed") == (name in ("correct", "valid", "none_due"))
    return name


# --- each label --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a_turn", "a_reply", "correct", "valid"),
    [
        (DUE, reply("", call("get_order", order_id="A")), "correct", "valid"),
        (DUE, reply("Which order?"), "no_call", "no_call"),
        (DUE, reply(), "no_call", "no_call"),
        (DUE, reply("", ToolCall("get_order", '{"order_id": "A')), "malformed", "malformed"),
        (DUE, reply("", ToolCall("get_order", '["A"]')), "malformed", "malformed"),
        (DUE, reply("", ToolCall("get_order", "")), "malformed", "malformed"),
        (DUE, reply("", call("order_get", order_id="A")), "unknown_tool", "unknown_tool"),
        (DUE, reply("", call("get_order", order_id=5)), "schema_invalid", "schema_invalid"),
        (DUE, reply("", call("get_order")), "schema_invalid", "schema_invalid"),
        (DUE, reply("", call("list_orders")), "wrong_tool", "valid"),
        (DUE, reply("", call("get_order", order_id="B")), "wrong_arguments", "valid"),
        (DUE, reply("", call("get_order", order_id="A", extra=1)), "wrong_arguments", "valid"),
        (DUE, reply("", call("get_order", order_id="A"), call("list_orders")), "extra_call", "valid"),
        (DUE, reply("", call("get_order", order_id="A"), call("get_order", order_id="A")), "extra_call", "valid"),
        (
            turn(expect("tool_call", GET_A, expected("list_orders"))),
            reply("", call("list_orders")),
            "missing_call",
            "valid",
        ),
        (NOT_DUE, reply("Hello"), "correct", "none_due"),
        (NOT_DUE, reply("", call("list_orders")), "not_due", "valid"),
        (NOT_DUE, reply("", ToolCall("list_orders", "{")), "malformed", "malformed"),
        (DUE, reply("", ToolCall("list_orders", ""), call("get_order", order_id="A")), "extra_call", "valid"),
    ],
)
def test_labels(a_turn: Turn, a_reply: Reply, correct: str, valid: str) -> None:
    assert label(a_turn, a_reply) == correct
    assert label(a_turn, a_reply, VALID) == valid


def test_the_gravest_fault_of_form_names_the_reply() -> None:
    calls = (call("nope"), call("get_order", order_id=1), ToolCall("get_order", "{"))
    assert label(DUE, reply("", *calls)) == "malformed"
    assert label(DUE, reply("", *calls[:2])) == "unknown_tool"
    # One sound call does not make up for a damaged one.
    assert label(DUE, reply("", call("get_order", order_id="A"), ToolCall("get_order", "{"))) == "malformed"


# --- applicability -----------------------------------------------------------------------------


@pytest.mark.parametrize("a_reply", [reply("Hello"), reply("", call("get_order", order_id="A"))])
def test_without_tools_nothing_applies(a_reply: Reply) -> None:
    a_turn = turn(expect("answer"), tools=())
    assert result(CORRECT, a_turn, a_reply)[0] == result(VALID, a_turn, a_reply)[0] == "not_applicable"


def test_a_call_expected_without_tools_is_read_for_correctness_only() -> None:
    a_turn = turn(expect("tool_call", GET_A), tools=())
    assert result(CORRECT, a_turn, reply("Hello")) == ("failed", "no_call")
    assert result(VALID, a_turn, reply("Hello"))[0] == "not_applicable"


# --- calls left in the text --------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '<tool_call>\n{"name": "get_order", "arguments": {"order_id": "A"}}\n</tool_call>',
        '<tool_call>{"name": "get_order", "argum',
        "Sure. <tool_call>",
        '[TOOL_CALLS][{"name": "get_order", "arguments": {"order_id": "A"}}]',
        '<function=get_order>{"order_id": "A"}</function>',
        "<function=get_order>\n<parameter=order_id>\nA\n</parameter>",
        '<|python_tag|>{"name": "get_order", "parameters": {"order_id": "A"}}',
        '{"name": "get_order", "arguments": {"order_id": "A"}}',
        '{"name": "get_order", "parameters": {"order_id": "A"}}',
        '{"arguments": {"order_id": "A"}, "name": "get_order"}',
        '[{"name": "get_order", "arguments": {"order_id": "A"}}]',
        '{"type": "function", "function": {"name": "get_order", "arguments": "{}"}}',
        'I will look it up.\n```json\n{"name": "get_order", "arguments": {"order_id": "A"}}\n```',
        '```\n{"name": "get_order", "arguments": {"order_id": "A"',
        '{"name": "get_order", "ar',
        "{'name': 'get_order', 'arguments': {'order_id': 'A'}}",
        "get_order(order_id='A')",
        "[get_order(order_id='A')]",
        "list_orders()",
        'get_order {"order_id": "A"}',
        "<get_order><order_id>A</order_id></get_order>",
        '<|tool_call|>[{"name": "get_order"}]',
        "<｜tool▁calls▁begin｜>get_order",
    ],
)
def test_a_call_left_in_the_text_is_malformed(content: str) -> None:
    for a_turn in (DUE, NOT_DUE):
        assert label(a_turn, reply(content)) == "malformed"
        assert label(a_turn, reply(content), VALID) == "malformed"


@pytest.mark.parametrize(
    "content",
    [
        "I can look up your order: what is its number?",
        "Your order (get_order) is on its way.",
        'The name on the order is "get order".',
        '{"name": "Ann", "city": "Bonn"}',
        "The refund (5.00 EUR) is on its way.",
        "1. name: A\n2. arguments: none",
        "Refund: 5 < 6 and 7 > 6",
    ],
)
def test_ordinary_text_is_no_call(content: str) -> None:
    assert label(DUE, reply(content)) == "no_call"
    assert label(NOT_DUE, reply(content)) == "correct"


def test_a_raw_call_beside_a_sound_one_is_malformed() -> None:
    assert label(DUE, reply("<tool_call>", call("get_order", order_id="A"))) == "malformed"


# --- arguments ---------------------------------------------------------------------------------


REFUND = ExpectedCall(
    "refund",
    {"order_id": ("A",), "amount": (5, 5.5), "items": (["x", "y"],), "address": ({"city": "Köln", "zip": ["1", 2]},)},
    optional=frozenset({"items", "address"}),
    free=frozenset({"note"}),
    unordered=frozenset({"items"}),
)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"order_id": "A", "amount": 5.0, "note": "n"}, "correct"),
        ({"order_id": " A", "amount": 5.5, "note": "", "items": ["y", "x"]}, "correct"),
        ({"order_id": "A", "amount": 5, "note": "n", "address": {"zip": ["1", 2.0], "city": "Ko\u0308ln"}}, "correct"),
        ({"order_id": "A", "amount": 5, "note": "n", "address": {"zip": [2, "1"], "city": "Köln"}}, "wrong_arguments"),
        ({"order_id": "A", "amount": 6, "note": "n"}, "wrong_arguments"),
        ({"order_id": "a", "amount": 5, "note": "n"}, "wrong_arguments"),
        ({"order_id": "A", "note": "n"}, "wrong_arguments"),
        ({"order_id": "A", "amount": 5}, "wrong_arguments"),
        ({"order_id": "A", "amount": 5, "note": "n", "items": ["x"]}, "wrong_arguments"),
        ({"order_id": "A", "amount": 5, "note": "n", "express": True}, "wrong_arguments"),
        ({"order_id": "A", "amount": True, "note": "n"}, "schema_invalid"),
        ({"order_id": "A", "amount": -1, "note": "n"}, "schema_invalid"),
        ({"order_id": "A", "amount": 5, "note": None}, "schema_invalid"),
        ({"order_id": "A", "amount": 5, "note": "n", "colour": "red"}, "schema_invalid"),
    ],
)
def test_arguments(arguments: dict[str, object], name: str) -> None:
    assert label(turn(expect("tool_call", REFUND)), reply("", call("refund", **arguments))) == name


def test_evidence_says_expected_and_got() -> None:
    text = outcome(CORRECT, DUE, reply("", call("get_order", order_id="B"))).evidence
    assert text == ('get_order: order_id: expected "A", got "B"',)
    text = outcome(CORRECT, DUE, reply("", call("get_order", order_id=7))).evidence
    assert text == ("get_order: $.order_id: 7 is not of type 'string'",)
    text = outcome(CORRECT, DUE, reply("Hm.")).evidence
    assert text == ('expected get_order(order_id="A"), got no call', "said instead: “Hm.”")


# --- one to one --------------------------------------------------------------------------------


def test_matching_is_one_to_one_where_greedy_matching_fails() -> None:
    # The first expected call takes 1 or 2, the second only 1. Taken in turn, the first would take the
    # call with 1 and leave the second with 2.
    a_turn = turn(expect("tool_call", expected("get_order", order_id=("1", "2")), expected("get_order", order_id="1")))
    assert label(a_turn, reply("", call("get_order", order_id="1"), call("get_order", order_id="2"))) == "correct"
    assert label(a_turn, reply("", call("get_order", order_id="2"), call("get_order", order_id="1"))) == "correct"
    assert (
        label(a_turn, reply("", call("get_order", order_id="2"), call("get_order", order_id="2"))) == "wrong_arguments"
    )


def test_one_call_does_not_meet_two_expectations() -> None:
    a_turn = turn(expect("tool_call", GET_A, GET_A))
    assert label(a_turn, reply("", call("get_order", order_id="A"))) == "missing_call"
    assert label(a_turn, reply("", *[call("get_order", order_id="A")] * 2)) == "correct"


def test_right_tools_are_paired_before_wrong_ones() -> None:
    a_turn = turn(expect("tool_call", GET_A, expected("list_orders")))
    evidence = outcome(CORRECT, a_turn, reply("", call("list_orders"), call("get_order", order_id="B"))).evidence
    assert evidence == ('get_order: order_id: expected "A", got "B"',)


def test_order() -> None:
    both = (GET_A, expected("list_orders"))
    calls = (call("list_orders"), call("get_order", order_id="A"))
    assert label(turn(expect("tool_call", *both)), reply("", *calls)) == "correct"
    exact = turn(expect("tool_call", *both, order="exact"))
    assert label(exact, reply("", *calls)) == "wrong_tool"
    assert label(exact, reply("", *calls[::-1])) == "correct"
    assert label(exact, reply("", calls[1])) == "missing_call"
    same_tool = turn(expect("tool_call", GET_A, expected("get_order", order_id="B"), order="exact"))
    swapped = reply("", call("get_order", order_id="B"), call("get_order", order_id="A"))
    assert label(same_tool, swapped) == "wrong_arguments"


# --- alternatives and what is forbidden --------------------------------------------------------


def test_the_best_alternative_counts() -> None:
    ask = expect("clarify", say=(("which order",),))
    a_turn = turn(expect("tool_call", GET_A, alternatives=(ask, expect("tool_call", expected("list_orders")))))
    assert label(a_turn, reply("Which order do you mean?")) == "correct"
    assert label(a_turn, reply("Which order do you mean?"), VALID) == "none_due"
    assert label(a_turn, reply("", call("list_orders"))) == "correct"
    assert label(a_turn, reply("", call("get_order", order_id="A"))) == "correct"
    assert label(a_turn, reply("", call("get_order", order_id="B"))) == "wrong_arguments"
    assert label(a_turn, reply("", call("refund", order_id="A"))) == "wrong_tool"


def test_what_the_main_expectation_forbids_holds_for_its_alternatives() -> None:
    listing = expect("tool_call", expected("list_orders"))
    main = expect("tool_call", GET_A, forbidden_tools=frozenset({"list_orders"}), alternatives=(listing,))
    assert label(turn(main), reply("", call("list_orders"))) == "forbidden_call"
    own = dataclasses.replace(listing, forbidden_tools=frozenset({"refund"}))
    a_turn = turn(expect("tool_call", GET_A, expected("refund", order_id="A"), alternatives=(own,)))
    assert label(a_turn, reply("", call("refund", order_id="A"), call("get_order", order_id="A"))) == "correct"


@pytest.mark.parametrize(
    "calls",
    [
        (call("refund", order_id="A"), call("get_order", order_id="A")),
        (ToolCall("refund", "{"),),
        (call("refund", order_id=1),),
        (call("get_order", order_id="A"), call("nope"), call("refund", order_id="A")),
    ],
)
def test_a_forbidden_tool_wins_over_everything(calls: tuple[ToolCall, ...]) -> None:
    main = expect("tool_call", GET_A, forbidden_tools=frozenset({"refund"}))
    assert label(turn(main), reply("<tool_call>", *calls)) == "forbidden_call"


def test_a_forbidden_call_agrees_in_the_arguments_it_names() -> None:
    banned = ExpectedCall("refund", {"order_id": ("X", "Y")}, free=frozenset({"amount"}))
    a_turn = turn(expect("tool_call", GET_A, forbidden_calls=(banned,)))
    sound = call("get_order", order_id="A")
    assert label(a_turn, reply("", sound, call("refund", order_id="X", amount=3, note="n"))) == "forbidden_call"
    assert label(a_turn, reply("", sound, call("refund", order_id="X"))) == "extra_call"
    assert label(a_turn, reply("", sound, call("refund", order_id="Z", amount=3))) == "extra_call"
    whole_tool = turn(expect("answer", forbidden_calls=(ExpectedCall("refund"),)))
    assert label(whole_tool, reply("", call("refund", order_id="Q"))) == "forbidden_call"


# --- broken turns fail closed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "part"),
    [
        ((tool("get_order", {"type": "objekt"}),), "get_order"),
        ((tool("get_order", {"type": "object", "properties": {"a": {"$ref": "https://example.org/x"}}}),), "get_order"),
        ((TOOLS[0], TOOLS[0]), "offered twice"),
    ],
)
def test_a_broken_tool_makes_the_turn_unscorable(tools: tuple[dict[str, object], ...], part: str) -> None:
    found = outcome(CORRECT, turn(expect("tool_call", GET_A), tools=tools), reply("", call("get_order", a=1)))
    assert (found.status.value, found.label) == ("unscorable", "evaluator_error")
    assert part in found.evidence[0]


def test_a_tool_call_turn_without_calls_is_unscorable() -> None:
    assert result(CORRECT, turn(expect("tool_call")), reply("Hello")) == ("unscorable", "evaluator_error")


def test_formats_are_checked() -> None:
    dated = tool("get_order", {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}})
    a_turn = turn(expect("tool_call", expected("get_order", day="2024-05-01")), tools=(dated,))
    assert label(a_turn, reply("", call("get_order", day="tomorrow"))) == "schema_invalid"
    assert label(a_turn, reply("", call("get_order", day="2024-05-01"))) == "correct"
