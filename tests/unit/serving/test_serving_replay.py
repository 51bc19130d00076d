"""The replay client against a fake server: what is kept, what is sent again, and whose fault a gap is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai_server import FakeServer
from serving_samples import TOOL, make_turn

from evaluators.turn import Reply, ToolCall
from pipeline.errors import RecordError, ReplayError, ServerError
from pipeline.serving import replay as module
from pipeline.serving.records import Record, prompt_mismatches, read_records, read_replies
from pipeline.serving.replay import body_of, build_request, lacks_answers, replay, request_digest
from pipeline.settings import ReplaySettings, Sampling

Serve = Callable[..., FakeServer]
SAMPLING = Sampling(temperature=0.0, max_tokens=50, seed=3)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)


def run(
    server: FakeServer,
    path: Path,
    texts: list[str],
    *,
    attempts: int = 2,
    timeout_s: float = 30,
    concurrency: int = 1,
    sampling: Sampling = SAMPLING,
    order_seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Record]:
    return replay(
        url=server.url,
        turns=[make_turn(text) for text in texts],
        sampling=sampling,
        settings=ReplaySettings(concurrency=concurrency, timeout_s=timeout_s, attempts=attempts),
        path=path,
        order_seed=order_seed,
        check=check,
    )


def test_request_is_unconstrained_and_names_tools_only_where_there_are_some() -> None:
    plain = build_request(make_turn("hello"), SAMPLING)
    assert plain == {
        "model": "gate",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
        "temperature": 0.0,
        "max_tokens": 50,
        "seed": 3,
        "return_token_ids": True,
    }
    with_tools = build_request(make_turn("hello", (TOOL,)), SAMPLING)
    assert with_tools["tools"] == [TOOL]
    assert with_tools["tool_choice"] == "auto"
    assert "strict" not in json.dumps(with_tools)
    assert request_digest(plain) != request_digest(with_tools)


def test_reply_is_kept_as_the_server_gave_it(serve: Serve, tmp_path: Path) -> None:
    server = serve({"b": ["call"]})
    path = tmp_path / "replies.jsonl"
    run(server, path, ["a", "b"])
    assert read_replies(path) == {
        "a": Reply("a", content="reply to a", finish_reason="stop", completion_tokens=7),
        # The raw text of the arguments, two spaces and all.
        "b": Reply(
            "b",
            tool_calls=(ToolCall("look_up", '{"order":  "A1"}'),),
            finish_reason="tool_calls",
            completion_tokens=7,
        ),
    }
    line = json.loads(path.read_text().splitlines()[0])
    assert line["prompt_token_ids_digest"] == hashlib.sha256(b"[1,2,3]").hexdigest()
    assert line["reply"]["prompt_tokens"] == 3
    assert line["error"] is None
    assert line["attempt"] == 1


def test_sends_in_the_given_order_or_in_a_repeatable_shuffled_one(serve: Serve, tmp_path: Path) -> None:
    texts = [f"t{i}" for i in range(12)]
    orders = []
    for name, seed in (("a", 0), ("b", 7), ("c", 7), ("d", 8)):
        server = serve()
        records = run(server, tmp_path / name, texts, order_seed=seed)
        assert list(records) == texts
        orders.append(server.texts())
    assert orders[0] == texts
    assert sorted(orders[1]) == sorted(texts)
    assert orders[1] == orders[2]
    assert len({tuple(order) for order in orders}) == 3


def test_at_most_concurrency_requests_are_in_flight(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    run(server, tmp_path / "r", [f"t{i}" for i in range(30)], concurrency=4)
    assert 1 <= server.most_in_flight <= 4


def test_refused_turn_is_recorded_once_and_not_tried_again(serve: Serve, tmp_path: Path) -> None:
    server = serve({"b": ["400"]})
    records = run(server, tmp_path / "r", ["a", "b", "c"], attempts=3)
    assert records["b"].reply.error == "refused: HTTP 400: scripted 400 for b"
    assert server.texts() == ["a", "b", "c"]
    assert not lacks_answers(tmp_path / "r")
    assert records["c"].reply.error is None


@pytest.mark.parametrize("status", ["413", "422"])
def test_other_refusals_of_a_request_are_not_tried_again(serve: Serve, tmp_path: Path, status: str) -> None:
    server = serve({"b": [status]})
    run(server, tmp_path / "r", ["a", "b"], attempts=3)
    assert server.texts() == ["a", "b"]
    assert not lacks_answers(tmp_path / "r")


@pytest.mark.parametrize("status", ["401", "402", "403", "407"])
def test_who_may_not_ask_is_told_at_once(serve: Serve, tmp_path: Path, status: str) -> None:
    server = serve({"b": [status]})
    with pytest.raises(ServerError, match=f"refuses to answer: HTTP {status}: scripted"):
        run(server, tmp_path / "r", ["a", "b", "c"], attempts=3)
    assert list(read_records(tmp_path / "r")) == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": {"content": ["a part"]}},
        {"message": {"content": 7}},
        {"message": {"content": float("nan")}},
        {"message": {"content": "x", "tool_calls": "look_up"}},
        {"message": {"content": None, "tool_calls": [{"function": {"name": None, "arguments": "{}"}}]}},
        {"message": {"content": "x"}, "finish_reason": {}},
    ],
)
def test_an_answer_of_another_form_is_none(serve: Serve, tmp_path: Path, wrong: dict[str, Any]) -> None:
    server = serve()
    server.named = lambda text: {"choices": [{"finish_reason": "stop", **wrong}]} if text == "b" else {}
    records = run(server, tmp_path / "r", ["a", "b"])
    assert str(records["b"].reply.error).startswith("unreadable answer: ")
    assert lacks_answers(tmp_path / "r")


@pytest.mark.parametrize("count", ["many", 1.5, True, float("nan")])
def test_counts_of_another_form_are_none(serve: Serve, tmp_path: Path, count: Any) -> None:
    server = serve()
    server.named = lambda text: {"usage": {"prompt_tokens": 1, "completion_tokens": count}} if text == "b" else {}
    assert run(server, tmp_path / "r", ["a", "b"])["b"].reply.error


@pytest.mark.parametrize("action", ["ok", "400"])
def test_a_key_that_the_server_repeats_is_not_kept(serve: Serve, tmp_path: Path, action: str) -> None:
    server, key = serve({"b k3y-of-somebody": [action]}), "k3y-of-somebody"
    replay(
        url=server.url,
        turns=[make_turn("a"), make_turn(f"b {key}")],
        sampling=SAMPLING,
        settings=ReplaySettings(concurrency=1),
        path=tmp_path / "r",
        headers={"authorization": f"Bearer {key}"},
    )
    kept = [record.reply for record in read_records(tmp_path / "r").values()]
    assert "[key]" in f"{kept[1].content}{kept[1].error}"
    assert key not in f"{kept[1].content}{kept[1].error}"


@pytest.mark.parametrize("action", ["500", "garbage", "429", "404", "301", "deep", "gzip", "surrogate"])
def test_missing_answer_is_asked_for_again(serve: Serve, tmp_path: Path, action: str) -> None:
    server = serve({"b": [action, "ok"]})
    records = run(server, tmp_path / "r", ["a", "b"])
    assert records["b"].reply.content == "reply to b"
    assert records["b"].attempt == 2
    assert server.texts() == ["a", "b", "b"]


def test_turn_without_an_answer_after_all_tries_keeps_its_error(serve: Serve, tmp_path: Path) -> None:
    server = serve({"b": ["500"]})
    records = run(server, tmp_path / "r", ["a", "b", "c"], attempts=3)
    assert records["b"].reply.error == 'HTTP 500: {"error": {"message": "scripted 500 for b"}}'
    assert records["b"].attempt == 3
    assert server.texts() == ["a", "b", "b", "b", "c"]
    assert lacks_answers(tmp_path / "r")
    run(serve(), tmp_path / "r", ["a", "b", "c"])
    assert not lacks_answers(tmp_path / "r")


def test_an_answer_of_another_model_ends_the_replay(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.named = lambda text: {"model": "bf16" if text == "b" else "int4"}

    def examine(body: Mapping[str, Any]) -> None:
        if body["model"] != "int4":
            raise ServerError("another model")

    settings, path = ReplaySettings(concurrency=1, attempts=2), tmp_path / "r"
    turns = [make_turn(text) for text in "abc"]
    with pytest.raises(ServerError, match="another model"):
        replay(url=server.url, turns=turns, sampling=SAMPLING, settings=settings, path=path, examine=examine)
    assert list(read_records(path)) == ["a"] and server.texts() == ["a", "b"]


def test_time_out_is_an_error_of_the_turn(serve: Serve, tmp_path: Path) -> None:
    records = run(serve({"b": ["hang"]}), tmp_path / "r", ["a", "b"], timeout_s=0.3, attempts=1)
    assert records["b"].reply.error == "no answer within 0.3 s"
    assert records["a"].reply.error is None


def test_many_turns_without_an_answer_are_a_fault_of_the_set_up(serve: Serve, tmp_path: Path) -> None:
    # Three of ten are tolerated (the larger of 3 and 5 %); the fourth is too many, and the rest is not sent.
    texts = [f"t{i}" for i in range(10)]
    server = serve({text: ["500"] for text in texts[1:5]})
    path = tmp_path / "r"
    with pytest.raises(ReplayError, match="4 of 10 turns got no answer"):
        run(server, path, texts, attempts=1)
    assert server.texts() == texts[:5]
    assert read_records(path)["t0"].reply.error is None


def test_all_turns_refused_is_a_fault_of_the_set_up(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="not one of 2 turns was answered; the first: a: refused: HTTP 400"):
        run(serve({"a": ["400"], "b": ["400"]}), tmp_path / "r", ["a", "b"])


def test_dead_server_ends_the_replay_and_the_next_sends_only_what_is_missing(serve: Serve, tmp_path: Path) -> None:
    texts = [f"t{i}" for i in range(8)]
    path = tmp_path / "r"
    first = serve({"t3": ["die"]})
    with pytest.raises(ServerError, match="no longer answers"):
        run(first, path, texts, attempts=5)
    assert list(read_records(path)) == texts[:3]
    second = serve()
    records = run(second, path, texts)
    assert second.texts() == texts[3:]
    assert list(records) == texts
    assert len(path.read_text().splitlines()) == 8


def test_dead_process_ends_the_replay_although_requests_hang(serve: Serve, tmp_path: Path) -> None:
    server = serve({"t1": ["hang"]})

    def check() -> None:
        if "t1" in server.texts():
            raise ServerError("the engine died")

    with pytest.raises(ServerError, match="the engine died"):
        run(server, tmp_path / "r", ["t0", "t1"], timeout_s=3000, check=check)
    assert list(read_records(tmp_path / "r")) == ["t0"]


def test_server_with_a_dead_engine_ends_the_replay(serve: Serve, tmp_path: Path) -> None:
    server = serve({"t0": ["500"]})
    server.health = 503
    with pytest.raises(ServerError, match="reports a dead engine"):
        run(server, tmp_path / "r", ["t0", "t1"], attempts=5)
    assert server.texts() == ["t0"]


def test_torn_last_line_is_cut_off_and_sent_again(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "r"
    run(serve(), path, ["a", "b", "c"])
    path.write_bytes(path.read_bytes()[:-25])
    assert list(read_records(path)) == ["a", "b"]
    server = serve()
    records = run(server, path, ["a", "b", "c"])
    assert server.texts() == ["c"]
    assert {record.reply.content for record in records.values()} == {"reply to a", "reply to b", "reply to c"}
    assert [json.loads(line)["turn_id"] for line in path.read_text().splitlines()] == ["a", "b", "c"]


@pytest.mark.parametrize("damage", ["not JSON", "{}", '{"turn_id":"b","request_digest":"x","reply":null,"error":null}'])
def test_damage_before_the_last_line_is_an_error_with_its_line(serve: Serve, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "r"
    run(serve(), path, ["a", "b", "c"])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], damage, lines[2]]) + "\n")
    with pytest.raises(RecordError, match=r"r:2: not a reply record"):
        read_records(path)


def test_changed_requests_and_errors_are_sent_again_kept_replies_are_not(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "r"
    run(serve({"b": ["400"]}), path, ["a", "b", "c"])
    again = serve()
    assert run(again, path, ["a", "b", "c"])["b"].reply.error is None
    assert again.texts() == ["b"]
    changed = serve()
    run(changed, path, ["a", "b", "c"], sampling=Sampling(max_tokens=51))
    assert changed.texts() == ["a", "b", "c"]


def test_nothing_is_sent_when_nothing_is_missing(serve: Serve, tmp_path: Path) -> None:
    run(serve(), tmp_path / "r", ["a"])
    server = serve()
    assert run(server, tmp_path / "r", ["a"])["a"].reply.content == "reply to a"
    assert server.requests == []


def test_text_outside_ascii_survives(serve: Serve, tmp_path: Path) -> None:
    text = "Größe 42\u2028 – 你好 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")
    run(serve(), tmp_path / "r", [text, "b"])
    assert read_replies(tmp_path / "r")[text].content == f"reply to {text}"


def record(turn_id: str, digest: str | None, error: str | None = None) -> Record:
    return Record(turn_id, "r", Reply(turn_id, error=error), digest, 1, 0.0, 1)


def test_prompt_mismatches_names_turns_whose_token_ids_differ_or_are_unknown() -> None:
    first = {t: record(t, d) for t, d in {"same": "1", "other": "1", "unknown": None, "only here": "1"}.items()}
    second = {t: record(t, d) for t, d in {"same": "1", "other": "2", "unknown": None}.items()}
    first["failed"], second["failed"] = record("failed", None, "HTTP 400"), record("failed", "1")
    assert prompt_mismatches(first, second) == ["other", "unknown"]


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_an_answer_may_be_64_levels_deep(brackets: str) -> None:
    """What can be parsed may still be too deep to be written again from further down the stack."""
    first, last = ("[", "]") if brackets == "[]" else ('{"a":', "}")

    def answer(levels: int) -> httpx.Response:
        return httpx.Response(200, text=first * (levels - 1) + brackets + last * (levels - 1))

    assert body_of(answer(64))
    with pytest.raises(ValueError, match="nested too deeply"):
        body_of(answer(65))
