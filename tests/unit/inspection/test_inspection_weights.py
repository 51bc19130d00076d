"""Every way to break the weights of a checkpoint is named by its check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import (
    CONFIG,
    GROUP,
    HIDDEN,
    SCHEMES,
    Tensors,
    bf16,
    experts,
    int4_group,
    int8_channel,
    llama,
    quantize,
    smooth,
    value,
    write,
)
from inspecting import Inspect, named

from pipeline.inspection import Severity

Candidate = Callable[..., Path]
Q, K, OUT = (f"model.layers.1.self_attn.{name}_proj" for name in "qko")
GATE, UP, DOWN = (f"model.layers.0.mlp.{name}_proj" for name in ("gate", "up", "down"))


# --- scales and zero points --------------------------------------------------------------------


def scaled(tensors: Tensors, name: str, factor: Any, where: Any = ...) -> Tensors:
    """``tensors`` with a scale tensor multiplied, at some places."""
    stored = value(tensors[name]).copy()
    stored[where] *= factor
    kind = tensors[name][0]
    return tensors | {name: bf16(stored) if kind == "bfloat16" else (kind, stored.astype(tensors[name][1].dtype))}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("factor", [2.0, 0.5, 16.0])
def test_scales_off_by_a_factor(inspect: Inspect, candidate: Candidate, scheme: str, factor: float) -> None:
    made = quantize(llama(), SCHEMES[scheme][0])
    part = "scales" if f"{Q}.scales" in made else "weight_scale"
    found = inspect(candidate(scheme, scaled(made, f"{Q}.{part}", factor)))
    assert named(found) == {"weight-deviates"}
    assert (found[0].where, found[0].severity) == (Q, Severity.FATAL)
    assert f"off by a factor of about {factor:.2g}" in found[0].text


@pytest.mark.parametrize("scheme", ["fp8", "int8", "int4"])
@pytest.mark.parametrize("module", [DOWN, UP, Q])
@pytest.mark.parametrize("smoothed", [False, True])
def test_the_scale_of_one_row(inspect: Inspect, candidate: Candidate, scheme: str, module: str, smoothed: bool) -> None:
    weights = smooth(llama(), up_and_down=True) if smoothed else llama()
    made = quantize(weights, SCHEMES[scheme][0])
    found = inspect(candidate(scheme, scaled(made, f"{module}.weight_scale", 2.0, 5)))
    assert named(found) <= {"weight-rows", "weight-deviates"} and found
    assert {f.where for f in found} == {module}


@pytest.mark.parametrize("module", [DOWN, UP, Q])
def test_the_scale_of_one_group(inspect: Inspect, candidate: Candidate, module: str) -> None:
    made = quantize(llama(), int4_group)
    found = inspect(candidate("int4", scaled(made, f"{module}.weight_scale", 2.0, (5, 3))))
    assert named(found) == {"weight-rows"}
    assert (found[0].where, found[0].figures["groups"]) == (module, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
@pytest.mark.parametrize("scheme", ["fp8", "int4", "awq", "gptq"])
def test_scales_that_cannot_be(inspect: Inspect, candidate: Candidate, scheme: str, bad: float) -> None:
    made = quantize(llama(), SCHEMES[scheme][0])
    part = "scales" if f"{Q}.scales" in made else "weight_scale"
    found = inspect(candidate(scheme, scaled(made, f"{Q}.{part}", bad, (3, 0))))
    assert named(found) == {"scale-value"}
    assert "1 of" in found[0].text


def test_scales_of_another_strategy(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(candidate("fp8", quantize(llama(), SCHEMES["fp8-static"][0])))
    assert "scale-shape" in named(found)
    found = inspect(candidate("int4", declared=regrouped(64)))
    assert "scale-shape" in named(found)


def regrouped(size: int) -> dict[str, Any]:
    """The declaration of ``int4`` with another group size."""
    groups = json.loads(json.dumps(SCHEMES["int4"][1]["config_groups"]))
    groups["group_0"]["weights"]["group_size"] = size
    return {"config_groups": groups}


def test_missing_scales_and_zero_points(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["int4-asymmetric"][0])
    lacking = {n: t for n, t in made.items() if n != f"{K}.weight_zero_point"}
    assert named(inspect(candidate("int4-asymmetric", lacking))) == {"zero-point-missing"}
    lacking = {n: t for n, t in made.items() if n != f"{K}.weight_scale"}
    assert named(inspect(candidate("int4-asymmetric", lacking))) == {"scale-missing"}
    made = quantize(llama(), SCHEMES["fp8-static"][0])
    lacking = {n: t for n, t in made.items() if n != f"{K}.input_scale"}
    assert named(inspect(candidate("fp8-static", lacking))) == {"scale-missing"}


def test_an_input_scale_that_is_zero(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["fp8-static"][0])
    assert "scale-value" in named(inspect(candidate("fp8-static", scaled(made, f"{OUT}.input_scale", 0.0))))


def test_input_scales_that_differ_where_layers_are_joined(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["fp8-static"][0])
    found = inspect(candidate("fp8-static", scaled(made, f"{K}.input_scale", 3.0)))
    assert [(f.check, f.severity) for f in found] == [("scale-fused", Severity.WARNING)]


@pytest.mark.parametrize("scheme", ["awq", "int4-asymmetric"])
def test_zero_points_off_by_one(inspect: Inspect, candidate: Candidate, scheme: str) -> None:
    made = quantize(llama(), SCHEMES[scheme][0])
    part = "qzeros" if scheme == "awq" else "weight_zero_point"
    kind, stored = made[f"{GATE}.{part}"]
    nibbles = (stored.view(np.uint32)[..., None] >> np.arange(0, 32, 4).astype(np.uint32)) & 15
    more = np.minimum(nibbles + 1, 15)
    packed = (more << np.arange(0, 32, 4).astype(np.uint32)).sum(-1, dtype=np.uint32).view(np.int32)
    found = inspect(candidate(scheme, made | {f"{GATE}.{part}": (kind, packed)}))
    assert named(found) == {"weight-deviates"}
    assert "zero points seem to be off by one" in found[0].text


def test_zero_points_of_a_symmetric_scheme(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["gptq"][0])
    kind, stored = made[f"{Q}.qzeros"]
    found = inspect(candidate("gptq", made | {f"{Q}.qzeros": (kind, stored ^ 3)}))
    assert named(found) == {"zero-point-range"}


def test_zero_points_outside_of_four_bits(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["int4-asymmetric"][0])
    groups = made[f"{Q}.weight_scale"][1].shape
    wide = np.full(groups, 3, np.int8)
    wide[0, 0] = 99
    found = inspect(candidate("int4-asymmetric", made | {f"{Q}.weight_zero_point": ("int8", wide)}))
    assert named(found) == {"zero-point-range"}


def test_group_indices(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["gptq"][0])
    index = made[f"{Q}.g_idx"][1].copy()
    index[0] = 99
    assert named(inspect(candidate("gptq", made | {f"{Q}.g_idx": ("int32", index)}))) == {"group-index"}
    shuffled = np.random.default_rng(0).permutation(made[f"{Q}.g_idx"][1]).astype(np.int32)
    found = inspect(candidate("gptq", made | {f"{Q}.g_idx": ("int32", shuffled)}))
    assert named(found) == {"group-index"}


def test_activation_ordering_is_read_but_not_served(inspect: Inspect, candidate: Candidate) -> None:
    """Columns in another order of groups are put right; the engine no longer takes such checkpoints."""
    order = np.random.default_rng(0).permutation(HIDDEN)
    made = quantize(llama(), SCHEMES["gptq"][0])
    weight = value(llama()[f"{Q}.weight"])
    parts = SCHEMES["gptq"][0](weight[:, order])
    words = parts["qweight"][1].view(np.uint32)  # [columns / 8, rows], in the permuted order of columns
    columns = ((words[:, None, :] >> (4 * np.arange(8, dtype=np.uint32))[None, :, None]) & 15).reshape(HIDDEN, -1)
    natural = np.empty_like(columns)
    natural[order] = columns
    packed = sum(natural[n::8].astype(np.uint32) << np.uint32(4 * n) for n in range(8))
    index = np.empty(HIDDEN, np.int32)
    index[order] = np.arange(HIDDEN) // 32
    made |= {f"{Q}.{part}": stored for part, stored in parts.items()}
    made |= {f"{Q}.qweight": ("int32", np.asarray(packed).view(np.int32)), f"{Q}.g_idx": ("int32", index)}
    assert named(inspect(candidate("gptq", made, declared={"desc_act": True}))) == {"kernel-missing"}


def test_kv_cache_scales(inspect: Inspect, candidate: Candidate) -> None:
    scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}}
    found = inspect(candidate("fp8", declared=scheme))
    assert [(f.check, f.severity) for f in found] == [("scale-kv-cache", Severity.WARNING)]
    made = quantize(llama(), SCHEMES["fp8"][0])
    one = ("float32", np.array([0.0], np.float32))
    broken = made | {f"model.layers.{n}.self_attn.{kv}_scale": one for n in range(2) for kv in "kv"}
    found = inspect(candidate("fp8", broken, declared=scheme))
    assert [(f.check, f.severity) for f in found] == [("scale-kv-cache", Severity.FATAL)]
    fine = {
        n: ("float32", np.array([0.1], np.float32)) if n.endswith("v_scale") or n.endswith("k_scale") else t
        for n, t in broken.items()
    }
    assert inspect(candidate("fp8", fine, declared=scheme)) == ()
    assert named(inspect(candidate("fp8", fine))) == {"scale-kv-cache"}


# --- values ------------------------------------------------------------------------------------


def test_swapped_layers(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), int4_group)
    first, second = "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"
    parts = ("weight_packed", "weight_scale", "weight_shape")
    swapped = (
        made
        | {f"{first}.{p}": made[f"{second}.{p}"] for p in parts}
        | {f"{second}.{p}": made[f"{first}.{p}"] for p in parts}
    )
    found = inspect(candidate("int4", swapped))
    assert named(found) == {"weight-deviates"}
    assert "nothing in common" in found[0].text and "holds the weight of model.layers." in found[0].text


@pytest.mark.parametrize("scheme", ["fp8", "int8", "int4", "awq", "gptq"])
def test_another_models_weights(inspect: Inspect, candidate: Candidate, scheme: str) -> None:
    found = inspect(candidate(scheme, quantize(llama(seed=9), SCHEMES[scheme][0])))
    assert {"weight-deviates", "weight-altered"} <= named(found)


def test_a_transposed_or_permuted_weight(inspect: Inspect, candidate: Candidate) -> None:
    made = llama()
    made[f"{Q}.weight"] = bf16(value(made[f"{Q}.weight"]).T)
    assert named(inspect(candidate("int8", quantize(made, int8_channel)))) == {"weight-deviates"}
    made = quantize(llama(), SCHEMES["awq"][0])
    kind, words = made[f"{Q}.qweight"]
    swapped = ((words.view(np.uint32) >> 4) & 0x0F0F0F0F) | ((words.view(np.uint32) & 0x0F0F0F0F) << 4)
    found = inspect(candidate("awq", made | {f"{Q}.qweight": (kind, swapped.astype(np.uint32).view(np.int32))}))
    assert named(found) == {"weight-deviates"}


def test_weights_that_are_nan(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["fp8"][0])
    codes = made[f"{Q}.weight"][1].copy()
    codes[2, 2] = 0x7F
    found = inspect(candidate("fp8", made | {f"{Q}.weight": ("float8_e4m3fn", codes)}))
    assert named(found) == {"weight-nonfinite"}
    embed = value(made["model.embed_tokens.weight"]).copy()
    embed[4, 4] = np.inf
    found = inspect(candidate("fp8", made | {"model.embed_tokens.weight": bf16(embed)}))
    assert named(found) == {"weight-nonfinite"}


def test_an_expert_left_at_zero(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    """GPTQ sets the columns of an expert that saw no text to zero."""
    beside = write(tmp_path / "experts", experts(llama()), CONFIG)
    made = experts(llama())
    starved = "model.layers.0.mlp.experts.2.down_proj"
    modules = [n.removesuffix(".weight") for n in made if "_proj" in n]
    made[f"{starved}.weight"] = bf16(np.zeros_like(value(made[f"{starved}.weight"])) + 1e-8)
    found = inspect(candidate("int8", quantize(made, int8_channel, modules)), beside)
    assert named(found) == {"weight-deviates"} and found[0].where == starved


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"])
def test_unquantized_tensors_that_were_changed(inspect: Inspect, candidate: Candidate, name: str) -> None:
    made = quantize(llama(), int4_group)
    changed = value(made[name]) + 0.05 * np.random.default_rng(1).normal(size=made[name][1].shape)
    found = inspect(candidate("int4", made | {name: bf16(changed)}))
    wanted = {"model.embed_tokens.weight": "weight-altered", "model.norm.weight": "smoothing-broken"}
    assert named(found) == {wanted.get(name, "weight-deviates")}


# --- smoothing ---------------------------------------------------------------------------------


def test_a_norm_that_was_divided_alone(inspect: Inspect, candidate: Candidate) -> None:
    made, smoothed = llama(), smooth(llama())
    made["model.layers.0.input_layernorm.weight"] = smoothed["model.layers.0.input_layernorm.weight"]
    found = inspect(candidate("int8", quantize(made, int8_channel)))
    assert named(found) == {"smoothing-broken"}


def test_weights_that_were_multiplied_alone(inspect: Inspect, candidate: Candidate) -> None:
    made, smoothed = llama(), smooth(llama())
    for name in ("q", "k", "v"):
        made[f"model.layers.0.self_attn.{name}_proj.weight"] = smoothed[f"model.layers.0.self_attn.{name}_proj.weight"]
    assert named(inspect(candidate("int8", quantize(made, int8_channel)))) == {"weight-deviates"}
    made, smoothed = llama(), smooth(llama(), up_and_down=True)
    smoothed[f"{DOWN}.weight"] = made[f"{DOWN}.weight"]
    found = inspect(candidate("int8", quantize(smoothed, int8_channel)))
    assert named(found) == {"weight-deviates"} and found[0].where == UP


def test_a_router_that_was_not_scaled_with_its_norm(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    """SmoothQuant that maps the experts and forgets the router, or the reverse."""
    before = experts(llama())
    beside = write(tmp_path / "experts", before, CONFIG)
    norm = "model.layers.0.post_attention_layernorm.weight"
    factor = np.exp(np.random.default_rng(2).normal(0, 0.5, HIDDEN)).astype(np.float32)
    made = dict(before) | {norm: bf16(value(before[norm]) / factor)}
    fed = [n for n in before if "layers.0.mlp.experts" in n and "down" not in n]
    made |= {n: bf16(value(before[n]) * factor) for n in fed}
    modules = [n.removesuffix(".weight") for n in before if "_proj" in n]
    found = inspect(candidate("int8", quantize(made, int8_channel, modules)), beside)
    assert named(found) == {"smoothing-broken"}
    assert found[0].where == "model.layers.0.mlp.gate" and "router gates" in found[0].text
    router = "model.layers.0.mlp.gate.weight"
    other = dict(before) | {norm: made[norm], router: bf16(value(before[router]) * factor)}
    found = inspect(candidate("int8", quantize(other, int8_channel, modules)), beside)
    assert named(found) == {"smoothing-broken"} and found[0].figures["count"] == 8


def test_a_norm_with_an_offset_that_was_divided_without(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    config = {"model_type": "gemma2"}
    beside = write(tmp_path / "gemma", llama(), {**CONFIG, **config})
    found = inspect(candidate("int8", quantize(smooth(llama(), offset=0.0), int8_channel), config), beside)
    assert {"weight-deviates", "smoothing-broken"} & named(found)


def test_a_recipe_that_only_rounds_is_held_to_rounding(inspect: Inspect, candidate: Candidate) -> None:
    """Twice the error of rounding is what GPTQ does, and a fault where nothing but rounding was asked for."""
    step = np.abs(value(llama()[f"{Q}.weight"]).reshape(HIDDEN, -1, GROUP)).max(2).repeat(GROUP, 1) / 7.5
    moved = value(llama()[f"{Q}.weight"]) + np.random.default_rng(5).uniform(-0.9, 0.9, step.shape) * step
    made = quantize(llama(), int4_group) | {f"{Q}.{p}": t for p, t in int4_group(moved.astype(np.float32)).items()}
    folder = candidate("int4", made)
    assert inspect(folder) == ()
    assert [(f.check, f.where) for f in inspect(folder, rounded=True)] == [("weight-deviates", Q)]
    assert inspect(candidate("int4"), rounded=True) == ()


def outlier(weights: Tensors, factor: float) -> np.ndarray:
    """A layer's weight with one group of its row 3 times ``factor``."""
    made = value(weights[f"{DOWN}.weight"]).copy()
    made[3, :GROUP] *= factor
    return made


def test_what_gptq_moves_into_one_group_of_an_outlying_row(
    inspect: Inspect, candidate: Candidate, tmp_path: Path
) -> None:
    """A large error in one group is made up for in the others, which may hide what they were; scales are not moved."""
    before = llama() | {f"{DOWN}.weight": bf16(outlier(llama(), 10.0))}
    beside = write(tmp_path / "outlier", before, CONFIG)
    moved = value(before[f"{DOWN}.weight"]).copy()
    moved[3, 2 * GROUP : 3 * GROUP] = 0.05 * np.random.default_rng(3).normal(size=GROUP)
    made = quantize(before | {f"{DOWN}.weight": bf16(moved)}, int4_group)
    folder = candidate("int4", made)
    assert inspect(folder, beside) == ()
    assert [(f.check, f.where) for f in inspect(folder, beside, rounded=True)] == [("weight-rows", DOWN)]
    for group, factor in ((1, 2.0), (1, 0.4), (0, 2.0), (1, 0.0001)):
        wrong = scaled(made, f"{DOWN}.weight_scale", factor, (3, group))
        found = inspect(candidate("int4", wrong), beside)
        assert [(f.check, f.where) for f in found] == [("weight-rows", DOWN)], (group, factor)


@pytest.mark.parametrize("scheme", ["fp8", "int8", "int4", "awq", "gptq"])
@pytest.mark.parametrize("module", [DOWN, Q])
def test_one_row_of_something_else(inspect: Inspect, candidate: Candidate, scheme: str, module: str) -> None:
    wrong = value(llama()[f"{module}.weight"]).copy()
    wrong[5] = wrong[6]
    made = quantize(llama() | {f"{module}.weight": bf16(wrong)}, SCHEMES[scheme][0])
    found = inspect(candidate(scheme, made))
    assert [(f.check, f.where) for f in found] == [("weight-rows", module)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("module", [DOWN, Q])
def test_scales_of_the_neighbours(inspect: Inspect, candidate: Candidate, axis: int, module: str) -> None:
    """Errors that GPTQ makes as well, but by gains that it leaves alone."""
    made = quantize(llama(), int4_group)
    shifted = np.roll(value(made[f"{module}.weight_scale"]), 1, axis=axis)
    found = inspect(candidate("int4", made | {f"{module}.weight_scale": bf16(shifted)}))
    assert [(f.check, f.where) for f in found] == [("weight-deviates", module)]
    assert "scales of their groups are not their own" in found[0].text
