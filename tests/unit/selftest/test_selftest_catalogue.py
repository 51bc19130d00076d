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


LOSS = ("METRIC_LOSS", "REJECT", "tool_call_correct: a true loss of more than 1.5 % is proved (-4 %).")
CRITICAL = ("CRITICAL_TURN", "REJECT", "1 of 40 critical turns that the baseline passes fail: tool_call_correct#1.")
UNSCORABLE = ("UNSCORABLE", "INVALID", "candidate: 26 of 1302 turns have missing or unscorable outcomes: a#1.")


def record(*reasons: tuple[str, str, str]) -> dict[str, Any]:
    listed = [dict(zip(("code", "verdict", "text"), reason, strict=True)) for reason in reasons]
    return {"verdict": listed[0]["verdict"], "reasons": listed}


def fault(caught_by: str) -> Fault:
    return Fault("f", "reply", "A fault.", caught_by)


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
    kind, *words = fault.caught_by.split()
    if kind == "inspect":
        assert words[0] in CHECKS
    elif kind.isupper():
        assert ReasonCode(kind) is not ReasonCode.METRICS_HELD
        assert not kind.startswith(("METRIC_", "SLICE_")) or words[-1] in evaluators.METRICS
        assert len(words) == 2 or kind != "SLICE_LOSS"
    else:
        assert issubclass(getattr(errors, kind), errors.GateError)
        assert words


def test_the_named_check_must_argue_for_the_verdict() -> None:
    assert decided(FAULT, record(LOSS)).ok
    assert decided(FAULT, record(CRITICAL, LOSS)).ok
    assert not decided(FAULT, record(UNSCORABLE, LOSS)).ok


@pytest.mark.parametrize(
    "reason",
    [
        ("METRIC_LOSS", "REJECT", "policy_adherence: a true loss of more than 3 % is proved (-4 %)."),
        ("METRIC_UNDECIDED", "INCONCLUSIVE", "tool_call_correct: neither proved nor ruled out."),
        CRITICAL,
    ],
)
def test_another_check_does_not_count(reason: tuple[str, str, str]) -> None:
    result = decided(FAULT, record(reason))
    assert not result.ok
    assert result.caught_by == tuple(result.others) == (f"{reason[0]} {reason[2]}",)


def test_accepted_is_never_caught() -> None:
    assert not Result(FAULT, Verdict.ACCEPT, (f"{LOSS[0]} {LOSS[2]}",)).ok


@pytest.mark.parametrize(
    ("caught_by", "ok"),
    [
        ("SLICE_LOSS languages policy_adherence", True),
        ("SLICE_LOSS refunds policy_adherence", False),
        ("SLICE_LOSS languages tool_call_correct", False),
        ("SLICE_LOSS language policy_adherence", False),
    ],
)
def test_a_loss_in_a_slice_is_that_of_one_metric(caught_by: str, ok: bool) -> None:
    text = "slice languages, policy_adherence: a true loss of more than 3 % is proved."
    assert decided(fault(caught_by), record(("SLICE_LOSS", "REJECT", text))).ok is ok


@pytest.mark.parametrize(("side", "ok"), [("candidate", True), ("baseline repeat", False)])
def test_missing_replies_are_those_of_one_side(side: str, ok: bool) -> None:
    assert decided(fault(f"UNSCORABLE {side}"), record(UNSCORABLE)).ok is ok


def test_an_error_is_named_by_its_class_and_words() -> None:
    altered = fault("RecordError altered")
    assert raised(altered, RecordError("x: kept stage output was altered: replies.jsonl")).ok
    assert not raised(altered, RecordError("x: unreadable")).ok
    assert not raised(altered, errors.ReplayError("altered")).ok
