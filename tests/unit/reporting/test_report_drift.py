"""The part of the page that tells of next-token distributions."""

from __future__ import annotations

from typing import Any

import pytest
from report_samples import sample
from test_report_html import Page

from pipeline.errors import RecordError, Verdict
from pipeline.reporting.drift import NO_FIGURE, drift_cells, drift_lines, most_drifted
from pipeline.reporting.record import Drift, DriftRow


def row(group: str, name: str, tokens: int, **figures: Any) -> dict[str, Any]:
    made = dict.fromkeys(("median", "p90", "p95", "p99", "p999", "maximum", "error", "mean_change", "rms_change"), 0.01)
    made |= {"mean": 0.0123, "same_top": 0.9725, "perplexity_baseline": 2.0, "perplexity_candidate": 2.03}
    return {
        "group": group,
        "name": name,
        "tokens": tokens,
        **made,
        "mean_interval": None,
        "perplexity_ratio": 1.015,
        "perplexity_ratio_interval": None,
        **figures,
    }


def drift() -> dict[str, Any]:
    rows = [
        row("all", "all tokens", 1100, mean_interval=[0.01, 0.02], perplexity_ratio_interval=[1.004, 1.026]),
        row("role", "tool call", 300, mean_change=-0.004),
        row("slice", "refunds", 15),
    ]
    return {
        "turns": 32,
        "compared": 31,
        "top_k": 20,
        "unread": {"a-1#3": "baseline: HTTP 400: <too long>"},
        "rows": rows,
        "turn_means": {"a-1#5": 0.01, "a-2#1": 0.09, "a-3#1": 0.02},
    }


def page_text(found: dict[str, Any] | None) -> str:
    made = sample(Verdict.REJECT)
    made.decision["drift"] = found
    return " ".join(Page(made.page()).text.split())


def test_the_page_shows_figures_their_error_and_what_is_missing() -> None:
    text = page_text(drift())
    assert "On 1,100 tokens of 31 golden replies the candidate lies 0.0123 nats from the baseline" in text
    assert "(95 % interval 0.0100 to 0.0200)" in text
    assert "1.015 times as perplexing to the candidate (95 % interval 1.004 to 1.026)" in text
    assert "by 0.0100 nats on average at most" in text
    assert "1 of 32 golden replies could not be compared; a-1#3: baseline: HTTP 400: <too long>." in text
    assert "slice refunds" in text


def test_turns_that_drifted_most_come_first_and_flips_are_set_against_the_others() -> None:
    found = Drift.model_validate(drift())
    assert most_drifted(found) == ["a-2#1", "a-3#1", "a-1#5"]
    assert "a-2#1 a-3#1 a-1#5" in page_text(drift())
    lines = " ".join(drift_lines(found, {"a-2#1", "a-1#5", "not-read#1"}))
    assert "2 flipped: their replies drifted 0.0500 nats, the others' 0.0200" in lines
    assert "drifted more in 50 % of pairs" in lines  # 0.09 > 0.02 > 0.01
    assert "flipped" not in " ".join(drift_lines(found, set()))


def test_without_a_comparison_there_is_no_such_part() -> None:
    assert "Drift" not in page_text(None)


def test_nothing_compared_is_said_without_figures() -> None:
    text = page_text({**drift(), "compared": 0, "rows": [], "turn_means": {}})
    assert "could not be compared" in text
    assert "Mean KLD" not in text


def test_cells_are_those_of_llama_cpp_and_leave_out_quantiles_of_too_few_tokens() -> None:
    made = row("all", "all tokens", 100, mean_change=-0.01461, perplexity_ratio_interval=[1.0044, 1.0256])
    cells = drift_cells(DriftRow.model_validate(made))
    assert cells[0] == "0.01230"
    assert cells[1:6] == ["0.01000", "0.01000", "0.01000", "0.01000", NO_FIGURE]  # one of 100 lies beyond the 99 %
    assert cells[6:] == ["0.01000", "97.25", "-1.461", "1.000", "1.0150", "1.004 to 1.026"]
    assert drift_cells(DriftRow.model_validate(row("slice", "refunds", 100)))[-1] == NO_FIGURE  # of one scenario


def test_a_figure_that_is_none_is_an_error() -> None:
    broken = drift()
    broken["rows"][0]["mean"] = float("nan")
    with pytest.raises(RecordError, match=r"drift\.rows\.0\.mean"):
        page_text(broken)
