"""Figures in words: rounding never flatters, hidden characters never hide."""

from __future__ import annotations

from typing import Any

import pytest
from report_samples import sample

from pipeline.errors import RecordError, Verdict
from pipeline.reporting import words
from pipeline.reporting.record import read_record
from pipeline.visible import visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text, with punctuation; 12 %", "plain text, with punctuation; 12 %"),
        ("line one\n\tline two", "line one\n\tline two"),
        ("\u202eevil", "⟨U+202E⟩evil"),  # right-to-left override
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),  # isolates
        ("null\x00 escape\x1b[31m delete\x7f", "null⟨U+0000⟩ escape⟨U+001B⟩[31m delete⟨U+007F⟩"),
        ("carriage\rreturn", "carriage⟨U+000D⟩return"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("tag \U000e0041", "tag ⟨U+E0041⟩"),  # invisible tag letter
        ("selector \U000e0100", "selector ⟨U+E0100⟩"),  # carries data invisibly
        ("lone \ud800", "lone ⟨U+D800⟩"),
        ("line\u2028separator", "line⟨U+2028⟩separator"),
        ("Zürich, 東京, مرحبا, 59,90 €", "Zürich, 東京, مرحبا, 59,90 €"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),  # a joiner that emoji need
    ],
)
def test_hidden_characters_are_named(raw: str, shown: str) -> None:
    assert visible(raw) == shown


def test_visible_text_can_always_be_encoded() -> None:
    visible("".join(chr(code) for code in range(0x11000))).encode("utf-8")


@pytest.mark.parametrize(
    ("limit", "margin", "shown"),
    [
        (-0.0211, 0.03, "-2.11"),
        (-0.03004, 0.03, "-3.004"),  # two decimals would look like a pass
        (-0.02996, 0.03, "-3.00"),  # at the margin, and within it
        (-0.03, 0.03, "-3.00"),
        (-0.0300001, 0.03, "-3.00001"),
        (0.0, 0.03, "+0.00"),
        (-0.00001, 0.03, "+0.00"),
        (None, 0.03, "n/a"),
    ],
)
def test_a_limit_shows_its_side_of_the_margin(limit: float | None, margin: float, shown: str) -> None:
    assert words.limit_points(limit, margin) == shown


def test_at_most_rounds_up_and_at_least_rounds_down() -> None:
    assert words.in_hundred(0.01751) == "1.8 in 100"
    assert words.in_hundred(0.018) == "1.8 in 100"
    assert words.in_hundred(0.0) == "0.0 in 100"
    assert words.at_least_in_hundred(0.11579) == "11.5 in 100"
    assert words.at_least_in_hundred(0.115) == "11.5 in 100"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(269_060_552, "269.1 MB"), (1_500_000_000, "1.5 GB"), (1_024, "1.0 kB"), (999, "999 B"), (None, "n/a")],
)
def test_sizes(count: int | None, shown: str) -> None:
    assert words.size(count) == shown


def test_gain_in_bytes() -> None:
    # 163,204,712 / 269,060,552 = 0.60657, so 39.3 % less
    record = read_record(sample(Verdict.ACCEPT).decision)
    assert words.gain(record) == "Weights 269.1 MB -> 163.2 MB (-39.3 %)."


def _lower(decision: dict[str, Any], metric: str, lower: float, upper: float) -> None:
    row = next(row for row in decision["metrics"] if row["metric"] == metric)
    row["lower"], row["upper"] = lower, upper


def test_risk_of_an_accepted_candidate_is_its_widest_limit() -> None:
    decision = sample(Verdict.ACCEPT).decision
    _lower(decision, "complies_when_allowed", -0.0241, 0.01)
    _lower(decision, "tool_call_valid", -0.4, 0.0)  # does not gate, so it does not count
    decision["critical"]["upper_limit"] = 0.0721  # 0 failures in 40: Clopper-Pearson, 1 - 0.05 ** (1 / 40)
    decision["critical"] |= {"turns": 44, "passed_by_baseline": 40}
    assert words.risk(read_record(decision)) == [
        "At most 2.5 in 100 turns could be worse on balance, on any gating metric (95 % confidence each).",
        "Critical turns: 0 of the 40 that the baseline passes fail; at most 7.3 in 100 such turns could fail "
        "(95 % confidence). 4 more prove nothing: the baseline fails them, always or at times.",
    ]
    decision["critical"]["turns"] = 40
    assert words.risk(read_record(decision))[1].endswith("(95 % confidence).")


def test_risk_names_each_metric_that_may_or_does_lose_too_much() -> None:
    decision = sample(Verdict.ACCEPT).decision
    _lower(decision, "policy_adherence", -0.0677, -0.0379)
    _lower(decision, "free_of_degeneration", -0.0227, 0.0)
    _lower(decision, "tool_call_correct", None, None)  # type: ignore[arg-type]
    lines = words.risk(read_record(decision))
    assert lines[0].startswith("Follows the policy: at least 3.7 in 100 turns are worse")
    assert lines[1] == "Makes the right tool call: not measured."
    assert lines[2].startswith("Free of loops and broken text: up to 2.3 in 100 turns could be worse")
    assert lines[2].endswith("2 are acceptable.")
    assert len(lines) == 4


def test_no_risk_figure_where_the_comparison_is_invalid() -> None:
    assert words.risk(read_record(sample(Verdict.INVALID).decision)) == [
        "Not known. The figures of this run are no basis for a release decision."
    ]


def test_caveats_tell_of_speed_unanswered_turns_and_what_would_decide() -> None:
    decision = sample(Verdict.INCONCLUSIVE).decision
    decision["engine"] |= {"speed_representative": False, "notes": ["a note of the engine"]}
    decision["accounting"]["candidate_scored"] = 1237
    lines = words.caveats(read_record(decision), ["the tracking server did not answer", "a note of the engine"])
    assert lines[0].startswith("Speed was not representative")
    assert "The candidate gave no usable answer to 3 of 1240 turns." in lines
    assert any("about 1,578 turns would decide it" in line for line in lines)
    assert lines[-1] == "the tracking server did not answer"
    assert lines.count("a note of the engine") == 1


def test_a_deprecated_recipe_is_named_with_what_replaces_it() -> None:
    decision = sample(Verdict.ACCEPT).decision
    decision["candidate"]["recipe"] |= {"deprecated": "X ended; int4-awq replaces it"}
    assert words.caveats(read_record(decision))[0] == "The recipe is deprecated: X ended; int4-awq replaces it."


def test_rolling_back_means_something_only_after_shipping() -> None:
    assert words.rollback(read_record(sample(Verdict.ACCEPT).decision)).startswith("Serve the baseline again")
    assert words.rollback(read_record(sample(Verdict.REJECT).decision)).startswith("Nothing to undo")


@pytest.mark.parametrize("field", ["verdict", "metrics", "critical", "exit_code", "reasons"])
def test_a_record_without_a_field_is_refused(field: str) -> None:
    decision = sample(Verdict.ACCEPT).decision
    del decision[field]
    with pytest.raises(RecordError, match=field):
        read_record(decision)


def test_a_figure_that_is_no_number_is_refused() -> None:
    decision = sample(Verdict.ACCEPT).decision
    decision["metrics"][0]["lower"] = float("nan")
    with pytest.raises(RecordError, match=r"metrics\.0\.lower"):
        read_record(decision)


@pytest.mark.parametrize("alpha", [None, "a", 0, 1, float("nan")])
def test_a_record_without_a_usable_alpha_is_refused(alpha: object) -> None:
    decision = sample(Verdict.ACCEPT).decision
    decision["policy"]["alpha"] = alpha
    with pytest.raises(RecordError, match="alpha"):
        read_record(decision)
