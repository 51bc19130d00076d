"""Engines that import before they can serve: handed over once, used instead of another, and never left behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from serving_samples import make_turn

from pipeline import processes
from pipeline.errors import Interrupted, ServerError
from pipeline.golden import GoldenSet
from pipeline.progress import Silent
from pipeline.serving.plan import EnginePlan
from pipeline.serving.server import Server
from pipeline.settings import ReplaySettings, Sampling
from pipeline.stages import serve_replay
from pipeline.stages.ahead import EnginesAhead
from pipeline.store import StageOutput, Store

Plan = Callable[..., EnginePlan]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def engines(store: Store) -> Iterator[EnginesAhead]:
    engines = EnginesAhead(store, Silent())
    yield engines
    engines.drop()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """The servers that were started, whether held or not."""
    servers: list[Server] = []
    start = Server.start

    def noted(self: Server, *, held: bool = False) -> None:
        servers.append(self)
        start(self, held=held)

    monkeypatch.setattr(Server, "start", noted)
    return servers


def replay(store: Store, plan: EnginePlan, model: Path, ahead: Server | None) -> StageOutput:
    (output,) = serve_replay.run(
        store,
        checkpoint_path=model,
        checkpoint_digest="model",
        golden=GoldenSet("set", Path("set"), "digest", 1, 1, (make_turn("a"),), {}),
        plan=plan,
        sampling=Sampling(),
        replay_settings=ReplaySettings(concurrency=1, attempts=1),
        ahead=ahead,
    )
    return output


def logs(store: Store) -> list[Path]:
    return list((store.root / "serving").glob("*"))


def test_the_engine_started_ahead_is_the_one_that_serves(
    fake_plan: Plan, store: Store, engines: EnginesAhead, started: list[Server], tmp_path: Path
) -> None:
    model = tmp_path / "made" / "later"
    engines.start("replay baseline", fake_plan(), model)
    engines.start("replay baseline", fake_plan(), model)  # one is enough
    (server,) = started
    assert server.held
    model.mkdir(parents=True)
    assert not replay(store, fake_plan(), model, engines.take("replay baseline")).reused
    assert started == [server]
    assert not server.alive() and logs(store) == []


def test_an_engine_that_is_not_needed_after_all_is_stopped(
    fake_plan: Plan, store: Store, engines: EnginesAhead, started: list[Server], tmp_path: Path
) -> None:
    replay(store, fake_plan(), tmp_path, None)
    engines.start("replay baseline", fake_plan(), tmp_path)
    server = started[-1]
    assert replay(store, fake_plan(), tmp_path, engines.take("replay baseline")).reused
    assert len(started) == 2
    assert not server.alive() and logs(store) == []


@pytest.mark.parametrize("other", ["checkpoint", "plan"])
def test_an_engine_for_something_else_does_not_serve(
    other: str, fake_plan: Plan, store: Store, engines: EnginesAhead, started: list[Server], tmp_path: Path
) -> None:
    plan = replace(fake_plan(), flags=("--seed", "1")) if other == "plan" else fake_plan()
    engines.start("replay baseline", plan, tmp_path / "other" if other == "checkpoint" else tmp_path)
    output = replay(store, fake_plan(), tmp_path, engines.take("replay baseline"))
    wrong, right = started
    assert (right.model, right.plan) == (tmp_path, fake_plan())
    assert json.loads((output.path / "engine.json").read_text(encoding="utf-8"))["flags"] == ["--seed", "0"]
    assert not wrong.alive() and not right.alive() and logs(store) == []


def test_what_nobody_took_is_dropped_and_nothing_starts_afterwards(
    fake_plan: Plan, store: Store, engines: EnginesAhead, started: list[Server], tmp_path: Path
) -> None:
    engines.start("replay baseline", fake_plan(), tmp_path)
    engines.drop()
    assert not started[0].alive() and logs(store) == []
    engines.start("replay candidate", fake_plan(), tmp_path)
    assert len(started) == 1


@pytest.mark.parametrize("when", ["held", "taken", "about to serve"])
def test_an_interruption_leaves_no_secret_in_the_log_of_an_engine(
    when: str,
    fake_plan: Plan,
    store: Store,
    engines: EnginesAhead,
    started: list[Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("while it waited for another run")

    engines.start("replay baseline", fake_plan(), tmp_path)
    server = None if when == "held" else engines.take("replay baseline")
    with started[0].log.open("a", encoding="utf-8") as log:
        log.write("HF_TOKEN=hf_0123456789012345678901234567890123\n")
    if when == "taken":
        monkeypatch.setattr(store, "make", interrupted)
    processes.stop_all()
    if when == "held":
        engines.drop()
    else:
        with pytest.raises(Interrupted):
            replay(store, fake_plan(), tmp_path, server)
    assert not started[0].alive()
    assert [path for path in logs(store) if "hf_0123" in path.read_text(encoding="utf-8")] == []
    assert bool(logs(store)) == (when == "about to serve")  # of what was to serve the log stays, as ever


def test_nothing_is_left_of_an_engine_that_cannot_be_started(
    fake_plan: Plan, store: Store, engines: EnginesAhead, tmp_path: Path
) -> None:
    with pytest.raises(ServerError, match="cannot be started"):
        engines.start("replay baseline", replace(fake_plan(), python=Path("/no/such/python")), tmp_path)
    assert logs(store) == []
    assert engines.take("replay baseline") is None
    assert processes._running == []


def test_no_engine_is_started_for_a_replay_that_has_begun(
    fake_plan: Plan, engines: EnginesAhead, started: list[Server], tmp_path: Path
) -> None:
    assert engines.take("replay baseline") is None
    engines.start("replay baseline", fake_plan(), tmp_path)
    assert started == []


def test_the_log_of_an_engine_that_broke_stays(
    fake_plan: Plan, store: Store, engines: EnginesAhead, tmp_path: Path
) -> None:
    engines.start("replay baseline", fake_plan("die_early"), tmp_path)
    with pytest.raises(Exception, match="scripted fault"):
        replay(store, fake_plan("die_early"), tmp_path, engines.take("replay baseline"))
    (log,) = logs(store)
    assert "scripted fault" in log.read_text(encoding="utf-8")
