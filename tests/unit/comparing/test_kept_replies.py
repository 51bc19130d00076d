"""Replies of endpoints that are used again: of the same deployment alone, whole or proved, and never without a word."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai_server import FakeServer

from pipeline.comparing.comparing import Compared, CompareRequest, compare
from pipeline.errors import ServerError
from pipeline.progress import Silent
from pipeline.serving import endpoint as endpoints
from pipeline.serving import replay
from pipeline.stages import endpoint_replay
from pipeline.store import Store

DECLARED = """\
baseline: {weights: org/model@abc, weight_bytes: 1000}
candidate: {weights: org/model-int4@def, weight_bytes: 400}
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "PAUSE_S", 0.0)
    monkeypatch.setattr(replay, "PAUSE_S", 0.0)


def run(golden: dict[str, Any], tmp_path: Path, one: FakeServer, other: FakeServer, text: str = DECLARED) -> Compared:
    (tmp_path / "sides.yaml").write_text(text, encoding="utf-8")
    request = CompareRequest(baseline_url=one.url, candidate_url=other.url, declared=tmp_path / "sides.yaml", **golden)
    return compare(request, Store(tmp_path / "home"), Silent())


def orders(server: FakeServer) -> int:
    """How many golden turns were sent to it, without the one that is sent to learn its dialect."""
    return sum("order" in text for text in server.texts()) - sum(body["max_tokens"] == 1 for body in server.requests)


def test_the_verdict_says_from_when_they_are(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    sides = endpoint(), endpoint()
    first = run(golden, tmp_path, *sides).decision
    assert not any("kept" in line for line in first["conditions"])
    for record in (tmp_path / "home" / "stages" / "replay").glob("*/stage.json"):
        told = json.loads(record.read_text(encoding="utf-8"))
        record.write_text(json.dumps({**told, "started": 1_700_000_000}), encoding="utf-8")  # 14 November 2023
    again = run(golden, tmp_path, *sides).decision
    kept = [line for line in again["conditions"] if "kept" in line]
    assert [line.partition(" UTC")[0] for line in kept] == [
        f"replies of the {side} that were kept from 2023-11-14 22:13" for side in ("baseline", "candidate")
    ]


def test_another_declaration_is_another_deployment(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    one, other = endpoint(), endpoint()
    run(golden, tmp_path, one, other)
    before = orders(one), orders(other)
    run(golden, tmp_path, one, other, DECLARED.replace("int4@def", "int4@fed"))
    assert (orders(one), orders(other)) == (before[0], before[1] + 45)


def interrupted(golden: dict[str, Any], tmp_path: Path, one: FakeServer, other: FakeServer, at: int) -> int:
    """Interrupt the candidate's replay when ``at`` turns of it were answered; returns how many it was sent."""
    answer = other.respond
    assert answer is not None

    def stop(body: dict[str, Any]) -> dict[str, Any]:
        if orders(other) > at:
            other.named = lambda text: {"model": "another"} if "order" in text else {}
        return answer(body)

    other.respond = stop
    with pytest.raises(ServerError, match="changed what answers"):
        run(golden, tmp_path, one, other)
    other.respond, other.named = answer, lambda text: {}
    return orders(other)


def test_partial_replies_are_taken_over_where_the_model_is_proved_to_be_the_same(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    one, other = endpoint(), endpoint()
    asked = interrupted(golden, tmp_path, one, other, 30)
    assert run(golden, tmp_path, one, other).decision["verdict"] == "ACCEPT"
    assert orders(other) - asked < 30  # not all 45 again


@pytest.mark.parametrize("fault", ["503", "other answers", "killed", "edited"])
def test_partial_replies_of_nobody_knows_what_are_asked_anew(
    fault: str, golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    one, other = endpoint(), endpoint()
    probes = {probe: ["ok", fault if fault == "503" else "ok"] for probe in endpoints.PROBES[:1]}
    answer = other.respond
    assert answer is not None
    if fault == "503":
        other.script = probes
    if fault == "other answers":
        seen: list[str] = []

        def changing(body: dict[str, Any]) -> dict[str, Any]:
            text = body["messages"][-1]["content"]
            seen.append(text)
            return {"content": "Hm."} if text in endpoints.PROBES and seen.count(text) > 1 else answer(body)

        other.respond = changing
    asked = interrupted(golden, tmp_path, one, other, 30)
    other.script, other.respond = {}, answer
    if fault == "killed":  # nothing could be asked any more
        (mark,) = (tmp_path / "home" / "stages" / "replay").glob("*.work/proved.json")
        mark.unlink()
    if fault == "edited":
        (replies,) = (tmp_path / "home" / "stages" / "replay").glob("*.work/replies.jsonl")
        replies.write_bytes(replies.read_bytes().replace(b"order", b"ordre", 1))
    assert run(golden, tmp_path, one, other).decision["verdict"] == "ACCEPT"
    assert orders(other) - asked == 45


def test_a_kill_costs_what_came_after_the_last_proof(tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    replies.write_text("first\n", encoding="utf-8")
    endpoint_replay._vouch(tmp_path)
    replies.write_text("first\nsecond\n", encoding="utf-8")  # killed before the endpoint could be asked again
    endpoint_replay._take_over(tmp_path)
    assert replies.read_text(encoding="utf-8") == "first\n"
    endpoint_replay._take_over(tmp_path)
    assert replies.read_text(encoding="utf-8") == "first\n"


def test_one_failing_probe_does_not_cost_a_replay(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer]
) -> None:
    other = endpoint()
    other.script = {endpoints.PROBES[3]: ["ok", "503", "drop", "ok"]}
    assert run(golden, tmp_path, endpoint(), other).decision["verdict"] == "ACCEPT"


def test_who_interrupts_does_not_wait_for_a_silent_endpoint(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "HASTY_S", 0.2)
    other = endpoint()
    other.script = {endpoints.PROBES[0]: ["ok", "hang"]}

    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(endpoint_replay, "replay", stop)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(golden, tmp_path, other, endpoint())
    assert time.monotonic() - began < 30


def test_what_got_no_answer_is_asked_again_and_nothing_else(
    golden: dict[str, Any], tmp_path: Path, endpoint: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    sides, real = (endpoint(), endpoint()), endpoint_replay.replay

    def slow(**named: Any) -> dict[str, Any]:
        records = real(**named)
        lost = next(iter(records))
        reply = dataclasses.replace(records[lost].reply, error="no answer within 300 s")
        return {**records, lost: dataclasses.replace(records[lost], reply=reply)}

    with monkeypatch.context() as patched:
        patched.setattr(endpoint_replay, "replay", slow)
        assert run(golden, tmp_path, *sides).decision["verdict"] == "INVALID"
    before = [orders(side) for side in sides]
    second = run(golden, tmp_path, *sides).decision
    assert second["verdict"] != "INVALID"
    replays = len(list((tmp_path / "home" / "stages" / "replay").glob("*/stage.json")))
    assert sum(orders(side) for side in sides) - sum(before) == replays
