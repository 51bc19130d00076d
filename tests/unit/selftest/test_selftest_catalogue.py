"""The catalogue and what counts as caught."""

from __future__ import annotations

from typing import Any

import pytest

import evaluators
from pipeline import errors
from pipeline.errors import RecordError, Verdict
from pipeline.inspection import CHECKS
from pipeline.selftest.catalogue import Fault, Result, decided, faults, raised
from pipeline.statistics.facts import ReasonCode

ALL = [*faults("reply"), *faults("checkpoint")]
FAULT = Fault("f", "reply", "A fault.", "METRIC_LOSS tool_call_correct")


def record(*reasons: tuple[str, str, str | None, dict[str, Any]]) -> dict[str, Any]:
    keys = ("code", "verdict", "metric", "figures")
    listed = [{**dict(zip(keys, reason, strict=True)), "text": "text"} for reason in reasons]
    return {"verdict": listed[0]["verdict"], "reasons": listed}


def test_it_is_as_large_as_promised() -> None:
    assert len(ALL) >= 30
    assert len(faults("reply")) >= 24
    assert len(faults("checkpoint")) >= 16
    assert len({fault.name for fault in ALL}) == len(ALL)


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_every_fault_is_documented_and_names_a_check_that_exists(fault: Fault) -> None:
    what, _, where = (fault.module.__doc__ or "").partition("\n\n")
    assert len(what) > 20
    assert len(where) > 40  # in which engine, thread or tool it happens
    kind, _, part = fault.caught_by.partition(" ")
    if kind == "inspect":
        assert part in CHECKS
    elif kind.isupper():
        assert ReasonCode(kind) is not ReasonCode.METRICS_HELD
        assert not kind.startswith("METRIC_") or part in evaluators.METRICS
        assert kind != "SLICE_LOSS" or part
    else:
        assert issubclass(getattr(errors, kind), errors.GateError)
        assert part


def test_the_named_check_must_argue_for_the_verdict() -> None:
    loss = ("METRIC_LOSS", "REJECT", "tool_call_correct", {})
    assert decided(FAULT, record(loss)).ok
    assert decided(FAULT, record(("CRITICAL_TURN", "REJECT", None, {}), loss)).ok
    assert not decided(FAULT, record(("UNSCORABLE", "INVALID", None, {}), loss)).ok


@pytest.mark.parametrize(
    ("code", "metric"),
    [("METRIC_LOSS", "policy_adherence"), ("METRIC_UNDECIDED", "tool_call_correct"), ("CRITICAL_TURN", None)],
)
def test_another_check_does_not_count(code: str, metric: str | None) -> None:
    result = decided(FAULT, record((code, "REJECT", metric, {})))
    assert not result.ok
    assert result.caught_by == (f"{code} {metric}" if metric else code,)


def test_accepted_is_never_caught() -> None:
    assert not Result(FAULT, Verdict.ACCEPT, ("METRIC_LOSS tool_call_correct",), "").ok


def test_a_slice_is_named_before_its_metric() -> None:
    fault = Fault("f", "reply", "A fault.", "SLICE_LOSS languages")
    assert decided(fault, record(("SLICE_LOSS", "REJECT", "policy_adherence", {"slice": "languages"}))).ok
    assert not decided(fault, record(("SLICE_LOSS", "REJECT", "policy_adherence", {"slice": "refunds"}))).ok


def test_an_error_is_named_by_its_class_and_words() -> None:
    fault = Fault("f", "reply", "A fault.", "RecordError altered")
    assert raised(fault, RecordError("x: kept stage output was altered: replies.jsonl")).ok
    assert not raised(fault, RecordError("x: unreadable")).ok
    assert not raised(fault, errors.ReplayError("altered")).ok
