"""Checking: every kind of fault is found where it is, and a sound set has none."""

from __future__ import annotations

import copy
import json

import pytest

from pipeline.golden import Severity
from pipeline.golden import check as check_set
from pipeline.golden.check import MOST_COMPLAINTS, survey


def check(root, against=()):
    """The project's own calibration texts are left out: they are no business of these sets."""
    return check_set(root, against)


def told(root) -> list[str]:
    """Complaints as ``field: message``."""
    return [f"{c.field}: {c.message}" for c in check(root)]


def the_one(root) -> str:
    (complaint,) = told(root)
    return complaint


def test_a_sound_set_has_no_complaints(shop):
    assert check(shop.write(shop.transcript())) == []


def test_a_complaint_names_file_line_id_and_field(shop):
    broken = shop.expecting({"behaviour": "answer"}, id="b")
    (complaint,) = check(shop.write(shop.transcript(), broken))
    assert (complaint.line, complaint.id, complaint.field) == (2, "b", "messages[1].expect")
    assert complaint.file.endswith("transcripts/shop.jsonl")
    assert str(complaint).startswith(f"{complaint.file}:2: b: messages[1].expect: checks nothing")


# --- schema ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": None}, ": 'id' is a required property"),
        ({"colour": "red"}, ": Additional properties are not allowed ('colour' was unexpected)"),
        ({"slices": ["Not Good"]}, "slices[0]: 'Not Good' does not match"),
        ({"tools": "a b"}, "tools: 'a b' does not match"),
        ({"messages": [{"role": "bot", "content": "x"}] * 2}, "messages[0].role: 'bot' is not one of"),
    ],
)
def test_schema_violations(shop, change, expected):
    assert any(line.startswith(expected) for line in told(shop.write(shop.transcript(**change))))


def test_expect_on_a_user_message_is_refused(shop):
    data = shop.transcript()
    data["messages"][0]["expect"] = {"behaviour": "answer"}
    assert the_one(shop.write(data)).startswith("messages[0]: Additional properties are not allowed ('expect'")


# --- expectations ------------------------------------------------------------------------------

CALL = {"name": "refund", "arguments": {"order_id": "A-1", "amount": 20}}


def calls(**changes) -> dict:
    return {"behaviour": "tool_call", "tool_calls": [{**copy.deepcopy(CALL), **changes}]}


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        ({"behaviour": "tool_call"}, "messages[1].expect: checks nothing: behaviour tool_call without tool_calls"),
        ({"behaviour": "answer"}, "messages[1].expect: checks nothing: behaviour answer needs 'say'"),
        ({"behaviour": "answer", "never_say": ["x"]}, "messages[1].expect: checks nothing"),
        ({"behaviour": "clarify"}, "messages[1].expect: checks nothing: behaviour clarify needs 'say'"),
        ({"behaviour": "escalate"}, "messages[1].expect: checks nothing: behaviour escalate needs"),
        ({"behaviour": "refuse", "tool_calls": [CALL]}, "messages[1].expect.tool_calls: behaviour refuse means"),
        (
            {"behaviour": "refuse", "alternatives": [{"behaviour": "answer"}]},
            "messages[1].expect.alternatives[0]: checks nothing",
        ),
        (
            {"behaviour": "refuse", "forbidden_tools": ["refund"], "alternatives": [{"behaviour": "clarify"}]},
            "messages[1].expect.alternatives[0]: checks nothing: an alternative needs tool_calls or 'say' of its own",
        ),
        ({**calls(), "order": "exact"}, "messages[1].expect.order: 'exact' needs at least two"),
        (calls(name="pay"), "messages[1].expect.tool_calls[0].name: unknown tool 'pay'; offered: get_order, refund"),
        ({"behaviour": "refuse", "forbidden_tools": ["pay"]}, "messages[1].expect.forbidden_tools: checks nothing"),
        (
            {"behaviour": "refuse", "forbidden_calls": [{"name": "pay", "arguments": {"a": 1}}]},
            "messages[1].expect.forbidden_calls[0].name: checks nothing",
        ),
        (
            {"behaviour": "refuse", "forbidden_calls": [{"name": "refund", "arguments": {"sum": 1}}]},
            "messages[1].expect.forbidden_calls[0]: refund has no parameter 'sum'",
        ),
        (
            {"behaviour": "refuse", "forbidden_calls": [{"name": "refund"}]},
            "messages[1].expect.forbidden_calls[0]: names no arguments",
        ),
    ],
)
def test_expectations_that_check_nothing_or_cannot_be_met(shop, expect, expected):
    assert the_one(shop.write(shop.expecting(expect))).startswith(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"arguments": {"order_id": "A-1", "amount": "20"}}, ".arguments: breaks the schema of refund: amount: '20'"),
        ({"arguments": {"order_id": "A-1"}}, ".arguments: breaks the schema of refund: 'amount' is a required"),
        ({"arguments": {**CALL["arguments"], "reason": "ugly"}}, ".arguments: breaks the schema of refund: reason:"),
        ({"acceptable": {"amount": [20.5, -1]}}, ".acceptable.amount: -1 breaks the schema of refund: amount: -1"),
        ({"optional": ["amount"]}, ".optional: with the optional parameters left out, the call breaks the schema"),
        ({"optional": ["reason"]}, ".optional: 'reason' has no values"),
        ({"free": ["amount"]}, ".free: 'amount' is free and also has values"),
        ({"free": ["colour"]}, ": refund has no parameter 'colour'"),
        ({"unordered": ["order_id"]}, ".unordered: 'order_id' must have a list"),
    ],
)
def test_expected_arguments_that_no_valid_call_can_have(shop, changes, expected):
    assert the_one(shop.write(shop.expecting(calls(**changes)))).startswith(
        f"messages[1].expect.tool_calls[0]{expected}"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"order_id": "A-1"}, "free": ["amount"]},
        {"arguments": {**CALL["arguments"], "reason": "lost"}, "optional": ["reason"]},
        {"free": ["reason"], "optional": ["reason"]},
        {"arguments": {**CALL["arguments"], "items": ["a", "b"]}, "unordered": ["items"]},
    ],
)
def test_sound_arguments(shop, changes):
    assert told(shop.write(shop.expecting(calls(**changes)))) == []


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"forbidden_tools": ["refund"]}, "refund is expected and stands in forbidden_tools"),
        ({"forbidden_calls": [{"name": "refund", "arguments": {"amount": 20}}]}, "also matches forbidden_calls[0]"),
        ({"alternatives": [calls()]}, "repeats an answer that is already there"),
        ({"say": [["20 euros"]], "never_say": ["euros"]}, "can never count: never_say 'euros' matches it"),
    ],
)
def test_expectations_that_contradict_themselves(shop, extra, expected):
    assert expected in the_one(shop.write(shop.expecting({**calls(), **extra})))


def test_a_forbidden_call_with_other_values_is_no_contradiction(shop):
    expect = {**calls(), "forbidden_calls": [{"name": "refund", "arguments": {"amount": 500}}]}
    assert told(shop.write(shop.expecting(expect))) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("re:(", "not a regular expression"), ("re:(a+)+$", "exponential time"), ("re:x*", "matches the empty text")],
)
def test_patterns_that_cannot_be_used(shop, pattern, expected):
    line = the_one(shop.write(shop.expecting({"behaviour": "answer", "say": [[pattern]]})))
    assert line.startswith("messages[1].expect.say[0][0]: ")
    assert expected in line


# --- history -----------------------------------------------------------------------------------


def bend(shop, change) -> str:
    data = shop.transcript()
    change(data["messages"])
    return the_one(shop.write(data))


def call_of(messages):
    return messages[1]["tool_calls"][0]


def test_a_result_that_answers_no_call(shop):
    assert "answers no open call" in bend(shop, lambda m: m.insert(1, {**m[2], "tool_call_id": "zz"}))


def test_a_call_without_result(shop):
    assert bend(shop, lambda m: m.__setitem__(2, {"role": "user", "content": "?"})) == (
        "messages[2]: tool call c1 has no result before this message"
    )


def test_a_result_under_another_tools_name(shop):
    assert "but the call was to 'get_order'" in bend(shop, lambda m: m[2].update(name="refund"))


def test_a_second_system_message(shop):
    system = {"role": "system", "content": "Be rude."}
    assert bend(shop, lambda m: m.insert(0, system)).startswith("messages[0]: the policy's text is the system")
    data = shop.transcript()
    data["messages"].insert(3, system)
    assert told(shop.write(data))[0] == "messages[3]: a system message may only come first"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("{", "not JSON: column 2"),
        ("[]", "arguments must be the text of a JSON object"),
        ('{"order_id": 1}', "golden call breaks the schema of get_order: order_id: 1 is not of type 'string'"),
        ('{"order_id": "a", "order_id": "b"}', "not JSON: key 'order_id' is given twice"),
    ],
)
def test_golden_calls_are_held_to_their_schema(shop, arguments, expected):
    lines = told(shop.write(_with_arguments(shop, arguments)))
    assert lines[0].startswith(f"messages[1].tool_calls[0].function.arguments: {expected}")


def _with_arguments(shop, arguments):
    data = shop.transcript()
    call_of(data["messages"])["function"]["arguments"] = arguments
    return data


def test_a_transcript_that_scores_nothing(shop):
    data = shop.transcript()
    for message in data["messages"]:
        message.pop("expect", None)
    assert the_one(shop.write(data)) == "messages: no assistant message carries 'expect': nothing would be scored"


def test_a_turn_without_golden_reply_must_be_last(shop):
    more = [{"role": "user", "content": "hm"}, {"role": "assistant", "content": "Hm."}]
    data = shop.expecting({"behaviour": "refuse"})
    data["messages"] += more
    assert the_one(shop.write(data)) == "messages[1]: a turn without a golden reply must be the last message"


def test_a_turn_must_follow_the_customer_or_a_tool(shop):
    line = bend(shop, lambda m: m.insert(3, {"role": "assistant", "content": "One moment."}))
    assert line == "messages[4]: a turn with 'expect' must follow a user message or a tool result"


# --- the golden reply --------------------------------------------------------------------------


def test_a_golden_reply_must_pass_its_own_turn(shop):
    data = shop.transcript()
    data["messages"][3]["content"] = "Shall I pay back 25.00 EUR?"
    lines = told(shop.write(data))
    assert lines
    assert all(line.startswith("messages[3]: the golden reply itself fails ") for line in lines)


# --- across transcripts ------------------------------------------------------------------------


def test_an_id_used_twice(shop):
    other = shop.expecting({"behaviour": "refuse"})
    line = the_one(shop.write(shop.transcript(), other))
    assert line.startswith("id: is used before, at ")
    assert line.endswith("shop.jsonl:1")


def test_the_same_conversation_twice(shop):
    again = shop.transcript(id="again", scenario="another")
    again["messages"][0]["content"] = again["messages"][0]["content"].upper() + "!!"
    assert "the same conversation as broken-vase" in the_one(shop.write(shop.transcript(), again))


def test_one_history_with_two_expectations(shop):
    first = shop.expecting({"behaviour": "refuse"}, id="a")
    second = shop.expecting({"behaviour": "comply"}, id="b")
    second["messages"][1]["content"] = "Of course."
    first["messages"][1]["content"] = "No, sorry, I cannot."
    line = the_one(shop.write(first, second))
    assert line.startswith("messages[1].expect: contradicts turn a#1 ")


def test_one_turn_counted_twice(shop):
    other = shop.transcript(id="b", scenario="b")
    other["messages"][3] = {"role": "assistant", "content": "It cost 20.00 EUR.", "expect": {"behaviour": "refuse"}}
    lines = told(shop.write(shop.transcript(), other))
    assert any(line.startswith("messages[1].expect: repeats turn broken-vase#1 ") for line in lines)


LONG = (
    "good morning, last week i ordered three garden chairs and one small table from you and today the parcel came "
    "with only two of the chairs in it, the third one is missing and the table has a deep scratch on its top, so "
    "what can you do about this please"
)


def test_near_duplicates_are_warned_of_unless_they_share_a_scenario(shop):
    def said(text, name, scenario):
        data = shop.expecting({"behaviour": "refuse"}, id=name, scenario=scenario)
        data["messages"][0]["content"] = text
        return data

    root = shop.write(said(LONG, "a", "a"), said(LONG.replace("morning", "evening"), "b", "b"))
    (complaint,) = check(root)
    assert complaint.severity is Severity.WARNING
    assert "the same word triples as a (" in complaint.message
    shop.write(said(LONG, "a", "a"), said(LONG.replace("morning", "evening"), "b", "a"))
    assert check(root) == []
    different = LONG.replace("chairs", "lamps").replace("table", "mirror").replace("week", "month")
    shop.write(said(LONG, "a", "a"), said(different, "b", "b"))
    assert check(root) == []


# --- contamination -----------------------------------------------------------------------------


def test_customer_words_that_stand_in_training_data(shop, tmp_path):
    training = tmp_path / "train.jsonl"
    data = shop.expecting({"behaviour": "refuse"})
    data["messages"][0]["content"] = LONG
    root = shop.write(data)
    run = " ".join(LONG.replace(",", "").split()[5:18])  # 13 words, from the middle, without commas
    training.write_text(json.dumps({"text": f"Well - {run.upper()}; bye"}) + "\n")
    (complaint,) = check(root, against=[training])
    assert complaint.severity is Severity.ERROR
    assert complaint.field == "messages[0].content"
    assert f"{training}:1" in complaint.message
    training.write_text(json.dumps({"text": " ".join(run.split()[:12])}) + "\n")
    assert check(root, against=[training]) == []
    training.write_text(json.dumps({"messages": [{"role": "system", "content": LONG}]}) + "\n")
    assert check(root, against=[training]) == []


def test_a_short_customer_message_as_a_whole(shop, tmp_path):
    training = tmp_path / "train.jsonl"
    data = shop.expecting({"behaviour": "refuse"})
    data["messages"][0]["content"] = "please send my order somewhere else today"  # seven words: may be chance
    training.write_text(json.dumps({"text": data["messages"][0]["content"]}) + "\n")
    assert check(shop.write(data), against=[training]) == []
    data["messages"][0]["content"] += " thanks"
    training.write_text(json.dumps({"text": data["messages"][0]["content"]}) + "\n")
    assert len(check(shop.write(data), against=[training])) == 1


def test_stock_phrases_of_the_assistant_are_a_warning(shop, tmp_path):
    training = tmp_path / "train.jsonl"
    data = shop.transcript()
    data["messages"][3]["content"] = LONG + " 20.00"
    training.write_text(json.dumps({"text": LONG}) + "\n")
    found = check(shop.write(data), against=[training])
    assert [c.severity for c in found] == [Severity.WARNING]


def test_unreadable_training_data_is_an_error(shop, tmp_path):
    training = tmp_path / "train.jsonl"
    training.write_text("{\n")
    (complaint,) = check(shop.write(shop.transcript()), against=[training])
    assert complaint.severity is Severity.ERROR


def test_the_survey_counts_what_it_read(shop):
    found = survey(shop.write(shop.transcript(), shop.expecting({"behaviour": "answer"}, id="b")), against=())
    assert (found.transcripts, found.turns, found.scenarios) == (2, 2, 1)
    assert found.slice_counts == {"amounts": 1, "refunds": 2, "tool_calls": 1}


def test_a_hopeless_file_is_given_up(shop):
    shop.file.write_text("{\n" * 6_000)
    complaints = check(shop.root)
    assert len(complaints) == MOST_COMPLAINTS + 2
    assert complaints[-1].message.startswith("stopped here after 5,001 complaints")
