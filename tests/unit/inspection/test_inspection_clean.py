"""Whole checkpoints give no finding, however they were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoints import (
    CONFIG,
    GROUP,
    HIDDEN,
    INNER,
    LAYERS,
    PROJECTIONS,
    SCHEMES,
    Tensors,
    bf16,
    experts,
    int4_group,
    joined,
    llama,
    pack,
    quantize,
    smooth,
    value,
    write,
)
from inspecting import Inspect

from pipeline.inspection import Severity

Candidate = Callable[..., Path]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("files", [1, 3])
def test_every_scheme(inspect: Inspect, candidate: Candidate, scheme: str, files: int) -> None:
    made = quantize(llama(), SCHEMES[scheme][0])
    assert inspect(candidate(scheme, made, files=files), intended=PROJECTIONS) == ()


@pytest.mark.parametrize("scheme", ["fp8", "int8", "int4", "awq", "gptq"])
@pytest.mark.parametrize("up_and_down", [False, True])
def test_smoothed_weights(inspect: Inspect, candidate: Candidate, scheme: str, up_and_down: bool) -> None:
    made = quantize(smooth(llama(), up_and_down=up_and_down), SCHEMES[scheme][0])
    assert inspect(candidate(scheme, made)) == ()


def test_smoothed_heads_with_shared_keys(inspect: Inspect, candidate: Candidate) -> None:
    """Two query heads share a value head: its factors stand twice in the columns of o_proj."""
    made = llama()
    factor = np.exp(np.random.default_rng(1).normal(0, 0.5, HIDDEN // 2)).astype(np.float32)
    twice = np.repeat(factor.reshape(2, -1), 2, axis=0).reshape(-1)
    for n in range(LAYERS):
        v, o = f"model.layers.{n}.self_attn.v_proj.weight", f"model.layers.{n}.self_attn.o_proj.weight"
        made[v], made[o] = bf16(value(made[v]) / factor[:, None]), bf16(value(made[o]) * twice)
    assert inspect(candidate("int8", quantize(made, SCHEMES["int8"][0]))) == ()


@pytest.mark.parametrize("scheme", ["int4", "awq"])
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.1])
def test_smoothing_of_a_few_channels(inspect: Inspect, candidate: Candidate, scheme: str, spread: float) -> None:
    """Factors so near to one that the weights are within their rounding errors, but for some rows."""
    made, factor = llama(), np.exp(np.random.default_rng(4).normal(0, spread, INNER)).astype(np.float32)
    factor[:3] = 0.55
    for n in range(LAYERS):
        up, down = f"model.layers.{n}.mlp.up_proj.weight", f"model.layers.{n}.mlp.down_proj.weight"
        made[up], made[down] = bf16(value(made[up]) / factor[:, None]), bf16(value(made[down]) * factor)
    assert inspect(candidate(scheme, quantize(made, SCHEMES[scheme][0]))) == ()


def test_norms_that_multiply_by_one_plus_the_weight(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    config = {"model_type": "gemma2"}
    beside = write(tmp_path / "gemma", llama(), {**CONFIG, **config})
    made = quantize(smooth(llama(), offset=1.0), SCHEMES["int8"][0])
    assert inspect(candidate("int8", made, config), beside) == ()


def test_tied_heads(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    config = {"tie_word_embeddings": True}
    beside = write(tmp_path / "tied", llama(tied=True), {**CONFIG, **config})
    assert inspect(candidate("int4", quantize(llama(tied=True), int4_group), config), beside) == ()


def test_experts_with_a_router_left_alone(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    beside = write(tmp_path / "experts", experts(llama()), CONFIG)
    modules = [n.removesuffix(".weight") for n in experts(llama()) if "_proj" in n]
    made = quantize(experts(llama()), int4_group, modules)
    assert inspect(candidate("int4", made), beside, intended=modules) == ()


def test_experts_that_the_baseline_keeps_in_one_tensor(inspect: Inspect, candidate: Candidate, tmp_path: Path) -> None:
    apart = experts(llama())
    modules = [n.removesuffix(".weight") for n in apart if "_proj" in n]
    beside = write(tmp_path / "joined", joined(apart), CONFIG)
    assert inspect(candidate("int4", quantize(apart, int4_group, modules)), beside) == ()


def test_gptq_in_its_second_format(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["gptq"][0])
    for name, (kind, stored) in list(made.items()):
        if name.endswith("qzeros"):
            made[name] = (kind, pack(np.full((stored.shape[0], stored.shape[1] * 8), 8), 4))
    assert inspect(candidate("gptq", made, declared={"checkpoint_format": "gptq_v2"})) == ()
    assert inspect(candidate("gptq", made)) == ()  # GPTQModel has declared it the first; the engine reads neither


def test_weights_moved_by_gptq(inspect: Inspect, candidate: Candidate) -> None:
    """Errors twice those of rounding to nearest, as GPTQ trades them, are no fault."""

    def noisy(weight: np.ndarray) -> Tensors:
        step = np.abs(weight.reshape(len(weight), -1, GROUP)).max(2).repeat(GROUP, 1) / 7.5
        moved = weight + np.random.default_rng(5).uniform(-0.9, 0.9, weight.shape) * step
        return int4_group(moved.astype(np.float32))

    assert inspect(candidate("int4", quantize(llama(), noisy))) == ()


def test_sixteen_bit_types_may_change(inspect: Inspect, candidate: Candidate) -> None:
    made = quantize(llama(), SCHEMES["awq"][0])
    halves = {n: ("float16", value(t).astype(np.float16)) if t[0] == "bfloat16" else t for n, t in made.items()}
    assert inspect(candidate("awq", halves)) == ()


def test_rotated_weights_are_not_compared(inspect: Inspect, candidate: Candidate) -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(HIDDEN, HIDDEN)))
    made = llama()
    for name in made:
        if name.endswith(("q_proj.weight", "up_proj.weight")):
            made[name] = bf16(value(made[name]) @ turn)
    declared = {"transform_config": {"config_groups": {"u": {"type": "hadamard"}}}}
    found = inspect(candidate("int8", quantize(made, SCHEMES["int8"][0]), declared=declared))
    assert [(f.check, f.severity) for f in found] == [("scheme-unknown", Severity.NOTE)]
