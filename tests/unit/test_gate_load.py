"""A gate that is asked for load, and recipes that change two things at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import FakeMachine, write_golden, write_policy

from pipeline import gate
from pipeline.bundle.verifying import opened, verify
from pipeline.errors import LoadError, UsageError
from pipeline.evidence.record import read_decision
from pipeline.gate import Gate
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import run
from pipeline.statistics.facts import Resource
from pipeline.store import Store

TOLD: dict[str, Any] = {"curves": [], "slo": {}, "representative": True}


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    golden = write_golden(tmp_path / "orders")
    return Request(model="some/model", golden=str(golden), policy=write_policy(tmp_path / "gate.yaml"))


@pytest.fixture
def gpu(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides are served on a GPU."""
    planned = machine.plan
    monkeypatch.setattr(gate, "make_plan", lambda *settings: replace(planned(*settings), device="cuda"))


def decided(request: Request, tmp_path: Path) -> dict[str, Any]:
    made = Gate(request, Store(tmp_path / "home"), Silent())
    made.measure()
    return read_decision(made.decision.path / "decision.json")


def under_load(monkeypatch: pytest.MonkeyPatch, candidate: tuple[float, ...], counted: bool = True) -> None:
    """A load test that found these p95 times to the first token, against 10 ms."""
    resource = Resource("ttft_p95", (10.0,) * len(candidate), candidate, varies=True, counted=counted)
    monkeypatch.setattr(gate.load, "run", lambda store, **settings: store.make("load", {}, lambda directory: None))
    monkeypatch.setattr(gate.load, "read_load", lambda output: (TOLD, (resource,)))


def test_what_was_measured_under_load_is_in_the_record(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_load(monkeypatch, (6.0, 6.01, 5.99))
    decision = decided(replace(request_, load=True), tmp_path)
    assert decision["verdict"] == "ACCEPT" and decision["load"] == TOLD
    assert {row["name"]: row["state"] for row in decision["resources"]}["ttft_p95"] == "better"


def test_a_slower_candidate_is_not_worth_shipping(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_load(monkeypatch, (14.0, 14.01, 13.99))
    decision = decided(replace(request_, load=True), tmp_path)
    assert (decision["verdict"], decision["reasons"][0]["code"]) == ("REJECT", "NO_BENEFIT")
    assert "ttft_p95 is worse by at least 39" in decision["reasons"][0]["text"]


def test_a_gain_does_not_make_up_for_lost_quality(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_load(monkeypatch, (1.0, 1.01, 0.99))
    machine.candidate = lambda number: number % 3 > 0
    assert decided(replace(request_, load=True), tmp_path)["verdict"] == "REJECT"


def test_on_a_gpu_what_was_not_loaded_is_no_accept(
    gpu: None, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(request_, Store(tmp_path / "home"), Silent())
    (reason,) = result.decision["reasons"]
    assert (result.decision["verdict"], reason["code"]) == ("INCONCLUSIVE", "BENEFIT_UNDECIDED")
    assert "throughput_at_slo, ttft_p95, itl_p95" in reason["text"] and "LOAD=1" in reason["text"]
    with opened(result.directory) as root:
        assert verify(root, result.directory).differences == ()
    assert request_.policy is not None
    text = request_.policy.read_text(encoding="utf-8")
    request_.policy.write_text(
        "benefit: {throughput_at_slo: null, ttft_p95: null, itl_p95: null}\n" + text, encoding="utf-8"
    )
    assert decided(request_, tmp_path)["verdict"] == "ACCEPT"
    request_.policy.write_text(text, encoding="utf-8")
    under_load(monkeypatch, (6.0, 6.01, 5.99))
    assert decided(replace(request_, load=True), tmp_path)["verdict"] == "ACCEPT"


def test_a_run_that_was_not_told_of_missing_load_does_not_verify(
    gpu: None, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "unmeasured_reasons", lambda *_, **__: [])
    result = run(request_, Store(tmp_path / "home"), Silent())
    assert result.decision["verdict"] == "ACCEPT"
    with opened(result.directory) as root:
        (difference,) = verify(root, result.directory).differences
    assert "lacks BENEFIT_UNDECIDED: whether throughput_at_slo" in str(difference)


def test_failed_requests_end_the_run(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: Store, **settings: Any) -> None:
        raise LoadError("3 of 12 requests failed under load")

    monkeypatch.setattr(gate.load, "run", fail)
    with pytest.raises(LoadError):
        decided(replace(request_, load=True), tmp_path)


def test_load_is_put_only_where_it_is_asked_for(machine: FakeMachine, request_: Request, tmp_path: Path) -> None:
    decision = decided(request_, tmp_path)
    assert decision["load"] is None and decision["verdict"] == "ACCEPT" and decision["conditions"] == []


def test_weights_and_cache_at_once_need_a_word(
    machine: FakeMachine, request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate.quantize, "cpu_flags", lambda: frozenset({"avx512f"}))  # a processor that could serve it
    both = replace(request_, recipe="fp8-dynamic+fp8-kv")
    machine.hooks["resolve"] = lambda: pytest.fail("work was done")
    with pytest.raises(UsageError, match="2 variables at once: weights: as they are -> FP8_DYNAMIC; kv_cache_dtype"):
        run(both, Store(tmp_path / "home"), Silent())
    machine.hooks.clear()
    (condition,) = decided(replace(both, combined=True), tmp_path)["conditions"]
    assert "no single one of them being judged" in condition


def test_the_command_says_both(request_: Request) -> None:
    assert replace(request_, combined=True, load=True).command.endswith("--combined --load")
