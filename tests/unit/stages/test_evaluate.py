from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import evaluators
from evaluators import degeneration
from evaluators.turn import Behaviour, Expectation, Turn
from pipeline.errors import RecordError
from pipeline.evidence.outcomes import read_outcomes
from pipeline.stages import evaluate
from pipeline.store import StageOutput, Store


@dataclass
class Golden:
    """As much of a golden set as the stage reads."""

    turns: tuple[Turn, ...]
    digest: str = "d1"
    name: str = "small"


class Heard:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.advanced: list[tuple[str, int, int]] = []

    def say(self, stage: str, text: str) -> None:
        self.said.append(f"{stage}: {text}")

    def advance(self, stage: str, done: int, total: int) -> None:
        self.advanced.append((stage, done, total))


def a_turn(turn_id: str, behaviour: Behaviour = Behaviour.ANSWER) -> Turn:
    expectation = Expectation(behaviour, say=(("shipped",),) if behaviour is Behaviour.ANSWER else ())
    return Turn(turn_id, "t", "s", (), ({"role": "user", "content": "Hi"},), (), expectation, {"role": "assistant"})


GOLDEN = Golden((a_turn("b#1"), a_turn("a#1"), a_turn("c#1", Behaviour.REFUSE)))


def record(turn_id: str, content: str | None) -> dict[str, Any]:
    reply = {"content": content, "tool_calls": [], "finish_reason": "stop", "completion_tokens": 3, "prompt_tokens": 5}
    return {
        "turn_id": turn_id,
        "request_digest": "r",
        "reply": None if content is None else reply,
        "prompt_token_ids_digest": None if content is None else "p",
        "error": "HTTP 500" if content is None else None,
        "latency_s": 0.1,
        "attempt": 1,
    }


def replay(directory: Path, contents: Mapping[str, str | None]) -> Path:
    directory.mkdir()
    lines = [json.dumps(record(turn_id, content)) for turn_id, content in contents.items()]
    (directory / "replies.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return directory


def run(store: Store, replay_dir: Path, golden: Golden = GOLDEN, heard: Heard | None = None) -> StageOutput:
    progress = heard or Heard()
    return evaluate.run(
        store,
        golden=golden,  # type: ignore[arg-type]
        replay_dir=replay_dir,
        side="baseline",
        progress=progress,
    )


def test_outcomes_of_answered_failed_and_missing_turns(tmp_path: Path) -> None:
    heard = Heard()
    kept = replay(tmp_path / "replay", {"a#1": "It was shipped.", "c#1": None})
    output = run(Store(tmp_path / "home"), kept, heard=heard)
    outcomes = read_outcomes(output.path / "outcomes.jsonl")
    assert [(o.turn_id, o.metric) for o in outcomes] == sorted(
        (t, m) for t in ("a#1", "b#1", "c#1") for m in evaluators.METRICS
    )
    labels = {(o.turn_id, o.metric): (o.status.value, o.label) for o in outcomes}
    assert labels["a#1", "policy_adherence"] == ("passed", "adhered")
    assert labels["b#1", "policy_adherence"] == ("unscorable", "no_reply")
    assert labels["c#1", "refuses_when_required"] == ("unscorable", "no_reply")
    assert labels["c#1", "policy_adherence"] == ("not_applicable", "not_applicable")
    summary = json.loads((output.path / "outcomes_summary.json").read_text(encoding="utf-8"))
    # Unscorable: b#1 on adherence, compliance, degeneration; c#1 on refusal, degeneration.
    assert summary["no_reply"] == 5
    assert summary["evaluator_errors"] == 0
    assert summary["metrics"]["policy_adherence"] == {
        "passed": {"adhered": 1},
        "unscorable": {"no_reply": 1},
        "not_applicable": {"not_applicable": 1},
    }
    assert heard.advanced == [("evaluate baseline", 3, 3)]
    assert heard.said == []


def test_outcomes_are_reused_until_replay_set_or_evaluators_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "home")
    kept = replay(tmp_path / "replay", {"a#1": "It was shipped."})
    first = run(store, kept)
    assert not first.reused
    again = run(store, replay(tmp_path / "the same", {"a#1": "It was shipped."}))
    assert again.reused and again.path == first.path
    assert not run(store, replay(tmp_path / "one more", {"a#1": "It was shipped.", "b#1": "It was."})).reused
    assert not run(store, kept, golden=Golden(GOLDEN.turns, digest="d2")).reused
    monkeypatch.setattr(evaluators, "source_digest", lambda: "changed")
    assert not run(store, kept).reused


def test_the_same_replies_give_the_same_bytes(tmp_path: Path) -> None:
    kept = replay(tmp_path / "replay", {"a#1": "Größe 42 \ufffd", "b#1": "", "c#1": "I can't."})
    one, other = (run(Store(tmp_path / name), kept).path for name in ("one", "other"))
    for name in ("outcomes.jsonl", "outcomes_summary.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_evaluator_errors_are_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(degeneration, "evaluate", broken)
    heard = Heard()
    kept = replay(tmp_path / "replay", {"a#1": "shipped", "b#1": "shipped"})
    output = run(Store(tmp_path / "home"), kept, heard=heard)
    summary = json.loads((output.path / "outcomes_summary.json").read_text(encoding="utf-8"))
    assert summary["evaluator_errors"] == 2  # c#1 has no reply
    assert "2 outcomes could not be scored" in heard.said[0]
    assert "a#1, free_of_degeneration: RuntimeError: boom" in heard.said[0]


@pytest.mark.parametrize(
    ("contents", "part"), [(None, "no replies were kept"), ({"z#9": "Hello"}, r"not in golden set small: \['z#9'\]")]
)
def test_replies_that_cannot_be_used(tmp_path: Path, contents: dict[str, str] | None, part: str) -> None:
    kept = tmp_path / "gone" if contents is None else replay(tmp_path / "replay", contents)
    store = Store(tmp_path / "home")
    with pytest.raises(RecordError, match=part):
        run(store, kept)
    assert not list((tmp_path / "home").glob("stages/*/*/stage.json"))


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    kept = replay(tmp_path / "replay", {"a#1": "Hello"})
    (kept / "replies.jsonl").write_text('{"turn_id": "a#1"}\n', encoding="utf-8")
    with pytest.raises(RecordError, match=r"replies\.jsonl:1"):
        run(Store(tmp_path / "home"), kept)
