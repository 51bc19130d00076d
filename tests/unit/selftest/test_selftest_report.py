"""Rates against their aims, the report, and the command."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pipeline import cli
from pipeline.errors import Verdict
from pipeline.progress import Progress
from pipeline.selftest.catalogue import Fault, Result, Sound
from pipeline.selftest.rates import Rate
from pipeline.selftest.report import Report, view
from pipeline.store import Store

FAULT = Fault("loops", "reply", "Replies loop.", "METRIC_LOSS free_of_degeneration")
CAUGHT = Result(FAULT, "REJECT", ("METRIC_LOSS free_of_degeneration: a true loss",))
WRONG = Result(FAULT, "REJECT", ("CRITICAL_TURN 1 of 2 turns",))
ACCEPTED = Result(FAULT, "ACCEPT", ("METRICS_HELD on every metric",))
SELF = Sound("baseline against itself", "ACCEPT", "held")
GOOD = Rate("false reject", Verdict.REJECT, 4, 200, 0.05)


@pytest.mark.parametrize(
    ("count", "ok"),
    [  # binomial table, n = 20, p = 0.05: P(X >= 4) = 1 - 0.9841, P(X >= 5) = 1 - 0.9974
        (0, True),
        (4, True),
        (5, False),
    ],
)
def test_a_rate_may_exceed_its_aim_by_chance_only(count: int, ok: bool) -> None:
    assert Rate("r", Verdict.ACCEPT, count, 20, 0.05).ok is ok


@pytest.mark.parametrize(
    ("count", "ok"),
    [  # binomial table, n = 20: P(X <= 12 | 0.8) = P(Y >= 8 | 0.2) = 1 - 0.9679; P(X <= 10) = 1 - 0.9974
        (20, True),
        (12, True),
        (10, False),
    ],
)
def test_a_rate_may_fall_short_of_its_aim_by_chance_only(count: int, ok: bool) -> None:
    assert Rate("r", Verdict.ACCEPT, count, 20, 0.8, least=True).ok is ok


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report((SELF,), (WRONG,), (GOOD,), 1), "loops was not caught by METRIC_LOSS free_of_degeneration"),
        (Report((SELF,), (ACCEPTED,), (GOOD,), 1), "loops was accepted"),
        (Report((Sound("itself", "REJECT", "why"),), (CAUGHT,), (GOOD,), 1), "itself was not accepted: REJECT, why"),
        (
            Report((SELF,), (CAUGHT,), (Rate("false reject", Verdict.REJECT, 40, 200, 0.05),), 1),
            "false reject: 20.0% of 200",
        ),
    ],
)
def test_whatever_is_wrong_is_said_and_fails(report: Report, words: str) -> None:
    assert report.exit_code == 30
    buffer = io.StringIO()
    Console(file=buffer, width=200).print(view(report))
    assert words in buffer.getvalue()
    assert "cannot be trusted" in buffer.getvalue()


def test_all_as_it_must_be(tmp_path: Path) -> None:
    report = Report((SELF,), (CAUGHT,), (GOOD,), 1.23)
    assert report.exit_code == 0
    report.write(tmp_path / "new" / "result.json")
    kept = json.loads((tmp_path / "new" / "result.json").read_text())
    assert kept["ok"] and not kept["problems"]
    assert kept["faults"][0]["must_be_caught_by"] == "METRIC_LOSS free_of_degeneration"
    assert kept["rates"][0] == {
        "name": "false reject",
        "verdict": "REJECT",
        "count": 4,
        "runs": 200,
        "rate": 0.02,
        "aim": 0.05,
        "at_least": False,
        "ok": True,
    }


@pytest.mark.parametrize(("result", "code"), [(CAUGHT, 0), (ACCEPTED, 30)])
def test_the_command_exits_with_the_reports_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: Result, code: int
) -> None:
    asked = []

    def fake(store: Store, progress: Progress, full: bool) -> Report:
        asked.append(full)
        return Report((SELF,), (result,), (GOOD,), 1)

    monkeypatch.setenv("QUANT_GATE_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "selftest", fake)
    done = CliRunner().invoke(cli.app, ["selftest", "--full"])
    assert done.exit_code == code, done.output
    assert asked == [True]
    assert "loops" in done.output
