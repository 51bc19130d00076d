"""The parts of a candidate, their order and their bytes, against hand calculations."""

from __future__ import annotations

import pytest

from pipeline.diagnosis.parts import layers_of, parts_of
from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import Checkpoint
from pipeline.quantizers.fit import fit_recipe
from pipeline.settings import Calibration, Recipe

RECIPE = Recipe(name="r", description="", method="rtn", scheme="W4A16", group_size=32)


def test_parts_are_what_the_engine_multiplies_as_one(baseline: Checkpoint, candidate: Checkpoint) -> None:
    fitted = fit_recipe(RECIPE, baseline)
    assert layers_of(fitted, baseline) == [f"model.layers.{n}" for n in range(11)]
    parts = parts_of(fitted, baseline, candidate, "W8A8")
    assert [part.layer for part in parts] == [n for n in range(11) for _ in range(4)]
    kinds = ["mlp.down_proj", "mlp.gate_proj+up_proj", "self_attn.o_proj", "self_attn.q_proj+k_proj+v_proj"]
    assert [part.kind for part in parts[-4:]] == kinds
    attention = parts[-1]
    assert attention.name == "model.layers.10.self_attn.q_proj+k_proj+v_proj"
    assert set(attention.modules) == {f"model.layers.10.self_attn.{x}_proj" for x in "qkv"}
    assert attention.plain == ()


def test_bytes_that_a_promotion_adds(baseline: Checkpoint, candidate: Checkpoint) -> None:
    parts = {part.name: part for part in parts_of(fit_recipe(RECIPE, baseline), baseline, candidate, "W8A8")}
    down = parts["model.layers.0.mlp.down_proj"]
    # 64 x 128 weights. INT4: 4,096 bytes, 64 x 4 scales of 2 bytes, 16 of shape. INT8: 8,192 and 64 scales of 2.
    held = 4096 + 512 + 16
    assert (down.bits, down.extra_8, down.extra_16) == (4, 8192 + 128 - held, 16384 - held)
    kept = parts["model.layers.3.self_attn.o_proj"]
    assert (kept.bits, kept.extra_8, kept.extra_16) == (8, None, 8192 - (4096 + 128))


def test_smoothed_layers_stay_whole_with_their_norms(baseline: Checkpoint, candidate: Checkpoint) -> None:
    calibration = Calibration(samples=1, max_tokens=16)
    recipe = RECIPE.model_copy(update={"method": "awq", "calibration": calibration})
    parts = parts_of(fit_recipe(recipe, baseline), baseline, candidate, "W8A8")
    assert [part.name for part in parts] == [f"model.layers.{n}" for n in range(11)]
    assert parts[2].plain == ("model.layers.2.input_layernorm.weight",)
    assert len(parts[2].modules) == 7


def test_a_recipe_of_no_decoder_layer_is_refused(baseline: Checkpoint) -> None:
    fitted = fit_recipe(RECIPE, baseline)
    other = type(fitted)(RECIPE, 32, (), ("lm_head",), (), None, 0)
    with pytest.raises(RecipeError, match="decoder layers"):
        layers_of(other, baseline)
