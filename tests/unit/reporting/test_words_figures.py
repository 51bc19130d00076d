"""Figures and sentences of the reports, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import Verdict
from pipeline.reporting.words import headline, resource_figure


@pytest.mark.parametrize(
    ("values", "shown"),
    [((), "n/a"), ((0.1, 0.4), "0.2 a second"), ((0.0, 0.104207), "0 a second"), ((3.0,), "3 a second")],
)
def test_the_figure_of_a_side_is_one(values: tuple[float, ...], shown: str) -> None:
    assert resource_figure("throughput_at_slo", values) == shown


@pytest.mark.parametrize(
    ("verdict", "policy", "told"),
    [
        (Verdict.ACCEPT, {"release": True}, "The candidate may replace the baseline."),
        (Verdict.ACCEPT, {"release": False}, "The candidate keeps what this tour asks for."),
        (Verdict.REJECT, {"release": False}, "Do not ship the candidate."),
    ],
)
def test_a_tour_ships_nothing(verdict: Verdict, policy: dict[str, Any], told: str) -> None:
    record: Any = SimpleNamespace(verdict=verdict, policy=policy)
    assert headline(record) == told
