from __future__ import annotations

import pytest
from evaluator_samples import call, expect, outcome, reply, result, turn

from evaluators.degeneration import CHARACTER_ROUNDS, find_loop

METRIC = "free_of_degeneration"
TURN = turn(expect("answer"))


def label(text: str) -> str:
    status, name = result(METRIC, TURN, reply(text))
    assert (status == "passed") == (name == "sound")
    return name


SOUND = [
    "Your order OM-123456 was shipped on 3 May and will arrive on Friday.",
    "No, no, no - please don't worry. I'm very, very, very sorry.",
    "Ha ha ha ha! Good one.",
    "-" * 60 + "\nTotal: 5.00\n" + "=" * 60,
    "| order | state | paid |\n| --- | --- | --- |\n"
    + "".join(f"| {n} | shipped | yes |\n" for n in range(1001, 1013)),
    "\n".join(f"- Order {n}: shipped" for n in range(1001, 1021)),
    "\n".join(f"- Order {n} was shipped on 3 May and will arrive on Friday." for n in range(1001, 1016)),
    "\n".join(f"Order {n}\nStatus: out for delivery\nCarrier: DPD" for n in range(1001, 1011)),
    '{"items": [0, 0, 0, 0, 0]}',
    "Card ending in **** **** **** 4242, account 00000000000012.",
    "Sí, mañana. Größe 42. 退款会在三天内到账。 Wait... what?! Yes!!!",
]


@pytest.mark.parametrize("text", SOUND)
def test_sound_replies(text: str) -> None:
    assert label(text) == "sound"


def test_a_list_with_two_changing_facts_is_no_loop() -> None:
    lines = [
        f"Your order {n} of {n % 28 + 1} May was shipped with our usual carrier and will arrive soon." for n in range(9)
    ]
    assert find_loop("\n".join(lines)) is None


@pytest.mark.parametrize(
    "text",
    [
        "I am sorry. I am sorry. I am sorry.",
        "Your order is on its way. " * 3,
        "First we check. " + "Then we look, then we ask. " * 4 + "Done.",
        "the " * 8,
        "yes no " * 8,
        "!" * 40,
        "a" * CHARACTER_ROUNDS,
        "我不知道。" * 3,
        # Varying loop: only one word in a sentence of 24 changes; (24 - 4) / 24 = 83 % repeats.
        " ".join(
            f"please note that number {n} of the many things that we would like to tell you about is that you can "
            "always write to our friendly team"
            for n in "abcdefghijklmnopqrstuvwxyz"
        ),
    ],
)
def test_loops(text: str) -> None:
    assert label(text) == "loop"


def test_one_round_less_is_no_loop() -> None:
    assert label("Your order is on its way. " * 2) == "sound"
    assert label("the " * 7) == "sound"
    assert label("a" * (CHARACTER_ROUNDS - 1)) == "sound"


def test_case_and_punctuation_do_not_hide_a_loop() -> None:
    assert label("We are sorry! WE ARE SORRY... we are sorry") == "loop"


@pytest.mark.parametrize(
    "token",
    [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "</s>",
        "<s>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "<|eot_id|>",
        "<|start_header_id|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|assistant|>",
        "<pad>",
        "<｜end▁of▁sentence｜>",
        "<|reserved_special_token_12|>",
        "<|START_OF_TURN_TOKEN|>",
        "</tool_response>",
    ],
)
def test_reserved_tokens(token: str) -> None:
    assert label(f"Your order is on its way.{token}user") == "reserved_token"


@pytest.mark.parametrize(
    "text", ["a < b and c > d", "<strong>Hi</strong>", "[1] see below", "Press <Enter>", "a</span>"]
)
def test_ordinary_brackets(text: str) -> None:
    assert label(text) == "sound"


@pytest.mark.parametrize(
    "text",
    [
        "Your order \ufffd is",
        "Your\u0000order",
        "Your\u001border",
        "price <0xE2><0x82>",
        "Your\u0120order\u0120is",
        "Your\u2581order",
        "It\u00e2\u20ac\u2122s",
        "caf\u00c3\u00a9",
        "half \ud83d of it",
    ],
)
def test_garbled_text(text: str) -> None:
    assert label(text) == "garbled"


def test_evidence_can_always_be_written() -> None:
    for text in outcome(METRIC, TURN, reply("half \ud83d of it")).evidence:
        text.encode("utf-8")


def test_never_stops() -> None:
    cut = outcome(METRIC, TURN, reply("and then " * 2, finish_reason="length"))
    assert (cut.status.value, cut.label) == ("failed", "never_stops")
    assert "10 tokens" in cut.evidence[0]


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_empty(text: str) -> None:
    assert label(text) == "empty"
    assert result(METRIC, TURN, reply(text, call("list_orders"))) == ("passed", "sound")


def test_calls_are_read_too() -> None:
    assert result(METRIC, TURN, reply("", call("get_order", order_id="A<|im_end|>"))) == ("failed", "reserved_token")
    assert result(METRIC, TURN, reply("", call("get_order", order_id="so sorry now " * 9))) == ("failed", "loop")
