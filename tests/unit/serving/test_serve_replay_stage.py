"""The replay stage with the fake engine, from an empty store to reuse and resumption."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving_samples import make_turn

from evaluators.turn import Reply, Turn
from pipeline.errors import DiskSpaceError, ServerError
from pipeline.golden import GoldenSet
from pipeline.serving.plan import EnginePlan
from pipeline.serving.records import Record, read_records
from pipeline.serving.server import Server
from pipeline.settings import ReplaySettings, Sampling
from pipeline.stages import serve_replay
from pipeline.store import StageOutput, Store


def golden(*texts: str) -> GoldenSet:
    return GoldenSet("set", Path("set"), "digest", len(texts), len(texts), tuple(map(make_turn, texts)), {})


def run_all(
    store: Store, plan: EnginePlan, model: Path, texts: tuple[str, ...] = ("a", "b"), repeats: int = 0
) -> tuple[StageOutput, ...]:
    return serve_replay.run(
        store,
        checkpoint_path=model,
        checkpoint_digest="model",
        golden=golden(*texts),
        plan=plan,
        sampling=Sampling(),
        replay_settings=ReplaySettings(concurrency=1, attempts=1),
        repeats=repeats,
    )


def run(store: Store, plan: EnginePlan, model: Path, texts: tuple[str, ...] = ("a", "b")) -> StageOutput:
    (output,) = run_all(store, plan, model, texts)
    return output


def test_makes_one_record_per_turn_and_reuses_them(fake_plan: Callable[..., EnginePlan], tmp_path: Path) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    made = run(store, plan, tmp_path)
    lines = [json.loads(line) for line in (made.path / "replies.jsonl").read_text().splitlines()]
    assert [line["turn_id"] for line in lines] == ["a", "b"]
    assert lines[1]["reply"]["content"] == "reply to b"
    engine = json.loads((made.path / "engine.json").read_text())
    assert engine["running"]["version"] == "9.9.9"
    assert engine["identity"] == plan.identity()
    assert engine["speed_representative"] is False
    assert "CPU KV cache size" in (made.path / "server.log").read_text()
    again = run(store, replace(plan, python=Path("/no/such/python")), tmp_path)
    assert again.reused
    assert again.path == made.path
    assert run(store, plan, tmp_path, texts=("a", "c")).path != made.path


def test_replies_of_which_less_was_read_of_the_engine_are_not_reused(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside new ones they would be told as served otherwise: what one side lacks is a difference."""
    store, plan = Store(tmp_path / "store"), fake_plan()
    with monkeypatch.context() as older:
        older.setattr(serve_replay, "SETTINGS", ("dtype",))
        before = run(store, plan, tmp_path)
    assert run(store, plan, tmp_path).path != before.path


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels of the servers that were started."""
    labels: list[str] = []

    class Counted(Server):
        def start(self) -> None:
            labels.append(self._label)
            super().start()

    monkeypatch.setattr(serve_replay, "Server", Counted)
    return labels


def asked(output: StageOutput) -> list[str]:
    """Contents of the replies, in the order of the turns."""
    lines = (output.path / "replies.jsonl").read_text().splitlines()
    return [json.loads(line)["reply"]["content"] for line in lines]


def test_repeats_are_outputs_of_their_own_from_one_server(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, starts: list[str]
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    outputs = run_all(store, plan, tmp_path, repeats=2)
    assert len({output.path for output in outputs}) == 3
    assert [asked(output) for output in outputs] == [["reply to a", "reply to b"]] * 3
    assert starts == ["replay"]
    assert all("KV cache size" in (output.path / "server.log").read_text() for output in outputs)
    assert list((tmp_path / "store" / "serving").iterdir()) == []  # every output has its log
    assert all(output.reused for output in run_all(store, plan, tmp_path, repeats=2))
    assert starts == ["replay"]


def test_a_repeat_that_is_missing_is_made_and_no_other(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, starts: list[str]
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    first = run(store, plan, tmp_path)
    outputs = run_all(store, plan, tmp_path, repeats=1)
    assert [(output.path == first.path, output.reused) for output in outputs] == [(True, True), (False, False)]
    assert starts == ["replay", "replay"]


def test_probes_ask_the_server_of_the_replays(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, starts: list[str]
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan()
    seen: list[tuple[str, bool]] = []

    def asking(serve: Callable[[], Server]) -> None:
        seen.append((serve().url, serve().alive()))

    def content_with_what_is_kept(serve: Callable[[], Server]) -> None:
        seen.append(("", False))

    def replay_with(*probes: serve_replay.Probe) -> None:
        serve_replay.run(
            store,
            checkpoint_path=tmp_path,
            checkpoint_digest="model",
            golden=golden("a", "b"),
            plan=plan,
            sampling=Sampling(),
            replay_settings=ReplaySettings(concurrency=1, attempts=1),
            probes=probes,
        )

    replay_with(asking, asking)
    assert starts == ["replay"]
    assert [alive for _, alive in seen] == [True, True]
    assert seen[0][0] == seen[1][0]
    replay_with(content_with_what_is_kept)  # the replies are kept as well
    assert starts == ["replay"]
    replay_with(asking)
    assert starts == ["replay", "replay"]


@pytest.mark.parametrize(("concurrency", "again"), [(16, 8), (9, 4), (2, 1), (1, 2)])
def test_a_repeat_has_another_concurrency_and_order(
    concurrency: int, again: int, monkeypatch: pytest.MonkeyPatch, fake_plan: Callable[..., EnginePlan], tmp_path: Path
) -> None:
    sent: list[tuple[int, int]] = []

    def note(*, turns: tuple[Turn, ...], settings: ReplaySettings, order_seed: int, **_: object) -> dict[str, Record]:
        sent.append((settings.concurrency, order_seed))
        return {turn.id: Record(turn.id, "r", Reply(turn.id), "p", 1, 0.1, 1) for turn in turns}

    monkeypatch.setattr(serve_replay, "replay", note)
    serve_replay.run(
        Store(tmp_path / "store"),
        checkpoint_path=tmp_path,
        checkpoint_digest="model",
        golden=golden("a", "b"),
        plan=fake_plan(),
        sampling=Sampling(),
        replay_settings=ReplaySettings(concurrency=concurrency),
        repeats=2,
    )
    assert sent == [(concurrency, 0), (again, 1), (again, 2)]


def test_other_samples_have_seeds_of_their_own() -> None:
    sampled, greedy = Sampling(temperature=0.7, seed=5, samples=3), Sampling(seed=5)
    assert [serve_replay.repeat_sampling(sampled, n).seed for n in range(3)] == [5, 6, 7]
    assert [serve_replay.repeat_sampling(greedy, n) for n in range(2)] == [greedy, greedy]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Ids of the turns that each call of the replay client had to ask for."""
    calls: list[list[str]] = []
    real = serve_replay.replay

    def watched(*, turns: Sequence[Turn], path: Path, **settings: Any) -> dict[str, Record]:
        kept = read_records(path)
        calls.append([turn.id for turn in turns if turn.id not in kept])
        return real(turns=turns, path=path, **settings)

    monkeypatch.setattr(serve_replay, "replay", watched)
    return calls


@pytest.mark.parametrize(("stop_at", "asked_for"), [(None, [["b"], ["a"], ["c"]]), (1, [["b"]]), (2, [["b"], ["a"]])])
def test_looks_go_on_from_each_other_until_told_to_stop(
    stop_at: int | None,
    asked_for: list[list[str]],
    fake_plan: Callable[..., EnginePlan],
    tmp_path: Path,
    starts: list[str],
    sent: list[list[str]],
) -> None:
    seen = []

    def stop(number: int, output: StageOutput) -> bool:
        seen.append((number, asked(output)))
        return number == stop_at

    def run_with_looks(plan: EnginePlan) -> StageOutput:
        (output,) = serve_replay.run(
            Store(tmp_path / "store"),
            checkpoint_path=tmp_path,
            checkpoint_digest="model",
            golden=golden("a", "b", "c"),
            plan=plan,
            sampling=Sampling(),
            replay_settings=ReplaySettings(concurrency=1, attempts=1),
            looks=[golden("b"), golden("a", "b")],
            stop=stop,
        )
        return output

    output = run_with_looks(fake_plan())
    assert asked(output) == [f"reply to {t}" for t in {None: "abc", 1: "b", 2: "ab"}[stop_at]]
    assert seen == [(1, ["reply to b"]), (2, ["reply to a", "reply to b"])][: stop_at or 2]
    assert sent == asked_for and starts == ["replay"]
    again = run_with_looks(replace(fake_plan(), python=Path("/no/such/python")))
    assert again.reused and again.path == output.path
    if stop_at is None:
        assert len(seen) == 2  # the whole is kept: nothing to stop any more


def test_engine_dying_in_the_middle_leaves_nothing_complete(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path
) -> None:
    store, plan = Store(tmp_path / "store"), fake_plan("die_on_request")
    with pytest.raises(ServerError, match="scripted death"):
        run(store, plan, tmp_path)
    assert [path.suffix for path in (tmp_path / "store" / "stages" / "replay").iterdir() if path.is_dir()] == [".work"]
    (log,) = (tmp_path / "store" / "serving").iterdir()  # the error names it
    assert "scripted death" in log.read_text()


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


def test_a_turn_without_an_answer_is_asked_again_by_the_next_run(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, sent: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan, real = Store(tmp_path / "store"), fake_plan(), serve_replay.replay

    def slow(**named: Any) -> dict[str, Record]:
        records = real(**named)
        reply = Reply("b", error="no answer within 300 s")
        return {**records, "b": replace(records["b"], reply=reply)}

    with monkeypatch.context() as patched:
        patched.setattr(serve_replay, "replay", slow)
        first = run(store, plan, tmp_path)
    before = read_records(first.path / "replies.jsonl")
    assert before["b"].reply.error
    second = run(store, plan, tmp_path)
    assert (second.path, second.reused) == (first.path, False)
    assert asked(second) == ["reply to a", "reply to b"]
    assert read_records(second.path / "replies.jsonl")["a"] == before["a"]  # its latency is the first one's
    assert run(store, plan, tmp_path).reused
    assert len(sent) == 2


def test_no_engine_is_started_on_a_full_disk(
    fake_plan: Callable[..., EnginePlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_replay, "ROOM_BYTES", 1 << 60)
    with pytest.raises(DiskSpaceError, match="stage replay needs"):
        run(Store(tmp_path / "store"), fake_plan("die_early"), tmp_path)


def test_running_engine_must_be_the_planned_one(fake_plan: Callable[..., EnginePlan], tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"running engine is version 9\.9\.9, the plan says 1\.0"):
        run(Store(tmp_path / "store"), replace(fake_plan(), version="1.0"), tmp_path)
