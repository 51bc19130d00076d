"""Counting a set, and saying what it can decide."""

from __future__ import annotations

import pytest
from rich.console import Console

from pipeline.errors import GoldenSetError
from pipeline.golden import load
from pipeline.golden.show import show
from pipeline.golden.stats import Power, stats, stats_view, verdicts
from pipeline.settings import GateSettings, MetricPolicy


@pytest.fixture
def golden(shop):
    return load(shop.write(shop.transcript(), shop.expecting({"behaviour": "refuse"}, id="b", scenario="b")))


def text_of(renderable) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_counts_by_slice(golden):
    found = stats(golden)
    rows = {part.name: (part.turns, part.scenarios, part.critical) for part in (found.whole, *found.slices)}
    assert rows == {
        "all turns": (3, 2, 1),
        "amounts": (1, 1, 1),
        "must_refuse": (1, 1, 0),
        "refunds": (3, 2, 1),
        "tool_calls": (1, 1, 0),
    }
    assert (found.transcripts, found.power) == (2, ())


def test_tokens_are_labelled_as_what_they_are(golden):
    assert stats(golden).counted == "approximate: characters / 4"
    exact = stats(golden, tokenizer=lambda text: 7)
    assert exact.counted == "by the tokenizer"
    assert (exact.whole.mean_tokens, exact.whole.most_tokens) == (7, 7)


def test_power_counts_the_turns_that_a_metric_reads(golden):
    gate = GateSettings(
        metrics={name: MetricPolicy(margin=0.03) for name in ("refuses_when_required", "tool_call_correct")}
    )
    power = {row.metric: row for row in stats(golden, gate).power}
    assert (power["refuses_when_required"].turns, power["refuses_when_required"].scenarios) == (1, 1)
    assert power["tool_call_correct"].turns == 3
    # (z_0.95 + z_0.80)^2 * f / m^2 with the z values of any table, 1.644854 and 0.841621, times the design effect
    # (n * f + worst) / (n * f + 1); scenarios of 2 turns and 1 have worst = (4 + 1) / 3.
    independent = (1.644854 + 0.841621) ** 2 * 0.05 / 0.03**2
    least = next(n for n in range(1, 1000) if n >= independent * (n * 0.05 + 5 / 3) / (n * 0.05 + 1))
    assert power["tool_call_correct"].needed[1] == least > independent


def test_what_cannot_be_decided_is_said(golden):
    gate = GateSettings(metrics={"refuses_when_required": MetricPolicy(margin=0.03)})
    lines = verdicts(stats(golden, gate).power)
    # Without any flip the lower limit is -z^2/(n+z^2); 0.03 needs 87.5 turns, 2 % flips need 138.
    assert lines[0].startswith("refuses_when_required: cannot decide its margin of 3% even if only 2%")
    assert "1 turns of 138 needed" in lines[0]
    shown = text_of(stats_view(stats(golden, gate)))
    assert "must_refuse" in shown
    assert lines[0] in shown


def test_a_large_set_can_decide(golden):
    from pipeline.golden.stats import Power

    power = Power("m", True, 1000, 900, 0.03, (0.0111, 0.0176, 0.0249), (138, 344, 687))
    assert verdicts([power])[0] == "m: can decide its margin while no more than 10% of the turns flip."


def test_a_conversation_is_shown_with_what_is_expected(golden):
    shown = text_of(show(golden, "broken-vase#3"))
    for part in (
        "scenario broken-vase; policy shop",
        "tools: get_order, refund",
        "user: hello, the vase of order A-1",
        'assistant calls get_order({"order_id": "A-1"})',
        "turn broken-vase#1: refunds, tool_calls",
        'call get_order(order_id="A-1")',
        "must not call refund",
        "turn broken-vase#3 CRITICAL: amounts, refunds",
        "say 20.00 | 20,00",
    ):
        assert part in shown
    assert shown.index("turn broken-vase#1") < shown.index("tool: {") < shown.index("turn broken-vase#3")
    assert "(no golden reply on record)" in text_of(show(golden, "b"))


def test_markup_in_a_conversation_is_text(shop):
    data = shop.expecting({"behaviour": "refuse"}, id="b")
    data["messages"][0]["content"] = "[bold]refund[/bold] [/nope]"
    assert "[bold]refund[/bold] [/nope]" in text_of(show(load(shop.write(data)), "b"))


def test_an_unknown_transcript_names_the_nearest(golden):
    with pytest.raises(GoldenSetError) as caught:
        show(golden, "VASE")
    assert caught.value.remedy == "There are: broken-vase."


@pytest.mark.parametrize(("margin", "told"), [(0.015, "1.5%"), (0.0125, "1.25%"), (0.07, "7%")])
def test_a_margin_is_told_as_it_stands_in_the_policy(margin: float, told: str) -> None:
    row = Power("m", gating=True, turns=2, scenarios=1, margin=margin, detectable=(1.0, 1.0, 1.0), needed=(9, 9, 9))
    assert verdicts([row])[0].startswith(f"m: cannot decide its margin of {told} even if")
