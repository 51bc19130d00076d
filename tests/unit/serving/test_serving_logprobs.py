"""Teacher forcing against a fake engine whose tokens are words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from logprob_engine import FakeLogprobEngine
from serving_samples import TOOL, make_turn

from evaluators.turn import Turn
from pipeline.digests import digest_of
from pipeline.errors import RecordError, ReplayError, ServerError
from pipeline.progress import Silent
from pipeline.serving import logprobs
from pipeline.serving.logprobs import TurnLogprobs, collect, read_logprobs
from pipeline.settings import ReplaySettings

CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order":7}'}}


def text_turn(text: str = "where?") -> Turn:
    return replace(make_turn(text), gold={"role": "assistant", "content": "It is here."})


def call_turn(said: str | None = None) -> Turn:
    return replace(
        make_turn("look", (TOOL,)), gold={"role": "assistant", "content": said, "tool_calls": [CALL]}, id="call"
    )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeLogprobEngine:
    """What every connection of the module leads to."""
    fake = FakeLogprobEngine()
    monkeypatch.setattr(logprobs.httpx, "Client", partial(httpx.Client, transport=fake.transport()))
    monkeypatch.setattr(logprobs, "PAUSE_S", 0)
    return fake


def ask(path: Path, *turns: Turn, check: Callable[[], None] = lambda: None) -> list[TurnLogprobs]:
    records = collect(
        url="http://fake",
        turns=turns,
        ends={0},
        settings=ReplaySettings(attempts=2),
        path=path,
        check=check,
        progress=Silent(),
        label="test",
    )
    assert list(records) == [turn.id for turn in turns]
    return list(records.values())


def test_keeps_the_golden_replys_tokens_and_what_is_listed_there(engine: FakeLogprobEngine, tmp_path: Path) -> None:
    (record,) = ask(tmp_path / "kept.jsonl", text_turn())
    assert engine.text(record.token_ids) == "It is here. <end>"  # not the newline that the template adds
    assert record.calls_from == 4
    assert [set(listing) for listing in record.listings] == [{token, token + 1000} for token in record.token_ids]
    assert record.listings[0][record.token_ids[0]] == pytest.approx(math.log(0.5), abs=1e-6)
    prompt = engine.ids("<system> Be kind. <end> <newline> <user> where? <end> <newline> <assistant>")
    assert (record.prompt_digest, record.prompt_tokens) == (digest_of(prompt), len(prompt))
    path, body = engine.requests[-1]
    assert path == "/v1/completions"
    assert body["prompt"] == [*prompt, *record.token_ids]
    assert body["prompt_logprobs"] == 20


@pytest.mark.parametrize(("said", "text"), [(None, ""), ("One moment.", "One moment.")])
def test_tool_calls_begin_where_the_reply_without_them_ends(
    engine: FakeLogprobEngine, tmp_path: Path, said: str | None, text: str
) -> None:
    (record,) = ask(tmp_path / "kept.jsonl", call_turn(said))
    assert engine.text(record.token_ids[: record.calls_from]) == text
    assert engine.text(record.token_ids[record.calls_from :]) == '<call> look_up {"order":7} </call> <end>'
    assert all("tools" in body for path, body in engine.requests if path == "/tokenize")


def test_what_was_kept_is_not_asked_again_and_errors_are(engine: FakeLogprobEngine, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    engine.fail = lambda where, body: (
        httpx.Response(400, json={"error": {"message": "too long"}})
        if "b" in str(body) and "tokenize" in where
        else None
    )
    first = ask(path, text_turn("a"), text_turn("b"))
    assert [record.error for record in first] == [None, "HTTP 400: too long"]
    with path.open("a") as handle:
        handle.write('{"turn_id": "to')  # killed while writing
    engine.requests.clear()
    engine.fail = lambda where, body: None
    again = ask(path, text_turn("a"), text_turn("b"))
    assert again[0] == first[0]
    assert again[1].error is None
    assert all("b" in str(body["messages"]) for where, body in engine.requests if where == "/tokenize")
    assert list(read_logprobs(path).values()) == again


def not_finite(where: str, body: dict[str, Any]) -> httpx.Response | None:
    position = '{"%d": {"logprob": NaN}}'
    rows = ", ".join(position % token for token in body.get("prompt", [])[1:])
    text = f'{{"choices": [{{"prompt_logprobs": [null, {rows}]}}]}}'
    return httpx.Response(200, text=text) if where == "/v1/completions" else None


def short_answer(where: str, body: dict[str, Any]) -> httpx.Response | None:
    answer = {"choices": [{"prompt_logprobs": [None]}]}
    return httpx.Response(200, json=answer) if where == "/v1/completions" else None


def internal_error(where: str, body: dict[str, Any]) -> httpx.Response | None:
    return httpx.Response(500, text="Out of range float values") if where == "/v1/completions" else None


@pytest.mark.parametrize(
    ("fail", "error"),
    [(not_finite, "not finite"), (short_answer, "1 positions for"), (internal_error, "HTTP 500: Out of range")],
)
def test_answers_that_tell_nothing_are_errors(
    engine: FakeLogprobEngine, tmp_path: Path, fail: Callable[..., httpx.Response | None], error: str
) -> None:
    engine.fail = fail
    (record,) = ask(tmp_path / "kept.jsonl", text_turn())
    assert record.error is not None
    assert error in record.error
    assert record.listings == ()


def test_a_server_that_does_not_answer_breaks_the_run(engine: FakeLogprobEngine, tmp_path: Path) -> None:
    def silent(where: str, body: dict[str, Any]) -> httpx.Response:
        raise httpx.ReadTimeout("timed out")

    engine.fail = silent
    with pytest.raises(ReplayError, match="after 2 tries: timed out"):
        ask(tmp_path / "kept.jsonl", text_turn())
    assert len(engine.requests) == 2


def test_a_dead_server_is_told_by_its_process(engine: FakeLogprobEngine, tmp_path: Path) -> None:
    alive = iter([None] * 3)  # two requests of the first turn are tokenized, the third is not answered

    def check() -> None:
        if next(alive, "dead"):
            raise ServerError("the engine died")

    def breaking(where: str, body: dict[str, Any]) -> httpx.Response | None:
        return httpx.Response(500) if where == "/v1/completions" else None

    engine.fail = breaking
    with pytest.raises(ServerError, match="died"):
        ask(tmp_path / "kept.jsonl", text_turn(), check=check)
    assert read_logprobs(tmp_path / "kept.jsonl") == {}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept.jsonl").write_text('{"turn_id": 1}\n')
    with pytest.raises(RecordError, match=r"kept\.jsonl"):
        read_logprobs(tmp_path / "kept.jsonl")
