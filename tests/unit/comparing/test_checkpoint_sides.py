"""Comparisons of checkpoints that are there already: when weights are held against each other, and when not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate_fakes import FakeMachine, write_checkpoint

from pipeline.comparing import comparing, sides
from pipeline.comparing.comparing import CompareRequest, compare
from pipeline.errors import UsageError
from pipeline.progress import Silent
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.store import Store

CONFIG = json.dumps({"quantization_config": {"quant_method": "fp8"}})


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the inspection is asked; checkpoints are named ``bf16``, ``fp8``, ``tuned`` and ``int4``, ``again``."""
    machine, asked = FakeMachine(), []
    machine.install(monkeypatch)

    def look(*_: object, **settings: Any) -> tuple[()]:
        asked.append(settings)
        return ()

    def found(model: str, *_: object) -> Checkpoint:
        content = {"again": "bf16"}.get(model, model)
        weight_bytes = {"bf16": 1000, "tuned": 990, "fp8": 500, "int4": 300}[content]
        digest = write_checkpoint(tmp_path / model, content, weight_bytes)
        if content in ("fp8", "int4"):
            (tmp_path / model / "config.json").write_text(CONFIG, encoding="utf-8")
        return Checkpoint(tmp_path / model, model, None, digest, weight_bytes, "FakeForCausalLM", "template")

    monkeypatch.setattr(comparing.inspect, "look", look)
    monkeypatch.setattr(sides, "_checkpoint", found)
    monkeypatch.setattr(sides, "make_plan", machine.plan)
    return asked


@pytest.mark.parametrize(
    ("baseline", "candidate", "held", "why"),
    [
        ("bf16", "int4", True, ""),
        ("fp8", "int4", False, "the baseline is quantized as well"),
        ("fp8", "tuned", False, "the baseline is quantized as well"),
        ("bf16", "tuned", False, "the candidate is not quantized"),
    ],
)
def test_weights_are_held_against_each_other_where_they_are_the_same_in_16_bits(
    baseline: str,
    candidate: str,
    held: bool,
    why: str,
    golden: dict[str, Any],
    looks: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    request = CompareRequest(baseline=baseline, candidate=candidate, **golden)
    decision = compare(request, Store(tmp_path / "home"), Silent()).decision
    assert [look["weights"] for look in looks] == [held]
    told = [line for line in decision["conditions"] if "not compared value by value" in line]
    assert [why in line for line in told] == ([] if held else [True])
    assert not any("no load is" in line or "load is put on no endpoint" in line for line in decision["conditions"])
    if candidate == "int4":
        assert decision["verdict"] == "ACCEPT"


def test_one_checkpoint_under_two_names_is_not_compared(
    golden: dict[str, Any], looks: list[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"both sides are bf16 \(default\)"):
        compare(CompareRequest(baseline="bf16", candidate="again", **golden), Store(tmp_path / "home"), Silent())
    assert looks == []
