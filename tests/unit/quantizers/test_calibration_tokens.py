"""What the workers read of calibration conversations, with a tokenizer of one token a character."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.quantizers.worker import SCRIPTS


class Refused(Exception):
    """Stands for the end of the worker."""


class FakeTokenizer:
    @classmethod
    def from_pretrained(cls, checkpoint: str) -> FakeTokenizer:
        return cls()

    def apply_chat_template(self, messages: list[dict[str, Any]], **_: Any) -> str:
        return "".join(message["content"] for message in messages)

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": list(map(ord, text))}


Read = Callable[..., list[str]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def read(said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """What is read of conversations of a system prompt and a question each."""

    def refuse(text: str, remedy: str) -> None:
        raise Refused(f"{text} {remedy}")

    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=FakeTokenizer))
    monkeypatch.setitem(sys.modules, "worker_io", SimpleNamespace(say=said.append, refuse=refuse))
    module = importlib.import_module("calibration_tokens")
    del sys.modules["calibration_tokens"]  # the next test has other stand-ins

    def reading(system: str, *questions: str, max_tokens: int) -> list[str]:
        lines = [
            {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
            for question in questions
        ]
        samples = tmp_path / "samples.jsonl"
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)  # as `calibration.write` does
        samples.write_text(text, encoding="utf-8")
        job = {
            "checkpoint": "",
            "samples": str(samples),
            "max_tokens": max_tokens,
            "template": "",
            "enough_tokens": None,
        }
        return ["".join(map(chr, ids)) for ids in module.calibration_tokens(job)]

    return reading


def test_conversations_that_fit_are_read_whole_and_in_silence(read: Read, said: list[str]) -> None:
    assert read("s:", "one", "two", max_tokens=5) == ["s:one", "s:two"]
    assert said == []


def test_how_many_were_cut_is_said(read: Read, said: list[str]) -> None:
    assert read("s:", "one", "three", "two!", max_tokens=5) == ["s:one", "s:thr", "s:two"]
    assert said == ["2 of 3 calibration conversations are cut to their first 5 tokens"]


def test_a_system_prompt_that_leaves_no_room_is_refused(read: Read) -> None:
    with pytest.raises(Refused, match=r"the first 5 tokens of all 2 conversations are the same.*max_tokens"):
        read("system", "one", "two", max_tokens=5)
    assert read("system", "one", max_tokens=5) == ["syste"]


def test_other_line_ends_may_stand_in_a_text(read: Read) -> None:
    assert read("", "one\u2028two", "three\x85", max_tokens=9) == ["one\u2028two", "three\x85"]
