"""The proposed recipe: what it changes, and that its file is read back as it was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnosis.parts import Part, parts_of
from pipeline.diagnosis.proposal import as_yaml, eight_bit_scheme, propose
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import Calibration, EightBit, Recipe, load_recipe

PLAIN = Recipe(name="plain", description="", method="rtn", scheme="W4A16", group_size=32)
DOWN, ATTENTION = "model.layers.0.mlp.down_proj", "model.layers.10.self_attn.q_proj+k_proj+v_proj"


@pytest.fixture
def parts(baseline: Checkpoint, candidate: Checkpoint) -> list[Part]:
    return parts_of(fit_recipe(PLAIN, baseline), baseline, candidate, "W8A8")


def test_int4_is_built_on_the_mixed_recipe(parts: list[Part], baseline: Checkpoint, tmp_path: Path) -> None:
    made = propose(PLAIN, parts, {DOWN: "W8A8", ATTENTION: "full"}, "W8A8", keeps_kv=False)
    mixed = load_recipe("int4-mixed")
    assert (made.method, made.calibration, made.hardware) == (mixed.method, mixed.calibration, mixed.hardware)
    attention = tuple(f"model.layers.10.self_attn.{x}_proj" for x in "kqv")
    assert sorted(made.ignore) == sorted(("lm_head", *attention))
    assert made.eight_bit is not None and made.eight_bit.layers is None
    # o_proj of layer 3 has 8 bits already and keeps them.
    assert set(made.eight_bit.modules) == {DOWN, "model.layers.3.self_attn.o_proj"}
    file = tmp_path / "plain-next.yaml"
    file.write_text(as_yaml(made, "quant-gate diagnose"))
    assert load_recipe(str(file)) == made
    fit_recipe(made, baseline)  # q, k and v are named together, so the engine can multiply them as one


def test_eight_bits_become_sixteen_by_ignore(parts: list[Part]) -> None:
    recipe = load_recipe("fp8-dynamic")
    made = propose(recipe, parts, {DOWN: "full"}, "W8A8", keeps_kv=False)
    assert made.ignore == ("lm_head", DOWN)
    assert (made.method, made.scheme, made.eight_bit) == ("rtn", "FP8_DYNAMIC", None)


@pytest.mark.parametrize("name", ["int4-awq+fp8-kv", "fp8-dynamic+fp8-kv"])
def test_a_guilty_cache_is_given_up_and_nothing_else_changes(parts: list[Part], name: str) -> None:
    recipe = load_recipe(name)
    made = propose(recipe, parts, {}, "W8A8", keeps_kv=False)
    assert made.kv_cache is None
    assert (made.method, made.scheme, made.ignore) == (recipe.method, recipe.scheme, recipe.ignore)
    assert (made.calibration is None) == (recipe.method == "rtn")


def test_an_innocent_cache_stays(parts: list[Part]) -> None:
    made = propose(load_recipe("int4-awq+fp8-kv"), parts, {DOWN: "W8A8"}, "W8A8", keeps_kv=True)
    assert made.kv_cache == "FP8"
    # What the cache needs, not the 7.5 and 0.11.0 of int4-mixed: docs/recipes.md.
    assert made.hardware is not None
    assert (made.hardware.compute_capability, made.hardware.engine) == (8.9, "0.15.0")


def test_the_eight_bit_scheme_is_the_recipes_own() -> None:
    calibration = Calibration(samples=1, max_tokens=16)
    own = PLAIN.model_copy(
        update={"eight_bit": EightBit(scheme="FP8_DYNAMIC", modules=("x",)), "calibration": calibration}
    )
    assert (eight_bit_scheme(own), eight_bit_scheme(PLAIN)) == ("FP8_DYNAMIC", "W8A8")
