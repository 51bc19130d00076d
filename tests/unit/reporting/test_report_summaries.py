"""The terminal and Markdown summaries."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import sample, unmeasured
from rich.console import Console
from test_report_drift import drift

from pipeline.errors import VERDICT_EXIT_CODES, Verdict
from pipeline.reporting import RunFacts, summary
from pipeline.reporting.markdown import escape, summary_markdown
from pipeline.reporting.terminal import summary_text

PLACES = {
    "report": Path("/a/rather/long/path/that/does/not/fit/into/eighty/columns/of/a/terminal/stages/report/report.html"),
    "decision": Path.cwd() / "stages" / "decision.json",
    "mlflow_run": "run 0123456789abcdef",
}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_plain_text_fits_80_columns_and_opens_with_the_verdict(verdict: Verdict) -> None:
    made = sample(verdict)
    text = summary_text(made.decision, made.run)
    lines = text.splitlines()
    assert lines[0].split()[0] == verdict.value
    assert max(map(len, lines)) <= 80
    assert text.isascii()
    assert f"Exit code  {VERDICT_EXIT_CODES[verdict]}" in lines
    flat = " ".join(text.split())
    places = [
        flat.index(part) for part in ("Why", made.decision["next_step"], "metric base cand diff", "Risk and gain")
    ]
    assert places == sorted(places)
    for reason in made.decision["reasons"]:
        assert reason["text"] in flat.replace("- ", "") or reason["text"] in flat


def test_the_table_shows_the_figures_of_the_record() -> None:
    made = sample(Verdict.REJECT)
    row = next(r for r in made.decision["metrics"] if r["metric"] == "tool_call_correct")
    row |= {"baseline_rate": 0.8231, "candidate_rate": 0.5, "difference": -0.3231, "lower": -0.3567}
    row |= {"margin": 0.03, "b": 188, "c": 12}
    line = next(x for x in summary_text(made.decision, made.run).splitlines() if x.startswith("tool_call_correct"))
    assert line.split()[1:] == ["82.3", "50.0", "-32.31", "-35.67", "-3.00", "188", "12", "REJECT"]
    row |= {"b": 188.333333, "c": 0.666667}  # turns sampled three times
    text = summary_text(made.decision, made.run)
    line = next(x for x in text.splitlines() if x.startswith("tool_call_correct"))
    assert line.split()[6:8] == ["188.3", "0.7"]
    assert max(map(len, text.splitlines())) <= 80


def test_the_widest_figures_still_fit() -> None:
    made = sample(Verdict.INCONCLUSIVE)
    for row in made.decision["metrics"]:
        row |= {"baseline_rate": 1.0, "candidate_rate": 1.0, "difference": -1.0, "lower": -1.0, "upper": 1.0}
        row |= {"metric": "a_metric_with_a_rather_long_name", "verdict": "INCONCLUSIVE", "b": 9999, "c": 9999}
    lines = summary_text(made.decision, made.run).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("9999 9999 INCONCLUSIVE" in line for line in lines) == 5


def test_places_are_whole_even_when_long() -> None:
    made = sample(Verdict.ACCEPT)
    text = summary_text(made.decision, replace(made.run, **PLACES))  # type: ignore[arg-type]
    assert f"Report     {PLACES['report']}" in text.splitlines()
    assert "Decision   stages/decision.json" in text.splitlines()
    assert "MLflow run run 0123456789abcdef" in text.splitlines()


def test_critical_failures_are_listed_and_counted() -> None:
    made = sample(Verdict.REJECT)
    failed = made.decision["critical"]["failed"]
    text = summary_text(made.decision, made.run)
    assert sum(name in text for name in failed) == 10
    assert f"and {len(failed) - 10} more" in text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_what_is_known_of_the_critical_turns_is_told_once(verdict: Verdict) -> None:
    """Among the risks, or by itself where those are not known."""
    made = sample(verdict)
    flat = " ".join(summary_text(made.decision, made.run).split())
    assert flat.count("that the baseline passes fail;") == 1
    assert ("Critical turns - " in flat) == (verdict is Verdict.INVALID)
    assert ("Critical turns lost - " in flat) == (verdict is Verdict.REJECT)


def test_untrusted_text_cannot_steer_the_terminal() -> None:
    made = sample(Verdict.REJECT)
    made.decision["critical"]["failed"] = ["\x1b[2J[bold red]gone[/bold red]\u202e"]
    made.decision["reasons"][0]["text"] = "[link=x]y[/link]\x1b]8;;x\x07"
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, force_terminal=True, color_system=None)
    console.print(summary(made.decision, made.run), crop=False)
    shown = buffer.getvalue()
    assert "\u202e" not in shown and "\x07" not in shown and "\x1b[2J" not in shown and "\x1b]8" not in shown
    assert "[bold red]gone[/bold red]" in shown
    assert "[link=x]y[/link]" in shown


def test_colour_adds_nothing_but_colour() -> None:
    made = sample(Verdict.ACCEPT)
    buffer = io.StringIO()
    Console(file=buffer, width=80, force_terminal=True, color_system="standard").print(
        summary(made.decision, made.run), crop=False
    )
    assert "\x1b[1;32mACCEPT" in buffer.getvalue()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_markdown_has_verdict_reasons_and_a_row_per_metric(verdict: Verdict) -> None:
    made = sample(verdict)
    text = summary_markdown(made.decision, made.run)
    assert text.startswith(f"## {verdict.value}: ")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(made.decision["metrics"])
    assert {row.count("|") for row in rows} == {11}
    assert escape(made.decision["reasons"][0]["text"]) in text


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("a|b", "a\\|b"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("[click](http://x)", "\\[click\\]\\(http://x\\)"),
        ("two\nlines\n# heading", "two lines \\# heading"),
        ("`code` *bold* @team", "\\`code\\` \\*bold\\* \\@team"),
        ("\u202eevil", "⟨U\\+202E⟩evil"),
    ],
)
def test_markdown_leaves_untrusted_text_alone(raw: str, safe: str) -> None:
    assert escape(raw) == safe


def test_markdown_table_survives_a_metric_with_a_bar() -> None:
    made = sample(Verdict.ACCEPT)
    made.decision["metrics"][0]["metric"] = "a|b"
    assert "| a\\|b | ACCEPT |" in summary_markdown(made.decision, RunFacts("m|n", "r", "make gate MODEL='a|b'"))


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
def test_what_would_change_the_verdict_and_the_worst_flips_are_told(render: Callable[..., str]) -> None:
    made = sample(Verdict.REJECT)
    text = " ".join(render(made.decision, made.run).replace("\\", "").split())
    assert made.decision["to_change"] in text
    worst = made.decision["worst_flips"]
    assert len(worst) == 5
    assert all(f"{flip['turn_id']} (critical): policy_adherence" in text for flip in worst)


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
def test_a_critical_turn_that_the_baseline_fails_elsewhere_is_no_critical_loss(render: Callable[..., str]) -> None:
    made = sample(Verdict.REJECT)
    first = made.decision["worst_flips"][0]["turn_id"]
    made.decision["critical"]["failed"].remove(first)
    text = " ".join(render(made.decision, made.run).replace("\\", "").split())
    assert f"{first} (critical, but the baseline fails another metric of it): policy_adherence" in text


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("quant-gate run --model m --recipe int4-rtn --load", "quant-gate diagnose --model m --recipe int4-rtn --load"),
        ("quant-gate compare --baseline a --candidate b", "quant-gate diagnose"),
    ],
)
def test_to_diagnose_takes_the_options_of_the_run(command: str, told: str, render: Callable[..., str]) -> None:
    made = sample(Verdict.REJECT)
    made.decision["next_step"] = "Ask `quant-gate diagnose`, or not."
    text = " ".join(render(made.decision, replace(made.run, command=command)).replace("\\", "").split())
    assert f"{told}`, or not." in text


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
def test_the_noise_floor_is_set_against_the_candidates_flips(render: Callable[..., str]) -> None:
    made = sample(Verdict.REJECT)
    row = next(r for r in made.decision["metrics"] if r["metric"] == "tool_call_correct")
    row |= {"b": 10, "c": 2, "n": 400}
    row["noise"] = {"repeats": 2, "compared": 800, "flips": 8, "flip_rate": 0.01, "excess_flips": 8.0, "reach": 0.008}
    text = " ".join(render(made.decision, made.run).replace("\\", "").split())
    assert "differs from itself on 8 of 800 turns, the candidate from it on 12 of 400 (+8.0 beyond noise)" in text


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
def test_a_run_that_replayed_nothing_claims_nothing(render: Callable[..., str]) -> None:
    made = unmeasured()
    text = " ".join(render(made.decision, made.run).split())
    assert "Nothing was replayed: the run ended before" in text
    assert "nothing was measured" in text
    assert "gave no usable answer" not in text
    assert "answered by both builds" not in text


@pytest.mark.parametrize("render", [summary_text, summary_markdown])
def test_drift_is_told_where_it_was_looked_at(render: Callable[..., str]) -> None:
    made = sample(Verdict.ACCEPT)
    assert "nats" not in render(made.decision, made.run)
    made.decision["drift"] = drift()
    text = " ".join(render(made.decision, made.run).replace("\\", "").split())
    assert "On 1,100 tokens of 31 golden replies the candidate lies 0.0123 nats from the baseline on average" in text
    assert "1 of 32 golden replies could not be compared" in text
