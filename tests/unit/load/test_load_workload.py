"""The requests: golden prompts in full, a third each of short, medium and long, the same order everywhere."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate_fakes import write_golden, write_replies

from pipeline import golden as golden_sets
from pipeline.errors import ModelError
from pipeline.load.workload import golden_text, make_workload
from pipeline.quantizers.checkpoint import Checkpoint

TEMPLATE = "{% for m in messages %}{{ m.role }} says {{ m.content }} {% endfor %}assistant says"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return Checkpoint(folder, "fake", None, "d" * 64, 1, "FakeForCausalLM", TEMPLATE)


def answered(root: Path) -> Path:
    """A golden set whose turns have golden replies."""
    write_replies(write_golden(root))
    return root


def test_prompts_are_the_golden_ones(checkpoint: Checkpoint, tmp_path: Path) -> None:
    turns = golden_sets.load(str(answered(tmp_path / "orders"))).turns
    workload = make_workload(checkpoint, turns, 100)
    first = workload.requests[0]
    turn = next(turn for turn in turns if turn.id == first.turn_id)
    assert first.prompt == f"user says {turn.messages[-1]['content']} assistant says"
    assert first.prompt_tokens == 8  # user says where is order A-000 assistant says
    assert [request.length for request in workload.requests[:4]] == ["short", "medium", "long", "short"]
    again = make_workload(checkpoint, tuple(reversed(turns)), 100)
    assert again.digest == workload.digest


def test_levels_take_from_the_first_on_and_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    turns = golden_sets.load(str(answered(tmp_path / "orders"))).turns[:3]
    workload = make_workload(checkpoint, turns, 100)
    workload.write(tmp_path / "data.jsonl", 5)
    lines = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["prompt"] for line in lines] == [workload.requests[n % 3].prompt for n in range(5)]
    assert all(line["output_tokens"] >= 1 for line in lines)


def test_turns_that_do_not_fit_are_left_out(checkpoint: Checkpoint, tmp_path: Path) -> None:
    turns = golden_sets.load(str(answered(tmp_path / "orders"))).turns
    with pytest.raises(ModelError, match="only 0 of 90 golden turns have a golden reply and fit into 8 tokens"):
        make_workload(checkpoint, turns, 8)


def test_a_turn_without_a_golden_reply_is_no_request_for_one_token(checkpoint: Checkpoint, tmp_path: Path) -> None:
    turns = golden_sets.load(str(answered(tmp_path / "orders"))).turns
    silent = replace(turns[0], gold={"role": "assistant"})
    workload = make_workload(checkpoint, (silent, *turns[1:4]), 100)
    assert sorted(request.turn_id for request in workload.requests) == sorted(turn.id for turn in turns[1:4])
    with pytest.raises(ModelError, match="only 0 of 1 golden turns have a golden reply"):
        make_workload(checkpoint, (silent,), 100)


def test_length_of_a_reply_counts_its_calls() -> None:
    gold = {"content": "One moment.", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
    assert golden_text(gold) == 'One moment.\n{"name": "f", "arguments": {"a": 1}}'
    assert golden_text({"content": None}) == ""
