"""Options of a comparison that contradict each other, that nothing reads, or that leave a side to be guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.comparing import sides
from pipeline.comparing.comparing import CompareRequest, Comparison
from pipeline.errors import InputError, UsageError
from pipeline.progress import Silent
from pipeline.store import Store

A, B = "http://127.0.0.1:9/v1", "http://127.0.0.1:9/other/v1"
"""Nobody answers there: who is refused for another reason was not asked."""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"baseline_url": A}, "--baseline-url is given, but no candidate"),
        ({"baseline_url": A, "candidate_serving": "kv-fp8"}, "but no candidate"),
        ({"candidate_url": A}, "--candidate-url is given, but no baseline"),
        ({"candidate_url": A, "candidate": "x", "baseline": "demo"}, "--candidate-url and --candidate both say"),
        ({"candidate_url": A, "candidate_serving": "kv-fp8", "baseline": "demo"}, "and --candidate-serving both say"),
        ({"baseline_url": A, "baseline": "demo", "candidate": "x"}, "--baseline-url and --baseline both say"),
        ({"baseline_url": A, "candidate_url": B, "serving": "kv-fp8"}, "--serving is given, but no side"),
        ({"baseline_url": A, "candidate": "x", "serving": "a", "candidate_serving": "b"}, "--serving is given, but no"),
        ({"candidate": "x", "declared": Path("sides.yaml")}, "--declared is given, but no side is an endpoint"),
        ({"baseline_url": A, "candidate_url": B, "load": True}, "load is put only on servers that the gate starts"),
        ({"candidate": "x", "slo": Path("slo.yaml")}, "--slo is given, but no load"),
        ({}, r"both sides are demo \(default\)"),
        ({"candidate": "demo", "candidate_serving": "default"}, r"both sides are demo \(default\)"),
        ({"baseline_url": "http://me:pw@here/v1", "candidate": "x"}, "holds a user, a query or a fragment"),
        ({"baseline_url": "", "candidate": "x"}, "is no http"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(
    given: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides.resolve, "run", lambda *_, **__: pytest.fail("a checkpoint was looked for"))
    with pytest.raises(UsageError, match=told) as refused:
        Comparison(CompareRequest(**given), Store(tmp_path), Silent())
    assert refused.value.exit_code == 2 and refused.value.remedy and "pw" not in refused.value.message


@pytest.mark.parametrize(
    "given",
    [
        {"baseline_url": A, "candidate_url": B, "declared": Path("absent.yaml")},
        {"baseline_url": A, "candidate": "x", "serving": "kv-fp8", "declared": Path("absent.yaml")},
        {"candidate_url": A, "baseline": "demo", "serving": "kv-fp8", "declared": Path("absent.yaml")},
        {"candidate": "x", "load": True, "slo": Path("absent.yaml")},
    ],
)
def test_what_makes_sense_comes_as_far_as_its_files(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.yaml: cannot read"):
        Comparison(CompareRequest(**given), Store(tmp_path), Silent())


def test_what_is_declared_of_a_checkpoint_is_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "sides.yaml").write_text("candidate: {weights: org/model@abc}\n", encoding="utf-8")
    request = CompareRequest(baseline_url=A, candidate="x", declared=tmp_path / "sides.yaml")
    with pytest.raises(UsageError, match="candidate is declared, but a checkpoint"):
        Comparison(request, Store(tmp_path), Silent())
