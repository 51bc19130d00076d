"""Fitting recipes to checkpoints by headers alone."""

from __future__ import annotations

import numpy
import pytest
from tiny_llama import MakeCheckpoint, llama_tensors

from pipeline.errors import RecipeError
from pipeline.quantizers.checkpoint import read_checkpoint
from pipeline.quantizers.fit import FittedRecipe, fit_recipe
from pipeline.settings import CONFIGS, Calibration, Recipe, load_recipe

SOME = {"samples": 8, "max_tokens": 64}
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
    wanted = recipe(ignore=("lm_head", "model.layers.0.mlp.down_proj", r"re:.*layers\.1\..*"))
    fitted = fit(make_checkpoint, wanted)
    assert set(fitted.modules) == {f"model.layers.0.{p}" for p in PROJECTIONS - {"mlp.down_proj"}}


@pytest.mark.parametrize("rule", ["nosuch", ".*", "", "down_proj", "re:down_proj", r"re:.*\.mlp\.gate$"])
def test_ignoring_what_is_not_there_is_an_error(make_checkpoint: MakeCheckpoint, rule: str) -> None:
    with pytest.raises(RecipeError) as raised:
        fit(make_checkpoint, recipe(ignore=("lm_head", rule)))
    assert raised.value.message == f"recipe r: ignore: {rule!r} matches no module of the model"
    assert "re:" in raised.value.remedy


@pytest.mark.parametrize("rule", ["lm_head", "re:.*lm_head", "model.embed_tokens", r"re:.*layers\.0\.mlp\..*"])
def test_heads_that_are_tied_and_whatever_is_stored_can_be_ignored(make_checkpoint: MakeCheckpoint, rule: str) -> None:
    tied = {name: tensor for name, tensor in llama_tensors(2).items() if not name.startswith("lm_head")}
    assert fit(make_checkpoint, recipe(ignore=(rule,)), tensors=tied).modules


def test_what_the_engine_joins_is_ignored_as_one(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match=r"ignore names model\.layers\.0\..*q_proj without .*k_proj, .*v_proj"):
        fit(make_checkpoint, recipe(ignore=("lm_head", "re:.*q_proj")))
    whole = recipe(ignore=("lm_head", "re:.*[qkv]_proj$", r"re:.*\.0\.mlp\.(gate|up)_proj"))
    assert len(fit(lambda **k: make_checkpoint("b", **k), whole).modules) == 2 * 7 - 2 * 3 - 2


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
#   8 bit: 147,456 + 2 bytes a row = 149,504; with one scale a tensor and one for its input: 147,456 + 7*2*2 = 147,484
#   blocks of 128: 1 (q) + 1 (k) + 1 (v) + 1 (o) + 2 (gate) + 2 (up) + 2 (down) = 10 scales: 147,476
#   4 bit g128: 147,456/2 + 2 bytes * 147,456/128 + 7*16 = 76,144; zero points 147,456/128/2 = 576 more
#   AutoAWQ: the same without the seven shapes: 76,144 + 576 - 112 = 76,608
@pytest.mark.parametrize(
    ("scheme", "group", "more", "linear"),
    [
        ("FP8_DYNAMIC", None, {}, 149_504),
        ("W8A8", None, {}, 149_504),
        ("FP8", None, {"calibration": SOME}, 147_484),
        ("W4A16", 128, {}, 76_144),
        ("W4A16_ASYM", 128, {}, 76_720),
        ("W4A16_ASYM", 128, {"method": "awq", "calibration": SOME}, 76_720),
        ("W4A16_ASYM", 128, {"method": "awq", "calibration": SOME, "backend": "autoawq"}, 76_608),
        (
            "FP8_DYNAMIC",
            None,
            {"kv_cache": "FP8", "calibration": SOME},
            149_504 + 4,
        ),  # a scale for keys, one for values
    ],
)
def test_predicted_bytes(
    make_checkpoint: MakeCheckpoint, scheme: str, group: int | None, more: dict[str, object], linear: int
) -> None:
    fitted = fit(make_checkpoint, recipe(scheme, group, **more), tensors=llama_tensors(1, 128, 256))
    assert fitted.predicted_bytes == linear + 25_344


def test_predicted_bytes_of_blocks(make_checkpoint: MakeCheckpoint) -> None:
    tensors = llama_tensors(1, 128, 256)
    for name in ("k_proj", "v_proj"):  # 128 rows instead of 64: 16,384 bytes more, and still one scale each
        tensors[f"model.layers.0.self_attn.{name}.weight"] = numpy.zeros((128, 128), numpy.float16)
    fitted = fit(make_checkpoint, recipe("FP8_BLOCK", None), tensors=tensors)
    assert fitted.predicted_bytes == 147_456 + 16_384 + 10 * 2 + 25_344


def test_blocks_that_would_reach_into_the_next_module_are_refused(make_checkpoint: MakeCheckpoint) -> None:
    """vLLM joins q, k, v and gate, up; the last of each may have a broken block, the others not."""
    with pytest.raises(RecipeError) as raised:
        fit(make_checkpoint, recipe("FP8_BLOCK", None), tensors=llama_tensors(2, 192, 320))
    assert raised.value.message.splitlines()[1:] == [
        "  model.layers.*.mlp.gate_proj (out=320)",
        "  model.layers.*.self_attn.k_proj (out=64)",
        "  model.layers.*.self_attn.q_proj (out=192)",
    ]
    assert "fp8-dynamic" in raised.value.remedy


def mixed(**part: object) -> Recipe:
    return recipe(group_size=128, eight_bit={"scheme": "W8A8", **part}, calibration=SOME if "layers" in part else None)


def test_named_modules_stay_at_8_bits(make_checkpoint: MakeCheckpoint) -> None:
    wanted = mixed(modules=[r"re:.*\.0\.mlp\.(gate|up)_proj$", "model.layers.1.mlp.down_proj"])
    fitted = fit(make_checkpoint, wanted, tensors=llama_tensors(2, 128, 256))
    assert fitted.eight_bit == (
        "model.layers.0.mlp.gate_proj",
        "model.layers.0.mlp.up_proj",
        "model.layers.1.mlp.down_proj",
    )
    # Each of the three has 256 * 128 weights: one byte each and 2 a row, instead of half a byte, 2 a group of 128
    # and the shape: rows 256, 256, 128 and groups 256 in each.
    eight, four = 3 * 32_768 + 2 * 640, 3 * (16_384 + 2 * 256 + 16)
    plain = fit_recipe(recipe(group_size=128), read_checkpoint(make_checkpoint("b", llama_tensors(2, 128, 256)), "b"))
    assert fitted.predicted_bytes == plain.predicted_bytes + eight - four


def test_a_pattern_that_names_nothing_is_refused(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match=r"eight_bit\.modules: 'lm_head' matches no quantized module"):
        fit(make_checkpoint, mixed(modules=["lm_head"]), tensors=llama_tensors(1, 128, 256))


def test_modules_that_the_engine_joins_need_one_scheme(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(RecipeError, match=r"names model\.layers\.0\.self_attn\.k_proj without .*\.q_proj, .*v_proj"):
        fit(make_checkpoint, mixed(modules=["re:.*k_proj"]), tensors=llama_tensors(1, 128, 256))


def test_layers_to_be_found_are_counted_before(make_checkpoint: MakeCheckpoint) -> None:
    fitted = fit(make_checkpoint, mixed(layers=1), tensors=llama_tensors(2, 128, 256))
    assert fitted.eight_bit == ()
    assert sorted(fitted.layers()) == ["model.layers.0", "model.layers.1"]
    assert len(fitted.layers()["model.layers.0"]) == 7
    assert fitted.predicted_bytes == 149_504 + 76_144 + 25_344 + 2 * 2 * 128  # the second layer's two norms
    with pytest.raises(RecipeError, match=r"eight_bit\.layers is 2, but the model has 2 layers"):
        fit(lambda **k: make_checkpoint("b", **k), mixed(layers=2), tensors=llama_tensors(2, 128, 256))


def test_enough_text_follows_the_widest_layer(make_checkpoint: MakeCheckpoint) -> None:
    wanted = {"samples": 256, "max_tokens": 1024, "tokens_per_input": 24}
    fitted = fit(make_checkpoint, recipe(method="gptq", calibration=wanted), tensors=llama_tensors(1, 192, 320))
    assert fitted.enough_tokens == 24 * 320
    left = recipe(method="gptq", calibration=wanted, ignore=("re:.*down_proj", "lm_head"))
    assert fit(lambda **k: make_checkpoint("b", **k), left).enough_tokens == 24 * 192
    assert fit(lambda **k: make_checkpoint("c", **k), recipe()).enough_tokens is None


def test_inputs_leave_out_prose_and_keep_what_matters(make_checkpoint: MakeCheckpoint) -> None:
    checkpoint = read_checkpoint(make_checkpoint(), "x")
    plain = fit_recipe(recipe(), checkpoint).inputs()
    assert fit_recipe(recipe(group_size=64, name="other", description="words"), checkpoint).inputs() == plain
    assert fit_recipe(recipe(group_size=32), checkpoint).inputs() != plain
    samples = Calibration(samples=2, max_tokens=64)
    calibrated = fit_recipe(recipe(method="gptq", calibration=samples), checkpoint).inputs()
    assert calibrated["calibration"] == {
        "samples": 2,
        "max_tokens": 64,
        "tokens_per_input": None,
        "search_samples": 4,
    }
    assert not {"name", "description", "deprecated", "hardware"} & set(calibrated)


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIGS / "recipes").glob("*.yaml")))
def test_shipped_recipes_fit_a_llama(make_checkpoint: MakeCheckpoint, name: str) -> None:
    tensors = llama_tensors(6, 256, 384)
    for layer in range(6):  # 128 rows, of which FP8_BLOCK makes one block
        for part in ("k_proj", "v_proj"):
            tensors[f"model.layers.{layer}.self_attn.{part}.weight"] = numpy.zeros((128, 256), numpy.float16)
    fitted = fit(make_checkpoint, load_recipe(name), tensors=tensors)
    assert len(fitted.modules) == 6 * 7
    assert fitted.group_size in (None, 128)


@pytest.mark.parametrize("name", ["int4-gptq", "int4-awq", "int4-autoawq", "int8-w8a8", "fp8-static"])
def test_shipped_recipes_fit_the_embedded_model(make_checkpoint: MakeCheckpoint, name: str) -> None:
    tensors = llama_tensors(1, 576, 1536)
    fitted = fit(make_checkpoint, load_recipe(name), tensors=tensors)
    assert fitted.group_size in (None, 64)
