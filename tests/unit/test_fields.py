"""Which fields a message names: those of the part of the file that the fault lies in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from pipeline.comparing.declared import Declarations, load_declarations
from pipeline.errors import RecipeError, SettingsError
from pipeline.fields import known_fields
from pipeline.settings import GateSettings, SuiteSettings, load_gate, load_recipe

OF_A_SIDE = "model, weights, weight_bytes, engine, kv_cache_dtype, kv_tokens, flags"


class Part(BaseModel):
    one: int = 1
    two: int | None = None


class Whole(BaseModel):
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] | None = None
    choice: Part | int = 0


@pytest.mark.parametrize(
    ("model", "location", "told"),
    [
        (Declarations, ("nonsense",), "Known fields: baseline, candidate"),
        (Declarations, (), "Known fields: baseline, candidate"),
        (Declarations, ("baseline", "modle"), f"Known fields of baseline: {OF_A_SIDE}"),
        (Declarations, ("baseline", "modle", "deeper"), "Known fields: baseline, candidate"),
        (Whole, ("parts", 3, "x"), "Known fields of parts.3: one, two"),
        (Whole, ("named", "a", "x"), "Known fields of named.a: one, two"),
        (Whole, ("choice", "Part", "x"), "Known fields: parts, named, choice"),
        (Whole, ("absent", "x"), "Known fields: parts, named, choice"),
        (SuiteSettings, ("tasks", "mine", "x"), "Known fields of tasks.mine: task, metric, filter, interface, items"),
    ],
)
def test_fields_beside_a_fault(model: type[BaseModel], location: tuple[int | str, ...], told: str) -> None:
    assert known_fields(model, location) == told


def test_a_typo_in_a_declared_side_names_the_fields_of_a_side(tmp_path: Path) -> None:
    (tmp_path / "declared.yaml").write_text("baseline:\n  modle: x\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"declared.yaml:2: baseline.modle: ") as caught:
        load_declarations(tmp_path / "declared.yaml")
    assert caught.value.remedy == f"Known fields of baseline: {OF_A_SIDE}."


def test_a_typo_in_a_metric_of_a_policy_names_the_fields_of_a_metric(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("metrics:\n  policy_adherence: {gatting: true}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_gate(tmp_path / "gate.yaml")
    assert caught.value.remedy.startswith("Known fields of metrics.policy_adherence: gating, margin, floor")
    assert "metrics" in GateSettings.model_fields


def test_a_typo_in_a_recipes_calibration_names_the_fields_of_a_calibration(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(
        "backend: llmcompressor\nmethod: gptq\nscheme: W4A16\ncalibration: {sampels: 8}\n", encoding="utf-8"
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(tmp_path / "r.yaml"))
    assert caught.value.remedy.startswith("Known fields of calibration: samples, ")
