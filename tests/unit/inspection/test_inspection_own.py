"""A candidate beside a baseline of other weights: quantized itself, or tuned. What it is by itself counts.

And what both must share: the same tensors, in the same shapes, of like magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoints import (
    CONFIG,
    GROUP,
    SCHEMES,
    Tensors,
    bf16,
    experts,
    int4_group,
    joined,
    llama,
    quantize,
    value,
    write,
)
from inspecting import Inspect, named

MODULE = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def eight_bits(tmp_path: Path) -> Path:
    """The same llama in FP8, as a baseline."""
    how, declared = SCHEMES["fp8"]
    return write(tmp_path / "fp8", quantize(llama(), how), {**CONFIG, "quantization_config": declared})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sound_candidate_beside_a_quantized_baseline(
    scheme: str, candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect
) -> None:
    folder = candidate(scheme)
    assert inspect(folder, eight_bits, weights=False) == ()
    if scheme != "fp8":
        assert {"tensor-missing", "weight-deviates"} & named(
            inspect(folder, eight_bits)
        )  # why it is not held against it


def test_a_candidate_in_16_bits_and_of_other_weights(tmp_path: Path, eight_bits: Path, inspect: Inspect) -> None:
    tuned = write(tmp_path / "tuned", llama(seed=1), CONFIG)
    assert inspect(tuned, eight_bits, weights=False) == ()
    assert "scheme-missing" in named(inspect(tuned))
    lost = write(tmp_path / "lost", quantize(llama(), int4_group), CONFIG)
    assert "scheme-missing" in named(inspect(lost, eight_bits, weights=False))


def test_its_own_scales_are_looked_at(candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect) -> None:
    made = quantize(llama(), int4_group)
    scales = value(made[f"{MODULE}.weight_scale"])
    scales[0, 0] = np.nan
    made[f"{MODULE}.weight_scale"] = bf16(scales)
    (found,) = inspect(candidate("int4", made), eight_bits, weights=False)
    assert (found.check, found.where) == ("scale-value", MODULE)
    assert "1 of " in found.text and found.severity.value == "fatal"


def test_scales_of_other_groups_than_declared(
    candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect
) -> None:
    made = quantize(llama(), int4_group)
    made[f"{MODULE}.weight_scale"] = bf16(value(made[f"{MODULE}.weight_scale"])[:, ::2])  # of groups twice as large
    (found,) = inspect(candidate("int4", made), eight_bits, weights=False)
    assert found.check == "scale-shape" and f"needs [128, {128 // GROUP}]" in found.text


def test_another_layout_than_declared(candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect) -> None:
    found = named(inspect(candidate("int4", quantize(llama(), SCHEMES["fp8"][0])), eight_bits, weights=False))
    assert "scheme-dtype" in found and "tensor-missing" not in found


def test_a_module_that_the_declaration_targets_and_nobody_quantized(
    candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect
) -> None:
    made = quantize(llama(), int4_group)
    for part in [name for name in made if name.startswith(f"{MODULE}.")]:
        del made[part]
    made[f"{MODULE}.weight"] = llama()[f"{MODULE}.weight"]
    assert "scheme-coverage" in named(inspect(candidate("int4", made), eight_bits, weights=False))


def test_what_both_sides_share_is_compared(candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect) -> None:
    folder = candidate("int4", config={"rope_theta": 500000.0})
    (folder / "tokenizer_config.json").unlink()
    found = named(inspect(folder, eight_bits, weights=False))
    assert {"config-differs", "tokenizer-missing"} <= found


def test_a_rule_that_is_no_expression_is_no_all_clear(
    candidate: Callable[..., Path], eight_bits: Path, inspect: Inspect
) -> None:
    found = inspect(candidate("int4", declared={"ignore": ["re:("]}), eight_bits, weights=False)
    assert [f.severity.value for f in found if f.check == "scheme-unknown"] == ["fatal"]


# --- what both must share ----------------------------------------------------------------------

DOWN = "model.layers.1.mlp.down_proj"
Damage = Callable[[Tensors], None]
Sides = Callable[..., tuple[Path, Path]]


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    """Writes candidate and baseline in two schemes (None: 16 bits), the candidate damaged."""

    def make(scheme: str | None, other: str | None, damage: Damage = lambda made: None) -> tuple[Path, Path]:
        folders = []
        for name, how in (("candidate", scheme), ("beside", other)):
            tensors = llama(seed=1 if name == "candidate" and how is None else 0)
            made = quantize(tensors, SCHEMES[how][0], projected(tensors)) if how else dict(tensors)
            if name == "candidate":
                damage(made)
            declared = {"quantization_config": SCHEMES[how][1]} if how else {}
            folders.append(write(tmp_path / name, made, {**CONFIG, **declared}))
        return folders[0], folders[1]

    return make


def projected(tensors: Tensors) -> list[str]:
    """Modules that are quantized."""
    return [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]


def without(start: str) -> Damage:
    def damage(made: Tensors) -> None:
        for name in [name for name in made if name.startswith(start)]:
            del made[name]

    return damage


def with_values(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """Changes a tensor as it is stored."""

    def damage(made: Tensors) -> None:
        kind, stored = made[name]
        made[name] = kind, np.ascontiguousarray(change(stored.copy()))

    return damage


def with_number(name: str, number: float, count: int | None = None) -> Damage:
    """The first ``count`` values of a 16-bit tensor, or all of them, are a number."""

    def damage(made: Tensors) -> None:
        values = value(made[name])
        values.reshape(-1)[:count] = number
        made[name] = bf16(values)

    return damage


def half_the_rows(made: Tensors) -> None:
    weight = value(llama()[f"{DOWN}.weight"])[::2]
    without(f"{DOWN}.")(made)
    made |= {f"{DOWN}.{part}": stored for part, stored in int4_group(weight).items()}


def one_more(made: Tensors) -> None:
    made |= {f"model.layers.1.mlp.extra_proj.{p}": made[f"{DOWN}.{p}"] for p in ("weight", "weight_scale")}


@pytest.mark.parametrize("other", [None, *SCHEMES])
@pytest.mark.parametrize("scheme", [None, "int4", "fp8", "awq"])
def test_sound_sides_of_any_two_schemes(scheme: str | None, other: str | None, sides: Sides, inspect: Inspect) -> None:
    assert inspect(*sides(scheme, other), weights=False) == ()


@pytest.mark.parametrize(("scheme", "other"), [(None, "int4"), ("int4", None), (None, None), ("int4", "fp8")])
def test_experts_in_one_tensor_or_apart(
    scheme: str | None, other: str | None, tmp_path: Path, inspect: Inspect
) -> None:
    apart = experts(llama())

    def stored(name: str, how: str | None, tensors: Tensors = apart) -> Path:
        if how is None:
            return write(tmp_path / name, joined(tensors), CONFIG)
        declared = {"quantization_config": SCHEMES[how][1]}
        return write(tmp_path / name, quantize(tensors, SCHEMES[how][0], projected(tensors)), {**CONFIG, **declared})

    beside = stored("beside", other)
    assert inspect(stored("candidate", scheme), beside, weights=False) == ()
    emptied = dict(apart)
    expert = "model.layers.1.mlp.experts.2.up_proj.weight"
    emptied[expert] = bf16(np.full_like(value(apart[expert]), np.nan))
    if scheme is None:
        assert "weight-nonfinite" in named(inspect(stored("emptied", None, emptied), beside, weights=False))


@pytest.mark.parametrize("other", [None, "fp8", "gptq"])
@pytest.mark.parametrize(
    ("scheme", "damage", "check", "where"),
    [
        ("int4", without(f"{DOWN}."), "tensor-missing", f"{DOWN}.weight"),
        ("awq", without("model.layers.1."), "tensor-missing", "model.layers.1."),
        (None, without("model.layers.0."), "tensor-missing", "model.layers.0."),
        ("fp8", without(f"{DOWN}.weight"), "tensor-missing", f"{DOWN}.weight"),
        (None, without("model.norm"), "tensor-missing", "model.norm.weight"),
        ("int4", half_the_rows, "tensor-shape", f"{DOWN}.weight"),
        (None, with_values(f"{DOWN}.weight", lambda a: a[::2]), "tensor-shape", f"{DOWN}.weight"),
        (None, with_values("lm_head.weight", lambda a: a[:-8]), "tensor-shape", "lm_head.weight"),
        ("fp8", one_more, "tensor-unexpected", "model.layers.1.mlp.extra_proj"),
        ("int4", with_values(f"{DOWN}.weight_packed", np.zeros_like), "weight-deviates", f"{DOWN}.weight"),
        ("awq", with_values(f"{DOWN}.qweight", np.zeros_like), "weight-deviates", f"{DOWN}.weight"),
        ("fp8", with_values(f"{DOWN}.weight", np.zeros_like), "weight-deviates", f"{DOWN}.weight"),
        (None, with_values(f"{DOWN}.weight", np.zeros_like), "weight-deviates", f"{DOWN}.weight"),
        ("int4", with_number(f"{DOWN}.weight_scale", 1e-38), "weight-deviates", f"{DOWN}.weight"),
        ("int4", with_number(f"{DOWN}.weight_scale", 1e-4), "weight-deviates", f"{DOWN}.weight"),
        ("fp8", with_number(f"{DOWN}.weight_scale", 1.0), "weight-deviates", f"{DOWN}.weight"),
        ("int4", with_number(f"{DOWN}.weight_scale", 3e38), "weight-nonfinite", f"{DOWN}.weight"),
        ("fp8", with_values(f"{DOWN}.weight", lambda a: np.full_like(a, 127)), "weight-nonfinite", f"{DOWN}.weight"),
        ("fp8", with_number("model.norm.weight", np.nan, 1), "weight-nonfinite", "model.norm.weight"),
        ("int4", with_number("model.embed_tokens.weight", np.inf, 1), "weight-nonfinite", "model.embed_tokens.weight"),
        (None, with_number("lm_head.weight", -np.inf, 1), "weight-nonfinite", "lm_head.weight"),
        ("int4", with_number("model.embed_tokens.weight", 0), "weight-deviates", "model.embed_tokens.weight"),
        (None, with_number("model.norm.weight", 0), "weight-deviates", "model.norm.weight"),
    ],
)
def test_holes(
    scheme: str | None, damage: Damage, check: str, where: str, other: str | None, sides: Sides, inspect: Inspect
) -> None:
    found = inspect(*sides(scheme, other, damage), weights=False)
    holes = [f.where for f in found if f.check == check and f.severity.value == "fatal"]
    assert holes and holes[0].startswith(where), found


def test_what_the_baseline_declares_need_not_be_known(sides: Sides, inspect: Inspect) -> None:
    folder, beside = sides("int4", "fp8", without(f"{DOWN}."))
    config = beside / "config.json"
    config.write_text(config.read_text().replace("compressed-tensors", "some-tensors"))
    (found,) = inspect(folder, beside, weights=False)
    assert (found.check, found.where) == ("tensor-missing", f"{DOWN}.weight")


def test_biases_of_zeros_that_gptq_adds_are_not_missed(sides: Sides, tmp_path: Path, inspect: Inspect) -> None:
    folder, _ = sides("int4", None)
    made = quantize(llama(), SCHEMES["gptq"][0])
    config = {**CONFIG, "quantization_config": SCHEMES["gptq"][1]}
    biases = {f"{module}.bias": ("float16", np.zeros(128, np.float16)) for module in projected(llama())}
    assert inspect(folder, write(tmp_path / "zeros", made | biases, config), weights=False) == ()
    biases[f"{DOWN}.bias"][1][5] = 1
    (found,) = inspect(folder, write(tmp_path / "biased", made | biases, config), weights=False)
    assert (found.check, found.where) == ("tensor-missing", f"{DOWN}.bias")
