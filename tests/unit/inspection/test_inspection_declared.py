"""Declarations of other tools, read by the engine's rules: right ones give no finding, wrong ones are named."""

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
    PROJECTIONS,
    SCHEMES,
    Tensors,
    bf16,
    fp8_block,
    fp8_channel,
    fp8_tensor,
    gptq,
    gptq8,
    int4_group,
    llama,
    pack,
    quantize,
    value,
    write,
)
from inspecting import Inspect, named

from pipeline.inspection import Hardware, Severity, inspect_artifact
from pipeline.inspection.schemes import Scheme, scheme_named
from pipeline.settings import load_recipe

Candidate = Callable[..., Path]
SECOND = [module for module in PROJECTIONS if ".layers.1.mlp." in module]
OUT = "model.layers.0.self_attn.o_proj"
REST = [module for module in PROJECTIONS if module not in (*SECOND, OUT)]
DYNAMIC = {r"-:.*\.layers\.1\.mlp\..*": {}, r"+:.*\.layers\.0\.self_attn\.o_proj$": {"bits": 8}}
"""GPTQModel's rules: leave one block alone, and give one module other bits."""


# --- GPTQ --------------------------------------------------------------------------------------


def test_rules_by_module(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(quantize(llama(), gptq, REST), gptq8, [OUT])
    assert inspect(candidate("gptq", made, declared={"dynamic": DYNAMIC})) == ()
    assert {"scheme-coverage", "tensor-shape"} <= named(inspect(candidate("gptq", made)))


def test_modules_that_a_rule_leaves_stored_as_zeros(inspect: Inspect, candidate: Candidate) -> None:
    """GPTQModel #904: packed words of zeros where nothing was to be quantized."""
    made = quantize(quantize(llama(), gptq, REST), gptq8, [OUT])
    for module in SECOND:
        weight = made.pop(f"{module}.weight")
        made |= {
            f"{module}.{part}": (kind, np.zeros_like(stored)) for part, (kind, stored) in gptq(value(weight)).items()
        }
    found = inspect(candidate("gptq", made, declared={"dynamic": DYNAMIC}))
    assert "scheme-coverage" in named(found) and found[0].severity is Severity.FATAL


def test_the_parts_of_a_block_that_are_quantized(inspect: Inspect, candidate: Candidate) -> None:
    attention = [module for module in PROJECTIONS if "self_attn" in module]
    parts = {"modules_in_block_to_quantize": [["self_attn.q_proj", "self_attn.k_proj"], ["self_attn.v_proj"]]}
    made = quantize(llama(), gptq, [module for module in attention if "o_proj" not in module])
    assert inspect(candidate("gptq", made, declared=parts)) == ()
    # vLLM #25455: more is quantized than the list names, and the engine reads no weight for it.
    found = inspect(candidate("gptq", quantize(llama(), gptq, attention), declared=parts))
    assert [(f.check, f.figures["count"]) for f in found if f.severity is Severity.FATAL] == [("scheme-coverage", 2)]


def test_scales_below_zero_are_auto_rounds(inspect: Inspect, candidate: Candidate) -> None:
    def negative(weight: np.ndarray) -> Tensors:
        made = gptq(-weight)
        return made | {"scales": ("float16", -made["scales"][1])}

    made = quantize(llama(), negative)
    assert inspect(candidate("gptq", made, declared={"provider": "auto-round"})) == ()
    assert named(inspect(candidate("gptq", made))) == {"scale-value"}


# --- AutoAWQ and FP8 ---------------------------------------------------------------------------


def test_modules_that_awq_leaves(inspect: Inspect, candidate: Candidate) -> None:
    some = [module for module in PROJECTIONS if "down_proj" not in module]
    made = quantize(llama(), SCHEMES["awq"][0], some)
    assert inspect(candidate("awq", made, declared={"modules_to_not_convert": ["mlp.down_proj"]})) == ()
    assert "scheme-coverage" in named(inspect(candidate("awq", made)))


FP8: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
BLOCKS: dict[str, Any] = {**FP8, "weight_block_size": [32, 32]}


def declared(tensors: Tensors, folder: Path, declaration: dict[str, Any]) -> Path:
    return write(folder, tensors, {**CONFIG, "quantization_config": declaration})


def inverse_named(weight: np.ndarray) -> Tensors:
    """Blocks as DeepSeek stores them: the scale is called an inverse, and is what codes are multiplied by."""
    made = fp8_block(weight)
    return {"weight": made["weight"], "weight_scale_inv": made["weight_scale"]}


def test_fp8_per_tensor_and_in_blocks(inspect: Inspect, tmp_path: Path) -> None:
    whole = quantize(llama(), lambda weight: {n: t for n, t in fp8_tensor(weight).items() if n != "input_scale"})
    assert inspect(declared(whole, tmp_path / "whole", FP8)) == ()
    static = {**FP8, "activation_scheme": "static"}
    assert inspect(declared(quantize(llama(), fp8_tensor), tmp_path / "static", static)) == ()
    assert named(inspect(declared(whole, tmp_path / "unscaled", static))) == {"scale-missing"}
    blocks = quantize(llama(), inverse_named)
    assert inspect(declared(blocks, tmp_path / "blocks", BLOCKS)) == ()


def test_faults_of_fp8(inspect: Inspect, tmp_path: Path) -> None:
    module = "model.layers.1.self_attn.q_proj"
    made = quantize(llama(), inverse_named)
    kind, scale = made[f"{module}.weight_scale_inv"]
    upside_down = made | {f"{module}.weight_scale_inv": (kind, 1 / scale)}
    found = inspect(declared(upside_down, tmp_path / "upside_down", BLOCKS))
    assert [(f.check, f.where) for f in found] == [("weight-deviates", module)]
    turned = made | {f"{module}.weight_scale_inv": (kind, scale[:, ::-1].copy())}
    assert named(inspect(declared(turned, tmp_path / "turned", BLOCKS))) <= {"weight-deviates", "weight-rows"}
    assert named(inspect(declared(made, tmp_path / "whole", FP8))) == {"scale-shape"}
    ignoring = {**BLOCKS, "modules_to_not_convert": [module]}
    assert "scheme-coverage" in named(inspect(declared(made, tmp_path / "ignoring", ignoring)))


# --- what a recipe gives -----------------------------------------------------------------------


def intended(recipe: str, group: int | None = None) -> set[Scheme]:
    given = load_recipe(recipe)
    return {scheme_named(given.scheme, group, given.backend)}


@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [
        ("fp8", "fp8-dynamic"),
        ("fp8-static", "fp8-static"),
        ("int8", "int8-w8a8"),
        ("int4", "int4-gptq"),
        ("int4-asymmetric", "int4-awq"),
        ("awq", "int4-autoawq"),
    ],
)
def test_a_candidate_has_the_scheme_of_its_recipe(
    inspect: Inspect, candidate: Candidate, scheme: str, recipe: str
) -> None:
    folder = candidate(scheme)
    assert inspect(folder, intended=PROJECTIONS, intended_schemes=intended(recipe, GROUP)) == ()
    for other in {"fp8-dynamic", "fp8-static", "int8-w8a8", "int4-gptq", "int4-awq", "int4-autoawq"} - {recipe}:
        found = inspect(folder, intended=PROJECTIONS, intended_schemes=intended(other, GROUP))
        assert [(f.check, f.figures["count"]) for f in found] == [("recipe-scheme", len(PROJECTIONS))], other


def test_other_activations_than_the_recipes_are_a_warning(inspect: Inspect, candidate: Candidate) -> None:
    static = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    groups = json.loads(json.dumps(SCHEMES["fp8"][1]["config_groups"]))
    groups["group_0"]["input_activations"] = static
    scale = ("float32", np.array([0.02], np.float32))
    made = quantize(llama(), lambda weight: fp8_channel(weight) | {"input_scale": scale})
    found = inspect(
        candidate("fp8", made, declared={"config_groups": groups}), intended_schemes=intended("fp8-dynamic")
    )
    assert [(f.check, f.severity) for f in found] == [("recipe-scheme", Severity.WARNING)]


def test_groups_of_another_size_than_the_recipes(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(candidate("int4"), intended=PROJECTIONS, intended_schemes=intended("int4-gptq", 64))
    assert [f.check for f in found] == ["recipe-scheme"]
    both = intended("int4-gptq", GROUP) | intended("int8-w8a8")
    assert inspect(candidate("int4"), intended=PROJECTIONS, intended_schemes=both) == ()  # as in a mixed recipe


# --- modules that are best left ----------------------------------------------------------------

TOWER = "model.visual.blocks.0.attn.qkv"


def seeing() -> Tensors:
    return llama() | {f"{TOWER}.weight": bf16(0.05 * np.random.default_rng(8).normal(size=(3 * HIDDEN, HIDDEN)))}


def test_a_vision_tower_is_left_as_declared(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = write(tmp_path / "seeing", seeing(), CONFIG)
    ignoring = {"ignore": ["lm_head", "re:.*visual.*"]}
    assert inspect(candidate("int4", quantize(seeing(), int4_group), declared=ignoring), beside) == ()
    everything = quantize(seeing(), int4_group, [*PROJECTIONS, TOWER])
    found = inspect(candidate("int4", everything, declared=ignoring), beside)
    assert named(found) == {"scheme-coverage", "protected-quantized", "size"} and found[0].where == TOWER
    found = inspect(candidate("int4", everything), beside)
    assert [(f.check, f.where) for f in found] == [("protected-quantized", TOWER)]
    left = quantize(seeing(), int4_group)
    assert "scheme-coverage" in named(inspect(candidate("int4", left), beside))  # targeted, and not quantized


@pytest.mark.parametrize("module", ["model.embed_tokens", "model.layers.0.input_layernorm"])
def test_embeddings_and_norms_in_few_bits(inspect: Inspect, candidate: Candidate, module: str) -> None:
    weights = llama()
    stored = value(weights[f"{module}.weight"])
    parts = fp8_channel(stored.reshape(-1, HIDDEN))
    parts["weight"] = ("float8_e4m3fn", parts["weight"][1].reshape(stored.shape))
    made = quantize(weights, SCHEMES["fp8"][0]) | {f"{module}.{name}": part for name, part in parts.items()}
    found = inspect(candidate("fp8", made))
    assert "protected-quantized" in named(found)
    assert {f.where for f in found if f.check == "protected-quantized"} == {module}


def test_norms_cast_to_eight_bits_without_a_scale(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["fp8"][0])
    norm = made["model.norm.weight"]
    assert "scheme-dtype" in named(
        inspect(candidate("fp8", made | {"model.norm.weight": ("float8_e4m3fn", norm[1].astype(np.uint8))}))
    )


def test_a_kv_cache_that_a_target_cannot_keep(candidate: Candidate, baseline: Path, hardware: Hardware) -> None:
    """vLLM's Triton attention: "native FP8 requires SM89+"."""
    scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": True}}
    folder = candidate("int4", declared=scheme)

    def found(target: str) -> list[tuple[str, str]]:
        chosen = hardware.model_copy(update={"targets": [target]})
        return [(f.check, f.where) for f in inspect_artifact(folder, baseline, hardware_targets=chosen)]

    assert found("l4") == found("h100") == []
    assert found("a100-80") == [("kernel-missing", "a100-80")]


# --- packing -----------------------------------------------------------------------------------


def levels(weight: np.ndarray) -> tuple[np.ndarray, Tensors]:
    """Unsigned levels [rows, columns] of a symmetric INT4 weight, and its other parts."""
    grouped = weight.reshape(len(weight), -1, GROUP)
    scale = np.abs(grouped).max(2) / 7.5
    made = int4_group(weight)
    codes = np.clip(np.rint(grouped / scale[:, :, None]), -8, 7).reshape(weight.shape) + 8
    return codes.astype(np.uint32), {name: part for name, part in made.items() if name != "weight_packed"}


def test_levels_clamped_to_the_signed_half(inspect: Inspect, candidate: Candidate) -> None:
    """auto-round #2273: unsigned levels clamped at 7, so that the upper half of every group collapses."""
    module = "model.layers.0.mlp.up_proj"
    codes, rest = levels(value(llama()[f"{module}.weight"]))
    made = quantize(llama(), int4_group) | {f"{module}.{name}": part for name, part in rest.items()}
    whole = made | {f"{module}.weight_packed": ("int32", pack(codes, 4))}
    assert inspect(candidate("int4", whole)) == ()
    clamped = made | {f"{module}.weight_packed": ("int32", pack(np.minimum(codes, 7), 4))}
    assert [(f.check, f.where) for f in inspect(candidate("int4", clamped))] == [("weight-deviates", module)]


def test_levels_that_run_over_into_their_neighbor(inspect: Inspect, candidate: Candidate) -> None:
    """The same thread: a level of 16 sets the lowest bit of the next one and is read as 0 itself."""
    module = "model.layers.0.mlp.up_proj"
    codes, rest = levels(value(llama()[f"{module}.weight"]))
    over = np.where(codes == 15, 16, codes).reshape(len(codes), -1, 8).astype(np.uint64)
    words = np.bitwise_or.reduce(over << (4 * np.arange(8, dtype=np.uint64)), axis=2).astype(np.uint32).view(np.int32)
    made = quantize(llama(), int4_group) | {f"{module}.{name}": part for name, part in rest.items()}
    found = inspect(candidate("int4", made | {f"{module}.weight_packed": ("int32", words)}))
    assert [(f.check, f.where) for f in found] == [("weight-deviates", module)]


@pytest.mark.parametrize("scheme", ["int4", "gptq"])
def test_a_layer_whose_levels_are_all_the_middle(inspect: Inspect, candidate: Candidate, scheme: str) -> None:
    """llm-compressor #1765: words of 0x88888888 beside whole scales."""
    made = quantize(llama(), SCHEMES[scheme][0])
    name = f"{OUT}.{'qweight' if scheme == 'gptq' else 'weight_packed'}"
    kind, words = made[name]
    blank = np.full(words.shape, 0x88888888, np.uint32).view(np.int32)
    found = inspect(candidate(scheme, made | {name: (kind, blank)}))
    assert [(f.check, f.where) for f in found] == [("weight-deviates", OUT)]


def test_zero_points_that_were_not_saved(inspect: Inspect, candidate: Candidate) -> None:
    """compressed-tensors #225 (left out where all were zero), and AutoAWQ's."""
    made = quantize(llama(), SCHEMES["awq"][0])
    lacking = {name: tensor for name, tensor in made.items() if not name.endswith("qzeros")}
    assert named(inspect(candidate("awq", lacking))) == {"zero-point-missing"}
    narrow = {n: (k, s[:, :-1].copy()) if n.endswith("q_proj.qzeros") else (k, s) for n, (k, s) in made.items()}
    assert named(inspect(candidate("awq", narrow))) == {"zero-point-range"}


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json", "tokenizer.json"])
@pytest.mark.parametrize("text", ["{", "[]", "\x00\x01"])
def test_a_file_that_cannot_be_read(inspect: Inspect, candidate: Candidate, name: str, text: str) -> None:
    folder = candidate()
    (folder / name).write_text(text)
    found = inspect(folder)
    assert ("file-unreadable", Severity.FATAL) in {(f.check, f.severity) for f in found}


@pytest.mark.parametrize(
    ("name", "key", "value", "check"),
    [
        ("config.json", "quantization_config", "gptq", "scheme-unknown"),
        ("config.json", "quantization_config", [1], "scheme-unknown"),
        ("generation_config.json", "eos_token_id", "<|end|>", "file-unreadable"),
        ("generation_config.json", "eos_token_id", [2, None], "file-unreadable"),
        ("tokenizer.json", "truncation", "yes", "tokenizer-truncates"),
        ("tokenizer.json", "padding", {"strategy": {"Fixed": 512}}, "tokenizer-truncates"),
        ("tokenizer_config.json", "eos_token", {"a": 1}, "tokenizer-special"),
    ],
)
def test_values_of_another_kind_than_belongs_there(
    inspect: Inspect, candidate: Candidate, name: str, key: str, value: Any, check: str
) -> None:
    folder = candidate("gptq")
    held = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**held, key: value}))
    assert check in named(inspect(folder))


def test_a_rule_that_changes_a_scheme_to_none(inspect: Inspect, candidate: Candidate) -> None:
    found = inspect(candidate("gptq", declared={"dynamic": {"+:.*": "8 bits"}}))
    assert ("scheme-unknown", Severity.FATAL) in {(f.check, f.severity) for f in found}


def test_weights_of_another_format_beside_the_index(inspect: Inspect, candidate: Candidate) -> None:
    folder = candidate(files=3)
    first = folder / "model-00001-of-00003.safetensors"
    (folder / "consolidated.safetensors").write_bytes(first.read_bytes())
    assert [f.check for f in inspect(folder)] == ["weights-stray"]


def test_weights_left_in_32_bits(inspect: Inspect, candidate: Candidate) -> None:
    """Of the right values, but twice the size where nothing is quantized."""
    made = quantize(llama(), int4_group)
    wide = {
        name: ("float32", value(t)) if t[0] == "bfloat16" and "scale" not in name else t for name, t in made.items()
    }
    found = inspect(candidate("int4", wide))
    assert [(f.check, f.severity) for f in found] == [("size", Severity.WARNING)]


def test_tokenizer_lengths(inspect: Inspect, candidate: Candidate) -> None:
    """2,048 left by a calibration, and none at all."""
    folder = candidate()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for length in (2048, int(1e30)):
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": length}))
        assert named(inspect(folder)) == {"tokenizer-length"}


def test_joined_layers_with_other_scales_of_activations(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["fp8-static"][0])
    kind, scale = made["model.layers.0.mlp.up_proj.input_scale"]
    found = inspect(candidate("fp8-static", made | {"model.layers.0.mlp.up_proj.input_scale": (kind, scale * 2)}))
    assert [(f.check, f.severity) for f in found] == [("scale-fused", Severity.WARNING)]
    assert "gate_proj/up_proj" in found[0].where
