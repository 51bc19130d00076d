"""Redaction: what is replaced, what is not, and that what belongs together still does."""

from __future__ import annotations

import json
import re

import pytest

from pipeline.golden.redact import luhn_valid, redact


def redacted(text: str) -> str:
    return redact({"id": "t", "messages": [{"role": "user", "content": text}]})["messages"][0]["content"]


@pytest.mark.parametrize(
    ("secret", "shape"),
    [
        ("ann.b+shop@mail.co.uk", r"person1@example\.com"),
        ("4111 1111 1111 1111", r"4000 00\d\d \d{4} \d{4}"),
        ("(977) 625-2661", r"\(\d{3}\) 555-01\d\d"),
        ("+44 20 7946 0958", r"\+44 \d\d 2?\d*555 01\d\d|\+44 [\d ]+"),
        ("OM-482913", r"OM-[1-9]{6}"),
        ("#W1234567", r"#W[1-9]{7}"),
        ("3348917502", r"[1-9]{10}"),
        ("3RK2T9", r"[1-9][A-Z]{2}[1-9][A-Z][1-9]"),
    ],
)
def test_secrets_are_replaced_in_their_own_shape(secret, shape):
    found = redacted(f"It is {secret}, thanks.")
    assert secret not in found
    assert re.fullmatch(rf"It is (?:{shape}), thanks\.", found)


@pytest.mark.parametrize(
    "text",
    [
        "on 2024-05-16 at 14:30",
        "paid 1,234.56 EUR",
        "in 2024, 128 GB, 30 days",
        "zip 19122",
        "COVID19 rules",
        "12345.67 EUR",
        "20240516",
    ],
)
def test_dates_amounts_and_plain_numbers_stay(text):
    assert redacted(text) == text


def test_luhn_check_digit():
    # 79927398713 is the worked example of the algorithm; any other last digit fails.
    assert [d for d in "0123456789" if luhn_valid(f"7992739871{d}")] == ["3"]


def test_a_replaced_card_is_again_a_valid_number_and_a_wrong_one_is_an_id():
    found = redacted("card 4111-1111-1111-1111.")
    number = re.search(r"[\d-]{19}", found).group()
    assert luhn_valid(number)
    assert "4111-1111-1111-1112" not in redacted("card 4111-1111-1111-1112.")


def test_one_value_has_one_replacement_in_words_calls_and_expectations():
    data = {
        "id": "t",
        "messages": [
            {"role": "system", "content": "Order numbers look like OM-123456."},
            {"role": "user", "content": "OM-482913 and item 4107812777, write to Ann.B@mail.com, om-482913!"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "call_123456",
                        "type": "function",
                        "function": {"name": "get_1234", "arguments": '{"o": "OM-482913", "i": 4107812777}'},
                    }
                ],
                "expect": {
                    "behaviour": "tool_call",
                    "tool_calls": [{"name": "get_1234", "arguments": {"o": "OM-482913", "i": 4107812777}}],
                    "say": [["re:OM-482913", "ann.b@mail.com"]],
                },
            },
        ],
    }
    system, user, turn = redact(data)["messages"]
    assert system == data["messages"][0]
    order, item = re.match(r"(OM-\d{6}) and item (\d{10}), write to person1@example.com", user["content"]).groups()
    assert order != "OM-482913"
    assert user["content"].endswith(f"{order.lower()}!")
    function = turn["tool_calls"][0]["function"]
    assert function["name"] == "get_1234"
    assert turn["tool_calls"][0]["id"] == "call_123456"
    assert json.loads(function["arguments"]) == {"o": order, "i": int(item)}
    assert turn["expect"]["tool_calls"][0]["arguments"] == {"o": order, "i": int(item)}
    assert turn["expect"]["say"] == [[f"re:{order}", "person1@example.com"]]


def test_different_values_stay_different():
    numbers = [f"OM-{n}" for n in range(100000, 100400)]
    found = redacted(" ".join(numbers)).split()
    assert len(set(found)) == 400
    assert not set(found) & set(numbers)


def test_values_that_a_tool_schema_names_stay():
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"enum": ["SKU-123456"]}}}]
    data = {"id": "t", "tools": tools, "messages": [{"role": "user", "content": "SKU-123456 or SKU-654321"}]}
    assert redact(data)["messages"][0]["content"].startswith("SKU-123456 or SKU-")
    assert "654321" not in redact(data)["messages"][0]["content"]


def test_the_replacement_does_not_depend_on_the_value():
    first, second = redacted("OM-482913"), redacted("OM-999888")
    assert first == second
