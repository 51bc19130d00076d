"""Checkpoints as GPTQModel lays them out are sound, and spoilt they are not.

``gptqmodel/`` holds what GPTQModel 7.7.0 (transformers 5.24, torch 2.13, on a CPU) wrote beside the weights of a random
llama (2 layers, hidden 64, inner 128, 259 tokens, tied head), and the names, types and shapes of its tensors:
``plain`` in INT4 with groups of 32, ``rules`` with one MLP left alone and one o_proj at 8 bits (``dynamic``). The
numbers are drawn and packed here.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import Tensors, bf16, gptq, value, write
from inspecting import Inspect, named

from pipeline.inspection import Severity

LAID_OUT = Path(__file__).parent / "gptqmodel"


def layout(name: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name to type and shape of each tensor."""
    stored = json.loads((LAID_OUT / name / "tensors.json").read_text(encoding="utf-8"))
    return {tensor: (kind, tuple(shape)) for tensor, (kind, shape) in stored.items()}


def baseline() -> Tensors:
    draw = np.random.default_rng(0).standard_normal
    return {name: bf16(0.05 * draw(shape) + (len(shape) == 1)) for name, (_, shape) in layout("baseline").items()}


def quantized(name: str) -> Tensors:
    """The baseline with the modules quantized that are so in the layout, each to as many bits as it holds there."""
    made, laid_out = baseline(), layout(name)
    for tensor, (_, shape) in laid_out.items():
        module, _, part = tensor.rpartition(".")
        if part == "qweight":
            weight = value(made.pop(f"{module}.weight"))
            made |= {
                f"{module}.{each}": stored for each, stored in gptq(weight, shape[0] * 32 // weight.shape[1]).items()
            }
    return made


def put(folder: Path, name: str, tensors: Tensors) -> Path:
    config = json.loads((LAID_OUT / name / "config.json").read_text(encoding="utf-8"))
    write(folder, tensors, config)
    shutil.copytree(LAID_OUT / name, folder, ignore=shutil.ignore_patterns("tensors.json"), dirs_exist_ok=True)
    return folder


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Path]:
    """Folders of the baseline and of both candidates."""
    folders = {"baseline": put(tmp_path / "baseline", "baseline", baseline())}
    return folders | {name: put(tmp_path / name, name, quantized(name)) for name in ("plain", "rules")}


def edited(folder: Path, **changes: Any) -> None:
    """Change ``quantization_config``; None takes a key out."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key, change in changes.items():
        config["quantization_config"][key] = change
        if change is None:
            del config["quantization_config"][key]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("name", ["plain", "rules"])
def test_our_packing_has_its_layout(name: str) -> None:
    assert {tensor: (kind, stored.shape) for tensor, (kind, stored) in quantized(name).items()} == layout(name)


@pytest.mark.parametrize("name", ["plain", "rules"])
def test_what_it_lays_out_is_clean(inspect: Inspect, made: dict[str, Path], name: str) -> None:
    assert inspect(made[name], made["baseline"]) == ()


def test_it_declares_itself_in_a_file_of_its_own_as_well(inspect: Inspect, made: dict[str, Path]) -> None:
    """As checkpoints of older releases do, whose config.json says nothing."""
    config = json.loads((made["rules"] / "config.json").read_text(encoding="utf-8"))
    del config["quantization_config"]
    (made["rules"] / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert inspect(made["rules"], made["baseline"]) == ()


def test_its_rules_are_what_tells_its_modules_apart(inspect: Inspect, made: dict[str, Path]) -> None:
    edited(made["rules"], dynamic=None)
    found = inspect(made["rules"], made["baseline"])
    assert {"scheme-coverage", "tensor-shape"} <= named(found)
    assert {f.severity for f in found if f.check in ("scheme-coverage", "tensor-shape")} == {Severity.FATAL}
