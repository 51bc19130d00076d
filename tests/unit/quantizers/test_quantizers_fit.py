"""Fitting recipes to checkpoints by headers alone."""

from __future__ import annotations

import numpy
import pytest
from tiny_llama import MakeCheckpoint, llama_tensors

from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.quantizers.fit import FittedRecipe, fit_recipe
from pipeline.settings import Calibration, Recipe, load_recipe

PROJECTIONS = {
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
}


def recipe(scheme: str = "W4A16", group_size: int | str | None = "auto", **more: object) -> Recipe:
    facts = {"name": "r", "description": "", "method": "rtn", "scheme": scheme, "group_size": group_size}
    return Recipe.model_validate(facts | more)


def fit(make: MakeCheckpoint, wanted: Recipe, **tensors: object) -> FittedRecipe:
    folder = make(**tensors)
    return fit_recipe(wanted, read_checkpoint(folder, "x"))


def test_projections_of_every_layer_and_nothing_else(make_checkpoint: MakeCheckpoint) -> None:
    fitted = fit(make_checkpoint, recipe())
    assert set(fitted.modules) == {f"model.layers.{n}.{p}" for n in (0, 1) for p in PROJECTIONS}


# 192 = 128 * 1.5 = 64 * 3 and 320 = 64 * 5, so 64; 576 = 64 * 9 and 1536 = 128 * 12 (SmolLM2), so 64;
# 160 = 32 * 5, so 32; 128 and 256, so 128.
@pytest.mark.parametrize(
    ("hidden", "inner", "size"), [(192, 320, 64), (576, 1536, 64), (160, 320, 32), (128, 256, 128)]
)
def test_auto_takes_the_largest_group_that_divides_all(
    make_checkpoint: MakeCheckpoint, hidden: int, inner: int, size: int
) -> None:
    assert fit(make_checkpoint, recipe(), tensors=llama_tensors(1, hidden, inner)).group_size == size


def test_misfit_names_the_layers_once_for_all_numbers(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError) as raised:
        fit(make_checkpoint, recipe(group_size=128), tensors=llama_tensors(3, 256, 320))
    # 256 is a multiple of 128, 320 is not: of all projections only down_proj reads 320 columns.
    assert raised.value.message.splitlines()[1:] == ["  model.layers.*.mlp.down_proj (in=320)"]
    assert "64, 32" in raised.value.remedy


def test_auto_that_finds_none_says_which_layers_to_leave(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match=r"down_proj \(in=100\)") as raised:
        fit(make_checkpoint, recipe(), tensors=llama_tensors(1, 128, 100))
    assert "ignore" in raised.value.remedy
    left = recipe(ignore=("lm_head", "re:.*down_proj$"))
    assert fit(lambda **k: make_checkpoint("again", **k), left, tensors=llama_tensors(1, 128, 100)).group_size == 128


def test_ignore_by_name_and_by_pattern(make_checkpoint: MakeCheckpoint) -> None:
    wanted = recipe(ignore=("lm_head", "model.layers.0.mlp.up_proj", r"re:.*layers\.1\..*"))
    fitted = fit(make_checkpoint, wanted)
    assert set(fitted.modules) == {f"model.layers.0.{p}" for p in PROJECTIONS - {"mlp.up_proj"}}


def test_output_head_is_quantized_unless_ignored(make_checkpoint: MakeCheckpoint) -> None:
    assert "lm_head" in fit(make_checkpoint, recipe(ignore=())).modules


def test_ignoring_everything_is_an_error(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match="nothing to quantize"):
        fit(make_checkpoint, recipe(ignore=("re:.*",)))


def test_broken_pattern_is_an_error(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match="not a regular expression"):
        fit(make_checkpoint, recipe(ignore=("re:(",)))


def test_routers_are_left_alone(make_checkpoint: MakeCheckpoint) -> None:
    tensors = llama_tensors(1) | {
        "model.layers.0.mlp.gate.weight": numpy.zeros((8, 192), numpy.float16),
        "model.layers.0.mlp.experts.3.down_proj.weight": numpy.zeros((192, 64), numpy.float16),
    }
    fitted = fit(make_checkpoint, recipe(), tensors=tensors)
    assert "model.layers.0.mlp.experts.3.down_proj" in fitted.modules
    assert "model.layers.0.mlp.gate_proj" in fitted.modules
    assert "model.layers.0.mlp.gate" not in fitted.modules
    assert fitted.ignore == ("lm_head", r"re:model\.layers\.\d+\.mlp\.gate$")


# By hand, one layer of hidden 128, inner 256, keys 64, 16-bit, vocabulary 48:
#   linear weights 2*128*128 + 2*64*128 + 2*256*128 + 128*256 = 147,456; rows 2*128+2*64+2*256+128 = 1,024
#   the rest 2 * (2*48*128 + 3*128) = 25,344 bytes
#   8 bit: 147,456 + 2 bytes a row = 149,504; 4 bit g128: 147,456/2 + 2 bytes * 147,456/128 + 7*16 = 76,144
@pytest.mark.parametrize(
    ("scheme", "group", "linear"), [("FP8_DYNAMIC", None, 149_504), ("W8A8", None, 149_504), ("W4A16", 128, 76_144)]
)
def test_predicted_bytes(make_checkpoint: MakeCheckpoint, scheme: str, group: int | None, linear: int) -> None:
    fitted = fit(make_checkpoint, recipe(scheme, group), tensors=llama_tensors(1, 128, 256))
    assert fitted.predicted_bytes == linear + 25_344


def test_inputs_leave_out_prose_and_keep_what_matters(make_checkpoint: MakeCheckpoint) -> None:
    checkpoint = read_checkpoint(make_checkpoint(), "x")
    plain = fit_recipe(recipe(), checkpoint).inputs()
    assert fit_recipe(recipe(group_size=64, name="other", description="words"), checkpoint).inputs() == plain
    assert fit_recipe(recipe(group_size=32), checkpoint).inputs() != plain
    samples = Calibration(samples=2, max_tokens=64)
    calibrated = fit_recipe(recipe(method="gptq", calibration=samples), checkpoint).inputs()
    assert calibrated["calibration"] == {"samples": 2, "max_tokens": 64}


@pytest.mark.parametrize("name", ["fp8-dynamic", "int8-w8a8", "int4-gptq", "int4-rtn"])
def test_shipped_recipes_fit_a_llama(make_checkpoint: MakeCheckpoint, name: str) -> None:
    assert len(fit(make_checkpoint, load_recipe(name)).modules) == 14
