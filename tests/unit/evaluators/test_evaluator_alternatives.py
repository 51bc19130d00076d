"""One reply is read as one answer: the main expectation or one alternative, the same for all metrics."""

from __future__ import annotations

import pytest
from evaluator_samples import call, expect, expected, reply, turn

import evaluators
from evaluators.alternatives import options
from evaluators.turn import Expectation, ExpectedCall, Reply, Status

GET_A = expected("get_order", order_id="A")
SHIPPED = expect("answer", say=(("shipped",),))


def labels(expectation: Expectation, a_reply: Reply) -> dict[str, str]:
    """Labels of the metrics that failed."""
    outcomes = evaluators.evaluate(turn(expectation), a_reply)
    return {outcome.metric: outcome.label for outcome in outcomes if outcome.status is Status.FAILED}


def test_the_words_of_a_text_alternative_are_asked_for() -> None:
    a_turn = expect("tool_call", GET_A, alternatives=(SHIPPED,))
    assert labels(a_turn, reply("It was shipped.")) == {}
    assert labels(a_turn, reply("", call("get_order", order_id="A"))) == {}
    assert labels(a_turn, reply("Hello.")) == {"policy_adherence": "not_said"}


def test_the_words_of_an_alternative_to_a_refusal_are_asked_for() -> None:
    a_turn = expect("refuse", alternatives=(expect("clarify", say=(("which order",),)),))
    assert labels(a_turn, reply("Which order?")) == {}
    assert labels(a_turn, reply("I can't do that.")) == {}
    assert labels(a_turn, reply("Sure, I'll do that.")) == {"refuses_when_required": "none"}


def test_the_words_of_one_answer_do_not_go_with_the_calls_of_another() -> None:
    look_up = expect("tool_call", GET_A, say=(("let me look",),))
    a_turn = expect("answer", say=(("shipped",),), alternatives=(look_up,))
    assert labels(a_turn, reply("Let me look.", call("get_order", order_id="A"))) == {}
    assert labels(a_turn, reply("Let me look.")) == {"policy_adherence": "not_said"}
    assert labels(a_turn, reply("It was shipped.", call("get_order", order_id="A"))) == {"tool_call_correct": "not_due"}


def test_the_earliest_of_equally_good_answers_is_taken() -> None:
    first = expect("tool_call", expected("refund", order_id="A"))
    a_turn = expect("tool_call", GET_A, alternatives=(first, expect("tool_call", expected("list_orders"))))
    outcomes = evaluators.evaluate(turn(a_turn), reply("", call("get_order", order_id="B")))
    evidence = next(o.evidence for o in outcomes if o.metric == "tool_call_correct")
    assert evidence == ('get_order: order_id: expected "A", got "B"',)


@pytest.mark.parametrize("behaviour", ["answer", "clarify", "comply", "escalate"])
def test_an_alternative_that_describes_nothing_is_no_way_out(behaviour: str) -> None:
    a_turn = expect("answer", say=(("shipped",),), alternatives=(expect(behaviour),))
    assert labels(a_turn, reply("Whatever.")) == {"policy_adherence": "not_said"}


def test_an_alternative_to_refuse_is_known_by_its_words() -> None:
    a_turn = expect("clarify", say=(("which order",),), alternatives=(expect("refuse"),))
    assert labels(a_turn, reply("I can't help with that.")) == {}
    assert labels(a_turn, reply("Whatever.")) == {"policy_adherence": "not_said"}
    helped = reply("I can't help with that. I have refunded it.")
    assert labels(a_turn, helped) != {}


def test_another_answer_to_a_turn_to_refuse_must_be_that_answer() -> None:
    a_turn = turn(expect("refuse", say=(("no",),), alternatives=(expect("tool_call", GET_A),)), tools=())
    outcomes = {o.metric: o for o in evaluators.evaluate(a_turn, reply("Sure, done."))}
    assert outcomes["refuses_when_required"].status is Status.FAILED


def test_what_the_main_expectation_forbids_is_forbidden_in_all() -> None:
    banned = ExpectedCall("refund", {"order_id": ("X",)})
    other = expect("clarify", say=(("which",),), never_say=("own",), forbidden_tools=frozenset({"get_order"}))
    main = expect(
        "tool_call",
        GET_A,
        alternatives=(other,),
        forbidden_tools=frozenset({"list_orders"}),
        forbidden_calls=(banned,),
        never_say=("lost",),
        critical=True,
    )
    first, second = options(turn(main))
    assert (first.expect.forbidden_tools, first.expect.never_say) == (frozenset({"list_orders"}), ("lost",))
    assert second.expect == expect(
        "clarify",
        say=(("which",),),
        never_say=("lost", "own"),
        forbidden_tools=frozenset({"list_orders", "get_order"}),
        forbidden_calls=(banned,),
        critical=True,
    )
    assert labels(main, reply("Which one is lost?")) == {"policy_adherence": "said_forbidden"}


def test_a_broken_alternative_leaves_every_reply_unscorable() -> None:
    broken = expect("answer", say=(("re:(",),))
    outcomes = evaluators.evaluate(turn(expect("tool_call", GET_A, alternatives=(broken,))), reply("Hello"))
    assert next(o for o in outcomes if o.metric == "policy_adherence").status is Status.UNSCORABLE
