from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from evaluator_samples import call, expect, expected, outcome, reply, result, turn

from evaluators.grounding import numbers, readings
from evaluators.policy import RULE_TYPES, validate_rule
from evaluators.turn import Behaviour, Policy, PolicyRule, Reply, ToolCall, Turn

METRIC = "policy_adherence"


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calls_tool(name: str, number: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }


def tool_result(number: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": text}


def under(
    rule_type: str, *messages: dict[str, Any], behaviour: str = "answer", text: str = "Policy.", **parameters: Any
) -> Turn:
    """A turn under a policy with one rule."""
    rule = PolicyRule("r", rule_type, parameters)
    assert validate_rule(rule) == []
    return turn(
        expect(behaviour, *([expected("get_order", order_id="A")] if behaviour == "tool_call" else [])),
        messages=messages or (user("Hello"),),
        policy=Policy("p", text, (rule,)),
    )


def holds(a_turn: Turn, a_reply: Reply) -> bool:
    status, label = result(METRIC, a_turn, a_reply)
    assert status in ("passed", "failed")
    assert (label == "adhered") == (status == "passed")
    return status == "passed"


# --- say and never_say of the turn -------------------------------------------------------------


def test_every_say_group_needs_one_match() -> None:
    a_turn = turn(expect("answer", say=(("30 days", "a month"), ("receipt",))))
    assert result(METRIC, a_turn, reply("Within A  MONTH, with the receipt.")) == ("passed", "adhered")
    found = outcome(METRIC, a_turn, reply("Within 30 days."))
    assert (found.status.value, found.label, found.evidence) == ("failed", "not_said", ("said none of: 'receipt'",))


def test_never_say() -> None:
    a_turn = turn(expect("answer", say=(("ok",),), never_say=("re:guarantee\\w*", "promise")))
    assert result(METRIC, a_turn, reply("OK, it is guaranteed.")) == ("failed", "said_forbidden")
    assert result(METRIC, a_turn, reply("OK, no promises.")) == ("passed", "adhered")


def test_a_forbidden_statement_is_named_before_a_missing_one() -> None:
    found = outcome(METRIC, turn(expect("answer", say=(("ok",),), never_say=("no",))), reply("No"))
    assert found.label == "said_forbidden"
    assert len(found.evidence) == 2


def test_silence_adheres_to_nothing() -> None:
    assert result(METRIC, turn(expect("answer", never_say=("no",))), reply(" \n")) == ("failed", "empty")


def test_not_applicable_without_anything_to_adhere_to() -> None:
    assert result(METRIC, turn(expect("answer")), reply("x"))[0] == "not_applicable"
    assert result(METRIC, turn(expect("answer"), policy=Policy("p", "text")), reply("x"))[0] == "not_applicable"
    only_alternative = turn(expect("answer", alternatives=(expect("clarify", say=(("which",),)),)))
    assert result(METRIC, only_alternative, reply("x"))[0] == "passed"


def test_an_alternative_may_meet_say_instead() -> None:
    look_up = expect("tool_call", expected("get_order", order_id="A"))
    ask = expect("clarify", say=(("which order",),))
    a_turn = turn(expect("answer", say=(("shipped",),), never_say=("lost",), alternatives=(look_up, ask)))
    assert holds(a_turn, reply("It was shipped."))
    assert holds(a_turn, reply("", call("get_order", order_id="A")))
    assert holds(a_turn, reply("Which order?"))
    assert not holds(a_turn, reply("Hm."))
    # Read as the look-up, which asks for no words; that it is not that call is the other metric's to say.
    assert holds(a_turn, reply("", call("get_order", order_id="B")))
    assert result("tool_call_correct", a_turn, reply("", call("get_order", order_id="B")))[0] == "failed"
    assert not holds(a_turn, reply("Which order is lost?"))  # forbidden for all


def test_an_alternative_that_describes_nothing_meets_nothing() -> None:
    a_turn = turn(expect("answer", say=(("shipped",),), alternatives=(expect("clarify"),)))
    assert not holds(a_turn, reply("Whatever."))


# --- rules -------------------------------------------------------------------------------------


def test_never_say_rule_and_its_behaviours() -> None:
    parameters = {"patterns": ["re:i promise"], "behaviours": ["refuse", "answer"]}
    assert not holds(under("never_say", **parameters), reply("I promise."))
    assert holds(under("never_say", **parameters), reply("I cannot promise."))
    assert holds(under("never_say", behaviour="clarify", **parameters), reply("I promise."))
    assert not holds(under("never_say", behaviour="clarify", patterns=["re:i promise"]), reply("I promise."))


IDENTITY = {"verify_tool": "verify", "write_tools": ["refund", "cancel"]}


@pytest.mark.parametrize(
    ("messages", "good"),
    [
        ([user("hi")], False),
        ([calls_tool("verify", "1"), tool_result("1", '{"verified": true}'), user("yes")], True),
        ([calls_tool("verify", "1"), tool_result("1", '{"error": "no match"}'), user("yes")], False),
        ([calls_tool("verify", "1"), tool_result("1", '{"error": null}')], False),
        ([calls_tool("verify", "1"), tool_result("1", "verified")], False),
        ([calls_tool("verify", "1"), tool_result("1", "[]")], False),
        ([calls_tool("verify", "1")], False),
        ([calls_tool("other", "1"), tool_result("1", '{"ok": 1}')], False),
        ([calls_tool("verify", "1"), calls_tool("other", "2"), tool_result("2", '{"ok": 1}')], False),
        (
            [
                calls_tool("verify", "1"),
                tool_result("1", '{"error": "no match"}'),
                calls_tool("verify", "2"),
                tool_result("2", '{"customer": "C1"}'),
            ],
            True,
        ),
    ],
)
def test_identity_before_write(messages: list[dict[str, Any]], good: bool) -> None:
    a_turn = under("identity_before_write", *messages, **IDENTITY)
    assert holds(a_turn, reply("", call("refund", order_id="A"))) is good
    assert holds(a_turn, reply("", call("get_order", order_id="A")))  # reading needs no identity
    # Verifying and writing in one reply is no verification before the write.
    assert holds(a_turn, reply("", call("verify"), call("cancel"))) is good


@pytest.mark.parametrize(
    ("messages", "good"),
    [
        ([user("Yes, go ahead")], True),
        ([user("no")], False),
        ([user("yes"), {"role": "assistant", "content": "Sure?"}, user("hm, no")], False),
        ([user("no"), {"role": "assistant", "content": "yes"}], False),
        ([user([{"type": "text", "text": "yes"}])], True),
        ([{"role": "assistant", "content": "yes"}], False),
        ([user("yes"), calls_tool("verify", "1"), tool_result("1", "{}")], True),
    ],
)
def test_confirmation_before_write(messages: list[dict[str, Any]], good: bool) -> None:
    a_turn = under("confirmation_before_write", *messages, write_tools=["refund"], confirmation="re:\\byes\\b")
    assert holds(a_turn, reply("", call("refund", order_id="A"))) is good
    assert holds(a_turn, reply("Shall I?"))


@pytest.mark.parametrize(
    ("arguments", "good"),
    [
        ('{"amount": 200}', True),
        ('{"amount": 200.0}', True),
        ('{"amount": -5}', True),
        ('{"amount": 200.01}', False),
        ('{"amount": 1e3}', False),
        ('{"amount": "150"}', True),
        ('{"amount": "250"}', False),
        ('{"amount": "1,000"}', False),  # as one thousand
        ('{"amount": "a lot"}', False),
        ('{"amount": true}', False),
        ('{"amount": null}', False),
        ('{"amount": [1]}', False),
        ('{"amount": 10, "amount": 900}', False),
        ('{"amount": 10', False),
        ('{"other": 900}', True),
    ],
)
def test_argument_limit(arguments: str, good: bool) -> None:
    a_turn = under("argument_limit", tool="refund", argument="amount", maximum=200)
    assert holds(a_turn, reply("", ToolCall("refund", arguments))) is good
    assert holds(a_turn, reply("", ToolCall("other", arguments)))


# Readings by hand: a mark followed by groups of three may be a thousands mark.
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("12", {"12"}),
        ("12.50", {"12.5"}),
        ("12,50", {"12.5"}),
        ("1,299.50", {"1299.5"}),
        ("1.299,50", {"1299.5"}),
        ("1,299", {"1299", "1.299"}),
        ("1.299.000", {"1299000"}),
        ("1 299.5", {"1299.5"}),
        ("1'299", {"1299"}),
    ],
)
def test_readings_of_a_number(text: str, values: set[str]) -> None:
    assert readings(text) == {Decimal(value) for value in values}


def test_numbers_of_a_text() -> None:
    assert numbers("EUR 1\u202f299,00 or 5. Then 007") == {Decimal(1299), Decimal(5), Decimal(7)}


@pytest.mark.parametrize(
    ("said", "good"),
    [
        ("You get $45.50 back.", True),
        ("You get $45.5 back.", True),
        ("You get $1,299 back.", True),
        ("You get $1299.00 back.", True),
        ("You get $30 back.", True),  # from the policy's text
        ("You get $20 back.", True),  # from the arguments of an earlier call
        ("You get $45.51 back.", False),
        ("You get $455 back.", False),
        ("You get $45.50 and $12.00 back.", False),
        ("You get 99 back.", True),  # the pattern reads dollars only
    ],
)
def test_grounded_amounts(said: str, good: bool) -> None:
    a_turn = under(
        "grounded_amounts",
        user("How much?"),
        calls_tool("quote", "1", limit=20),
        tool_result("1", '{"total": 45.5, "list": "1,299.00"}'),
        text="Fee: 30 dollars.",
        pattern="re:\\$\\d[\\d.,]*\\d",
    )
    assert holds(a_turn, reply(said)) is good


@pytest.mark.parametrize(
    ("said", "good"), [("on 2024-05-01.", True), ("on 2024-05-10.", False), ("on 2024-05-02.", False)]
)
def test_grounded_dates_are_compared_as_a_whole(said: str, good: bool) -> None:
    a_turn = under(
        "grounded_amounts",
        tool_result("1", '{"a": "2024-05-01", "b": "2023-02-10"}'),
        pattern="re:\\d{4}-\\d\\d-\\d\\d",
    )
    assert holds(a_turn, reply(said)) is good


@pytest.mark.parametrize(
    ("a_reply", "good"),
    [
        (reply("Order OM-123456 is fine."), True),
        (reply("Order om-123456 is fine."), True),
        (reply("Order OM-123457 is fine."), False),
        (reply("", call("get_order", order_id="OM-123456")), True),
        (reply("", call("get_order", order_id="OM-999999")), False),
        (reply("", ToolCall("get_order", '{"order_id": "\\u004fM-999999"}')), False),
        (reply("", ToolCall("get_order", '{"order_id": "OM-999999')), False),
        (reply("", call("get_order", order_id="OM-654321")), True),  # from an earlier call
    ],
)
def test_grounded_ids(a_reply: Reply, good: bool) -> None:
    messages = (user("My order is OM\u2010123456"), calls_tool("get_order", "1", order_id="OM-654321"))
    assert holds(under("grounded_ids", *messages, pattern="re:\\bOM-\\d{6}\\b"), a_reply) is good


def test_a_broken_rule_gives_the_label_and_names_itself() -> None:
    found = outcome(
        METRIC,
        under("argument_limit", tool="refund", argument="amount", maximum=1),
        reply("", call("refund", amount=2)),
    )
    assert found.label == "argument_limit"
    assert found.evidence == ("rule r: refund: amount is 2, at most 1 is allowed",)


# --- claims ------------------------------------------------------------------------------------

CLAIMED = {
    "patterns": ["claim:\\b(?:i've|i have) refunded\\b(?! nothing)", "claim:\\bis cancelled\\b"],
    "tools": ["refund"],
}
REFUNDED = (user("yes"), calls_tool("refund", "1", order_id="A"), tool_result("1", '{"refund_id": "R"}'))


@pytest.mark.parametrize(
    "text",
    [
        "I\u2019ve refunded 45.00 EUR. Did that work for you?",
        "Thank you. No problem, I have refunded it.",
        "Your order is cancelled.",
        "I can't change it. But your order is cancelled.",
    ],
)
def test_a_claim_needs_a_result(text: str) -> None:
    bare = under("claim_needs_result", user("Refund A, please"), **CLAIMED)
    assert result(METRIC, bare, reply(text)) == ("failed", "claim_needs_result")
    assert holds(under("claim_needs_result", *REFUNDED, **CLAIMED), reply(text))


@pytest.mark.parametrize(
    "text",
    [
        "Shall I refund 45.00 EUR?",
        "It would be refunded. Do you agree?",
        "If you say yes, your order is cancelled.",
        "Once I have refunded it, you get a number.",
        "I haven't done anything, and nothing is cancelled.",
        "I have refunded nothing.",
        "Is it true that your order is cancelled?",
    ],
)
def test_a_denial_supposition_or_question_claims_nothing(text: str) -> None:
    assert holds(under("claim_needs_result", **CLAIMED), reply(text))


@pytest.mark.parametrize(
    "history",
    [
        (user("yes"), calls_tool("refund", "1"), tool_result("1", '{"error": "closed"}')),
        (user("yes"), calls_tool("refund", "1"), tool_result("1", "done")),  # no JSON object
        (user("yes"), calls_tool("get_order", "1"), tool_result("1", '{"status": "ok"}')),
    ],
)
def test_only_a_success_of_the_tool_backs_a_claim(history: tuple[dict[str, Any], ...]) -> None:
    assert not holds(under("claim_needs_result", *history, **CLAIMED), reply("I have refunded it."))


def test_a_call_in_the_same_reply_backs_no_claim() -> None:
    a_turn = under("claim_needs_result", **CLAIMED)
    assert not holds(a_turn, reply("I have refunded it.", call("refund", order_id="A")))
    assert holds(a_turn, reply("I will see to it.", call("refund", order_id="A")))


# --- validation --------------------------------------------------------------------------------

GOOD: dict[str, dict[str, Any]] = {
    "never_say": {"patterns": ["no"], "behaviours": ["refuse"]},
    "identity_before_write": IDENTITY,
    "confirmation_before_write": {"write_tools": ["refund"], "confirmation": "re:yes"},
    "argument_limit": {"tool": "refund", "argument": "amount", "maximum": 200},
    "claim_needs_result": {"patterns": ["claim:is done"], "tools": ["refund"]},
    "grounded_amounts": {"pattern": "re:\\d+"},
    "grounded_ids": {"pattern": "re:OM-\\d+"},
}


def test_all_rule_types_are_tried_here() -> None:
    assert set(GOOD) == set(RULE_TYPES)


@pytest.mark.parametrize("rule_type", GOOD)
def test_each_parameter_is_needed_and_no_other_is_known(rule_type: str) -> None:
    parameters = GOOD[rule_type]
    assert validate_rule(PolicyRule("r", rule_type, parameters)) == []
    for name in parameters:
        rest = {key: value for key, value in parameters.items() if key != name}
        complaints = validate_rule(PolicyRule("r", rule_type, rest))
        assert complaints == ([] if name == "behaviours" else [f"{name} is missing"])
        assert validate_rule(PolicyRule("r", rule_type, {**parameters, name: None}))
    assert "unknown parameter 'x'" in validate_rule(PolicyRule("r", rule_type, {**parameters, "x": 1}))[0]


@pytest.mark.parametrize(
    ("rule_type", "change"),
    [
        ("never_say", {"patterns": []}),
        ("never_say", {"patterns": "no"}),
        ("never_say", {"patterns": ["re:("]}),
        ("never_say", {"patterns": ["re:(a+)+"]}),
        ("never_say", {"behaviours": ["sing"]}),
        ("identity_before_write", {"write_tools": []}),
        ("identity_before_write", {"verify_tool": ""}),
        ("argument_limit", {"maximum": True}),
        ("argument_limit", {"maximum": float("nan")}),
        ("argument_limit", {"maximum": "200"}),
        ("grounded_ids", {"pattern": "re:a*"}),
    ],
)
def test_bad_parameters(rule_type: str, change: dict[str, Any]) -> None:
    assert len(validate_rule(PolicyRule("r", rule_type, {**GOOD[rule_type], **change}))) == 1


def test_an_unknown_type_lists_the_known_ones() -> None:
    assert "never_say" in validate_rule(PolicyRule("r", "no_such", {}))[0]


def test_a_rule_that_was_never_validated_fails_closed() -> None:
    a_turn = turn(expect("answer"), policy=Policy("p", "t", (PolicyRule("r", "no_such"),)))
    assert result(METRIC, a_turn, reply("Hello")) == ("unscorable", "evaluator_error")


def test_behaviours_of_rules_are_those_of_turns() -> None:
    names = [behaviour.value for behaviour in Behaviour]
    assert validate_rule(PolicyRule("r", "never_say", {"patterns": ["a"], "behaviours": names})) == []
