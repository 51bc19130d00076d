"""The demo model's training conversations: reproducible, right by their tool results, none of the golden set."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from pipeline.golden.contamination import SeenText
from pipeline.golden.reading import Record, read_jsonl
from pipeline.settings import PROJECT_ROOT

sys.path.insert(0, str(PROJECT_ROOT / "examples" / "demo_model"))
import generate

SUPPORT = PROJECT_ROOT / "golden_sets" / "support"
CHECKED_BY = {"retail": "verify_customer", "telecom": "check_pin", "travel": "check_booker"}
WRITES = {
    "retail": {"refund_order", "cancel_order", "change_address"},
    "telecom": {"place_order", "credit_bill", "end_line"},
    "travel": {"cancel_trip", "change_trip"},  # a delay is paid without asking back
}


def made(business: str, *, seed: int = 1, per_template: int = 2) -> list[dict[str, Any]]:
    return list(generate.conversations(business, seed=seed, per_template=per_template))


@pytest.fixture(scope="module", params=generate.BUSINESSES)
def business(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def conversations(business: str) -> list[dict[str, Any]]:
    return made(business)


def calls(conversation: dict[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for index, message in enumerate(conversation["messages"]):
        for call in message.get("tool_calls", []):
            yield index, call["function"]["name"], json.loads(call["function"]["arguments"])


def test_the_seed_alone_decides(business: str, conversations: list[dict[str, Any]]) -> None:
    assert made(business) == conversations
    assert made(business, seed=2, per_template=1) != conversations[: len(made(business, per_template=1))]


def test_there_is_variety(conversations: list[dict[str, Any]]) -> None:
    openings = [next(m["content"] for m in c["messages"] if m["role"] == "user") for c in conversations]
    assert len(conversations) > 350
    assert len(set(openings)) > 0.97 * len(openings)


def test_no_golden_words_and_no_golden_ids(business: str, conversations: list[dict[str, Any]]) -> None:
    seen = SeenText()
    for number, conversation in enumerate(conversations):
        seen.add(str(number), conversation)
    trained = json.dumps(conversations, ensure_ascii=False)
    for path in sorted((SUPPORT / "transcripts").glob(f"{business}-*.jsonl")):
        for record in read_jsonl(path):
            assert isinstance(record, Record)
            assert list(seen.check(record)) == []
            for message in record.data["messages"]:
                for call in message.get("tool_calls", []):
                    key = json.loads(call["function"]["arguments"])
                    identity = key.get("order_id") or key.get("line") or key.get("reference")
                    assert not identity or f'"{identity}' not in trained


def test_every_call_fits_its_tool(conversations: list[dict[str, Any]]) -> None:
    for conversation in conversations:
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in conversation["tools"]}
        for _, name, arguments in calls(conversation):
            jsonschema.validate(arguments, schemas[name])


def test_nothing_is_written_before_the_check_and_an_answer(business: str, conversations: list[dict[str, Any]]) -> None:
    written = 0
    for conversation in conversations:
        messages = conversation["messages"]
        for index, name, _ in calls(conversation):
            if name not in WRITES[business]:
                continue
            written += 1
            checks = [at for at, other, _ in calls(conversation) if other == CHECKED_BY[business] and at < index]
            assert checks, conversation["id"]
            assert any('"verified": true' in str(m["content"]) for m in messages[checks[0] : index])
            answers = [m for m in messages[checks[0] : index] if m["role"] == "user"]
            assert answers, f"{conversation['id']}: {name} without an answer of the customer"
    assert written > 20


def test_a_template_of_a_held_out_family_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "held_out_families", lambda _: {"order_status"})
    with pytest.raises(ValueError, match="its family order_status is held out"):
        made("retail", per_template=1)


def test_every_held_out_family_is_one_of_the_golden_set(business: str) -> None:
    families = {
        json.loads(line)["meta"]["family"]
        for path in (SUPPORT / "transcripts").glob(f"{business}-*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    held_out = generate.held_out_families(business)
    assert len(held_out) >= 10
    assert held_out <= families
