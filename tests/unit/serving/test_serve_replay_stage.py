"""The replay stage with the fake engine, from an empty store to reuse and resumption."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from serving_samples import make_turn

from pipeline.errors import DiskSpaceError, ServerError
from pipeline.golden import GoldenSet
from pipeline.serving.plan import EnginePlan
from pipeline.settings import ReplaySettings, Sampling
from pipeline.stages import serve_replay
from pipeline.store import StageOutput, Store


def golden(*texts: str) -> GoldenSet:
    return GoldenSet("set", Path("set"), "digest", len(texts), len(texts), tuple(map(make_turn, texts)), {})


def run(
    store: Store, plan: EnginePlan, model: Path, texts: tuple[str, ...] = ("a", "b"), repeat: int = 0
) -> StageOutput:
    return serve_replay.run(
        store,
        checkpoint_path=model,
        checkpoint_digest="model",
        golden=golden(*texts),
        plan=plan,
        sampling=Sampling(),
        replay_settings=ReplaySettings(concurrency=1, attempts=1),
        repeat=repeat,
    )


def test_makes_one_record_per_turn_and_reuses_them(fake_plan: Callable[..., EnginePlan], tmp_path: Path) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    made = run(store, plan, tmp_path)
    lines = [json.loads(line) for line in (made.path / "replies.jsonl").read_text().splitlines()]
    assert [line["turn_id"] for line in lines] == ["a", "b"]
    assert lines[1]["reply"]["content"] == "reply to b"
    engine = json.loads((made.path / "engine.json").read_text())
    assert engine["running"]["version"] == "9.9.9"
    assert engine["speed_representative"] is False
    assert "CPU KV cache size" in (made.path / "server.log").read_text()
    again = run(store, replace(plan, python=Path("/no/such/python")), tmp_path)
    assert again.reused
    assert again.path == made.path
    assert run(store, plan, tmp_path, repeat=1).path != made.path
    assert run(store, plan, tmp_path, texts=("a", "c")).path != made.path


def test_engine_dying_in_the_middle_leaves_nothing_complete(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan("die_on_request")
    with pytest.raises(ServerError, match="scripted death"):
        run(store, plan, tmp_path)
    assert [path.suffix for path in (tmp_path / "store" / "stages" / "replay").iterdir() if path.is_dir()] == [".work"]


def test_kept_replies_of_a_broken_try_are_not_asked_for_again(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    complete = run(store, plan, tmp_path)
    kept = (complete.path / "replies.jsonl").read_text().splitlines()[0].replace("reply to a", "kept")
    work = complete.path.with_suffix(".work")
    complete.path.rename(work)
    (work / "replies.jsonl").write_text(kept + '\n{"turn_id": "b", "torn')
    made = run(store, plan, tmp_path)
    lines = [json.loads(line) for line in (made.path / "replies.jsonl").read_text().splitlines()]
    assert [line["reply"]["content"] for line in lines] == ["kept", "reply to b"]


def test_no_engine_is_started_on_a_full_disk(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_replay, "ROOM_BYTES", 1 << 60)
    with pytest.raises(DiskSpaceError, match="stage replay needs"):
        run(Store(tmp_path / "store"), fake_plan("die_early"), tmp_path)


def test_running_engine_must_be_the_planned_one(fake_plan: Callable[..., EnginePlan], tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"running engine is version 9\.9\.9, the plan says 1\.0"):
        run(Store(tmp_path / "store"), replace(fake_plan(), version="1.0"), tmp_path)
