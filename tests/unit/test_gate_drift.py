"""A gate whose policy compares next-token distributions: both servers are asked, record and MLflow's facts tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import DEAD_SERVER, FakeMachine, write_checkpoint, write_golden, write_policy, write_replies

from evaluators.turn import Turn
from pipeline import gate
from pipeline.bundle.verifying import opened, verify
from pipeline.comparing import comparing, sides
from pipeline.errors import Verdict
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.serving import logprobs
from pipeline.serving.logprobs import TurnLogprobs
from pipeline.store import StageOutput, Store
from pipeline.tracking import StageRun, drift_metrics, drift_table


@dataclass
class Engines:
    """Stands for the servers of both sides, each asked for log-probabilities after its replay."""

    share: dict[str, float] = field(default_factory=lambda: {"baseline": 0.9, "candidate": 0.9})
    """Probability that a side gives to each golden token; the rest is another token's."""
    asked: dict[str, list[str]] = field(default_factory=dict)
    """Turns by side."""
    machine: FakeMachine = field(default_factory=FakeMachine)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine.install(monkeypatch)
        monkeypatch.setattr(gate.serve_replay, "run", self.replay)
        monkeypatch.setattr(logprobs, "collect", self.collect)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD_SERVER)

    def replay(
        self, store: Store, *, label: str, probes: Sequence[Callable[..., object]], **settings: Any
    ) -> tuple[StageOutput, ...]:
        outputs = self.machine.replay(store, label=label, **settings)

        class Server:
            url = label.removeprefix("replay ")
            check = staticmethod(lambda: None)

        given_up = settings.get("looks") and "start candidate" not in self.machine.done
        for probe in () if given_up else probes:
            probe(lambda: Server)
        return outputs

    def collect(self, *, url: str, turns: Sequence[Turn], **_: Any) -> dict[str, TurnLogprobs]:
        self.asked[url] = [turn.id for turn in turns]
        share = self.share[url]
        listings = ({7: math.log(share), 8: math.log(1 - share)},) * 3
        return {turn.id: TurnLogprobs(turn.id, "prompt", 5, (7, 7, 7), 0, listings) for turn in turns}


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    fake = Engines()
    fake.install(monkeypatch)
    return fake


def request_of(tmp_path: Path, drift: str = "{turns: 6}", *, replies: bool = True) -> Request:
    policy, golden = write_policy(tmp_path / "gate.yaml"), write_golden(tmp_path / "orders")
    policy.write_text(f"drift: {drift}\n" + policy.read_text(encoding="utf-8"), encoding="utf-8")
    if replies:
        write_replies(golden)
    return Request(model="some/model", golden=str(golden), policy=policy)


def run_gate(request: Request, tmp_path: Path) -> RunResult:
    result = run(request, Store(tmp_path / "home"), Silent())
    with opened(result.directory) as root:
        assert verify(root, result.directory).differences == ()  # whatever came out is derived again
    return result


def test_both_sides_are_asked_a_sample_once_and_the_record_tells(engines: Engines, tmp_path: Path) -> None:
    engines.share["candidate"] = 0.8
    request = request_of(tmp_path)
    result = run_gate(request, tmp_path)
    assert result.verdict is Verdict.ACCEPT  # on the replies alone; drift never speaks for a candidate
    assert len(engines.asked["baseline"]) == 6  # two scenarios of three turns
    assert engines.asked["candidate"] == engines.asked["baseline"]
    drift = result.decision["drift"]
    expected = 0.9 * math.log(0.9 / 0.8) + 0.1 * math.log(0.1 / 0.2)
    assert (drift["turns"], drift["compared"]) == (6, 6)
    assert drift["rows"][0]["mean"] == pytest.approx(expected, abs=1e-4)
    assert {row["name"] for row in drift["rows"] if row["group"] == "role"} == {"tool call"}

    metrics = drift_metrics(drift)  # as MLflow gets them
    assert metrics["drift.tokens/all tokens"] == 18
    assert metrics["drift.same_top/slice.orders"] == 100
    assert metrics["drift.perplexity_ratio/tool call"] == pytest.approx(0.9 / 0.8, abs=1e-5)
    (file,) = (tmp_path / "home" / "stages" / "drift").glob("*/drift_turns.jsonl")
    table = drift_table(file)
    assert sorted(table["turn_id"]) == engines.asked["baseline"]
    assert len(table["mean"]) == 6

    engines.asked.clear()
    again = run_gate(request, tmp_path)
    assert engines.asked == {}
    assert again.decision["drift"] == drift


def test_a_candidate_beyond_the_line_is_rejected(engines: Engines, tmp_path: Path) -> None:
    engines.share["candidate"] = 0.01
    result = run_gate(request_of(tmp_path), tmp_path)
    assert result.verdict is Verdict.REJECT
    assert result.decision["reasons"][0]["code"] == "DRIFT"
    assert "quant-gate inspect" in result.decision["next_step"]


@pytest.mark.parametrize(
    ("share", "verdict", "first"), [(0.8, "ACCEPT", "METRICS_HELD"), (0.01, "REJECT", "DRIFT")], ids=["near", "ruined"]
)
def test_a_comparison_of_checkpoints_draws_the_same_line(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, verdict: str, first: str
) -> None:
    engines.share["candidate"] = share
    builds = {}
    for name, weight_bytes in {"baseline": 1000, "candidate": 400}.items():
        digest = write_checkpoint(tmp_path / name, name, weight_bytes)
        builds[name] = Checkpoint(tmp_path / name, name, None, digest, weight_bytes, "FakeForCausalLM", "template")
    monkeypatch.setattr(sides, "_checkpoint", lambda model, *_: builds[model])
    monkeypatch.setattr(sides, "make_plan", engines.machine.plan)
    monkeypatch.setattr(comparing.inspect, "look", lambda *_, **__: ())
    logged: dict[str, Any] = {}
    monkeypatch.setattr(StageRun, "metrics", lambda _, metrics: logged.update(metrics))
    monkeypatch.setattr(StageRun, "table", lambda _, name, columns: logged.update({name: sorted(columns["turn_id"])}))
    gated = request_of(tmp_path)
    request = comparing.CompareRequest(
        baseline="baseline", candidate="candidate", golden=gated.golden, policy=gated.policy
    )
    decision = comparing.compare(request, Store(tmp_path / "home"), Silent()).decision
    assert (decision["verdict"], decision["reasons"][0]["code"]) == (verdict, first)
    assert decision["drift"]["compared"] == 6
    assert engines.asked["candidate"] == engines.asked["baseline"]
    assert logged.pop("drift_turns.json") == sorted(engines.asked["baseline"])
    assert logged == pytest.approx(drift_metrics(decision["drift"]), abs=1e-4)


def test_a_set_without_golden_replies_is_not_read(engines: Engines, tmp_path: Path) -> None:
    result = run_gate(request_of(tmp_path, replies=False), tmp_path)
    assert engines.asked == {}
    assert (result.verdict, result.decision["drift"]) == (Verdict.ACCEPT, None)


def test_a_candidate_that_is_given_up_is_not_read(engines: Engines, tmp_path: Path) -> None:
    engines.machine.candidate = lambda number: False
    request = request_of(tmp_path)
    assert request.policy is not None
    request.policy.write_text("looks: [0.6]\n" + request.policy.read_text(encoding="utf-8"), encoding="utf-8")
    result = run_gate(request, tmp_path)
    assert result.verdict is Verdict.REJECT
    assert list(engines.asked) == ["baseline"]
    assert result.decision["drift"] is None


def test_an_empty_table_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "drift_turns.jsonl").write_text("", encoding="utf-8")
    assert drift_table(tmp_path / "drift_turns.jsonl") == {}
