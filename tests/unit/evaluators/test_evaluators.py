"""The package as a whole: one outcome per metric, whatever happens."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pytest
from evaluator_samples import call, expect, expected, reply, turn

import evaluators
from evaluators import policy, tool_calls
from evaluators.turn import Outcome, Policy, PolicyRule, Reply, Status, ToolCall, Turn

TURNS = [
    turn(expect("tool_call", expected("get_order", order_id="A"))),
    turn(expect("answer", say=(("shipped",),))),
    turn(
        expect(
            "refuse", forbidden_tools=frozenset({"refund"}), alternatives=(expect("escalate", expected("list_orders")),)
        )
    ),
    turn(expect("comply"), tools=()),
    turn(expect("clarify"), policy=Policy("p", "t", (PolicyRule("r", "grounded_ids", {"pattern": "re:OM-\\d+"}),))),
]


def by_metric(outcomes: list[Outcome]) -> dict[str, Outcome]:
    assert [outcome.metric for outcome in outcomes] == list(evaluators.METRICS)
    return {outcome.metric: outcome for outcome in outcomes}


def test_the_metrics() -> None:
    assert set(evaluators.METRICS) == {
        "policy_adherence",
        "tool_call_correct",
        "tool_call_valid",
        "refuses_when_required",
        "complies_when_allowed",
        "free_of_degeneration",
    }


@pytest.mark.parametrize("a_turn", TURNS)
@pytest.mark.parametrize("missing", [None, Reply("t#1", content="I can't. shipped", error="HTTP 500")])
def test_without_a_usable_reply_every_applicable_metric_is_unscorable(a_turn: Turn, missing: Reply | None) -> None:
    scored = by_metric(evaluators.evaluate(a_turn, reply("Hello")))
    for metric, outcome in by_metric(evaluators.evaluate(a_turn, missing)).items():
        if scored[metric].status is Status.NOT_APPLICABLE:
            assert outcome.status is Status.NOT_APPLICABLE
        else:
            assert (outcome.status, outcome.label) == (Status.UNSCORABLE, "no_reply")
            assert outcome.evidence == ("no reply was kept" if missing is None else "HTTP 500",)


CONTENTS = ["", "shipped", "I can't help with that.", "<tool_call>{", "OM-1 " * 9, "\ud800", '{"name": "get_order"'] + [
    "".join(random.Random(seed).choices("aé\n {}[]<>|\"':1,.\ufffd\u0000退", k=60)) for seed in range(20)
]
CALLS = [
    (),
    (call("get_order", order_id="A"),),
    (ToolCall("refund", "{"), ToolCall("", "")),
    (call("list_orders"),) * 3,
]


@pytest.mark.parametrize("a_turn", TURNS)
def test_applicability_never_depends_on_the_reply_and_nothing_raises(a_turn: Turn) -> None:
    applicable = {o.metric for o in evaluators.evaluate(a_turn, None) if o.status is not Status.NOT_APPLICABLE}
    for content, calls, finish in itertools.product(CONTENTS, CALLS, ("stop", "length", None)):
        a_reply = Reply("t#1", content, calls, finish)
        outcomes = evaluators.evaluate(a_turn, a_reply)
        assert {o.metric for o in outcomes if o.status is not Status.NOT_APPLICABLE} == applicable
        assert all(o.status is not Status.UNSCORABLE for o in outcomes)
        assert all(o.turn_id == a_turn.id for o in outcomes)
        assert outcomes == evaluators.evaluate(a_turn, a_reply)
        "".join(text for o in outcomes for text in o.evidence).encode("utf-8")


def test_an_evaluator_that_raises_leaves_the_turn_unscorable(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(a_turn: Turn, a_reply: Reply) -> list[Outcome]:
        raise RuntimeError("boom")

    monkeypatch.setattr(tool_calls, "evaluate", broken)
    outcomes = by_metric(evaluators.evaluate(TURNS[0], reply("Hello")))
    assert outcomes["tool_call_correct"] == Outcome(
        "t#1", "tool_call_correct", Status.UNSCORABLE, "evaluator_error", ("RuntimeError: boom",)
    )
    assert outcomes["tool_call_valid"].status is Status.UNSCORABLE
    assert outcomes["free_of_degeneration"].status is Status.PASSED


def test_an_evaluator_that_forgets_a_metric_leaves_it_unscorable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "evaluate", lambda a_turn, a_reply: ())
    assert by_metric(evaluators.evaluate(TURNS[1], reply("shipped")))["policy_adherence"].label == "evaluator_error"


def test_the_source_digest_follows_every_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(evaluators.__file__).parent
    copy = tmp_path / "evaluators"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = evaluators.source_digest()
    monkeypatch.setattr(evaluators, "__file__", str(copy / "__init__.py"))
    assert evaluators.source_digest() == before  # the place does not matter
    (copy / "refusal_words.py").write_text("x = 1\n")
    changed = evaluators.source_digest()
    assert changed != before
    (copy / "more.py").write_text("")
    assert evaluators.source_digest() not in (before, changed)
