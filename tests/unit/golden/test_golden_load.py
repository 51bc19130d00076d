"""Loading: what turns come out, and that faults are named by file, line, id and field."""

from __future__ import annotations

import json

import pytest

from evaluators.turn import Behaviour
from pipeline.errors import GoldenSetError
from pipeline.golden import load, write_manifest
from pipeline.settings import PROJECT_ROOT


def failure(root) -> GoldenSetError:
    with pytest.raises(GoldenSetError) as caught:
        load(root)
    return caught.value


def test_turns_carry_the_golden_history_and_never_what_is_expected(shop):
    golden = load(shop.write(shop.transcript()))
    first, second = golden.turns
    assert (first.id, second.id) == ("broken-vase#1", "broken-vase#3")
    assert [m["role"] for m in first.messages] == ["system", "user"]
    assert first.messages[0]["content"] == "You are the assistant of a shop. Refund up to 200.00 EUR."
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.messages[2]["tool_calls"][0]["function"]["arguments"] == '{"order_id": "A-1"}'
    assert not any("expect" in message for turn in golden.turns for message in (*turn.messages, turn.gold))
    assert second.gold == {"role": "assistant", "content": "Shall I pay back 20.00 EUR?"}
    assert [tool["function"]["name"] for tool in first.tools] == ["get_order", "refund"]
    assert first.expect.behaviour is Behaviour.TOOL_CALL
    assert first.expect.tool_calls[0].arguments == {"order_id": ("A-1",)}
    assert second.expect.critical
    assert [rule.id for rule in first.policy.rules] == ["limit", "no_promise"]
    assert first.policy.rules[0].parameters == {"tool": "refund", "argument": "amount", "maximum": 200}


def test_slices_are_those_given_and_those_that_follow_from_the_turn(shop):
    golden = load(shop.write(shop.transcript()))
    assert [turn.slices for turn in golden.turns] == [("refunds", "tool_calls"), ("amounts", "refunds")]
    assert golden.slice_counts == {"amounts": 1, "refunds": 2, "tool_calls": 1}


@pytest.mark.parametrize(("before", "long"), [(19, False), (20, True)])
def test_long_history_starts_at_twenty_messages_without_the_system_message(shop, before, long):
    talk = [{"role": ("user", "assistant")[i % 2], "content": f"word number {i}"} for i in range(before)]
    if talk[-1]["role"] == "assistant":
        talk[-1] = {"role": "user", "content": "one more"}
    turn = {"role": "assistant", "content": "Yes.", "expect": {"behaviour": "answer", "say": [["yes"]]}}
    golden = load(shop.write(shop.transcript(messages=[*talk, turn])))
    assert ("long_history" in golden.turns[0].slices) is long


def test_acceptable_values_join_the_argument_and_keep_json_types_apart(shop):
    call = {"name": "refund", "arguments": {"amount": 1}, "acceptable": {"amount": [1, 2, 2], "order_id": ["A"]}}
    golden = load(shop.write(shop.expecting({"behaviour": "tool_call", "tool_calls": [call]})))
    assert golden.turns[0].expect.tool_calls[0].arguments == {"amount": (1, 2), "order_id": ("A",)}


def test_turns_are_sorted_by_id_and_counted_by_scenario(shop):
    other = shop.expecting({"behaviour": "refuse"}, id="a-first", scenario="broken-vase")
    golden = load(shop.write(shop.transcript(), other))
    assert [turn.id for turn in golden.turns] == ["a-first#1", "broken-vase#1", "broken-vase#3"]
    assert (golden.transcript_count, golden.scenarios, golden.name) == (2, 1, "shop")


def test_a_single_file_finds_its_policies_beside_it(shop):
    shop.write(shop.transcript())
    assert len(load(shop.file).turns) == 2


def test_the_digest_changes_with_any_file(shop):
    root = shop.write(shop.transcript())
    first = load(root).digest
    assert load(root).digest == first
    policy = root / "policies" / "shop.md"
    policy.write_text(policy.read_text() + "Be kind.\n")
    second = load(root).digest
    shop.write(shop.transcript(licence="MIT"))
    assert len({first, second, load(root).digest}) == 3


def test_a_broken_line_is_named_with_its_column(shop):
    shop.write(shop.transcript())
    with shop.file.open("a") as file:
        file.write('{"id": "x", }\n')
    message = failure(shop.root).message
    assert "shop.jsonl:2: -: -: not JSON: column 13" in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"id": "a", "id": "b"}', "key 'id' is given twice"),
        (b'{"id": NaN}', "NaN is not JSON"),
        (b"[1]", "a transcript is a JSON object, this is list"),
        (b'{"id": "\xff"}', "not UTF-8: byte 9"),
        (b'{"id": "\\ud83d"}', "a string holds half a surrogate pair"),
        (b"{", "one transcript must stand on one line"),
    ],
)
def test_lines_that_are_not_a_json_object(shop, line, told):
    shop.file.write_bytes(line + b"\n")
    assert f"shop.jsonl:1: -: -: {told}" in failure(shop.root).message or told in failure(shop.root).message


def test_a_line_separator_inside_a_string_does_not_end_the_line(shop):
    text = json.dumps(shop.transcript(), ensure_ascii=False).replace("broken,", "broken\u2028,")
    shop.file.write_text(text + "\n", encoding="utf-8")
    assert "\u2028" in load(shop.root).turns[0].messages[1]["content"]


def test_at_most_twenty_faults_are_listed(shop):
    shop.write(*(shop.transcript(id=f"t{i}", policy="gone") for i in range(23)))
    error = failure(shop.root)
    assert error.message.startswith(f"golden set {shop.root}: 23 errors\n")
    assert error.message.count("\n") == 21
    assert error.message.endswith("... and 3 more")
    assert "policy: no usable policy file 'gone'; there are: shop" in error.message
    assert error.exit_code == 2


def test_an_absent_or_empty_set(shop, tmp_path):
    assert "no such file" in failure(tmp_path / "nowhere").message
    assert "File name too long" in failure("x" * 5000).message
    assert "no transcripts/*.jsonl" in failure(shop.root).message
    shop.file.write_text("\n\n")
    assert "no transcripts in it" in failure(shop.root).message


# --- policies and tools ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Just text.", "shop.md:1: shop: -: a policy starts with YAML between two '---' lines"),
        ("---\nid: [\n---\nText", "shop.md:2: shop: -: front matter is not valid YAML"),
        ("---\nid: other\n---\nText", "shop.md:2: shop: id: is 'other', but the file is named 'shop'"),
        ("---\nid: shop\n---\n", "the policy has no text"),
        ("---\nid: shop\nrules:\n  - {id: a}\n---\nText", "shop.md:4: shop: rules[0]: 'type' is a required property"),
        (
            "---\nid: shop\nrules:\n  - {id: a, type: argument_limit, tool: refund, argument: amount}\n---\nText",
            "shop.md:4: shop: rules[0]: rule a: maximum is missing",
        ),
        ("---\nid: shop\nrule: []\n---\nText", "Additional properties are not allowed ('rule' was unexpected)"),
    ],
)
def test_policy_files_that_cannot_be_used(shop, text, told):
    shop.write(shop.transcript())
    (shop.root / "policies" / "shop.md").write_text(text)
    assert told in failure(shop.root).message


def test_a_rule_naming_a_tool_that_is_not_offered(shop):
    policy = shop.root / "policies" / "shop.md"
    policy.write_text(policy.read_text().replace("tool: refund", "tool: pay_back"))
    message = failure(shop.write(shop.transcript())).message
    assert "rule limit of shop: unknown tool 'pay_back'; offered: get_order, refund" in message


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([{"type": "function", "function": {"name": "a b"}}], "[0].function.name: 'a b' does not match"),
        (
            [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": 3}}}],
            "parameters of 'f' are not a valid JSON Schema: properties: 3 is not of type 'object'",
        ),
        (
            [
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": {"type": "object", "allOf": [{"$ref": "x:y"}]}},
                }
            ],
            "a reference cannot be resolved",
        ),
        ([{"type": "function", "function": {"name": "f"}}] * 2, "tool 'f' is defined twice"),
        ({}, "shop.json:1: shop: -:"),
    ],
)
def test_tool_files_that_cannot_be_used(shop, tools, told):
    shop.write_tools(tools)
    assert told in failure(shop.write(shop.transcript())).message


# --- manifest ----------------------------------------------------------------------------------


def test_a_changed_set_is_refused_until_its_manifest_is_written_again(shop):
    root = shop.write(shop.transcript())
    write_manifest(root)
    load(root)
    shop.write(shop.transcript(licence="MIT"))
    (root / "policies" / "new.md").write_text("---\nid: new\n---\nText")
    message = failure(root).message
    assert (
        "transcripts/shop.jsonl has changed; if the change is meant, run `quant-gate golden manifest --write`"
        in message
    )
    assert "policies/new.md is new" in message
    (root / "tools" / "shop.json").unlink()
    assert "tools/shop.json is gone" in failure(root).message
    (root / "MANIFEST.json").write_text("{}")
    assert "unreadable manifest" in failure(root).message


# --- documentation -----------------------------------------------------------------------------


def test_the_transcript_and_policy_in_the_documentation_can_be_loaded(shop):
    text = (PROJECT_ROOT / "docs" / "golden-sets.md").read_text(encoding="utf-8")
    blocks = [block.partition("\n")[::2] for block in text.split("```")[1::2]]
    transcript = next(body for kind, body in blocks if kind == "json")
    policy = next(body for _, body in blocks if body.startswith("---\nid: shop"))
    names = {"verify_customer": ["email"], "refund_order": ["order_id", "amount"], "get_order": ["order_id"]}
    shop.write_tools(
        [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "parameters": {"type": "object", "properties": {p: {} for p in parameters}},
                },
            }
            for name, parameters in names.items()
        ]
    )
    (shop.root / "policies" / "shop.md").write_text(policy)
    golden = load(shop.write(json.loads(transcript)))
    assert [turn.expect.behaviour for turn in golden.turns] == ["tool_call", "clarify"]
    assert [rule.type for rule in golden.turns[0].policy.rules][:2] == [
        "identity_before_write",
        "confirmation_before_write",
    ]
