"""A candidate beside a baseline of other weights: quantized itself, or another model's. What it is by itself counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoints import CONFIG, GROUP, SCHEMES, bf16, int4_group, llama, quantize, value, write
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
