"""A tiny llama and its INT4 candidate on disk, as far as their headers go."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
from llama_shapes import projections
from safetensors.numpy import save_file

from pipeline.quantizers.checkpoint import Checkpoint, read_checkpoint

HIDDEN, INNER, KEYS = 64, 128, 32
SHAPES = projections(HIDDEN, INNER, KEYS)
LAYERS = 11  # with ten or more, the order of names is not that of layers


def save(folder: Path, tensors: dict[str, numpy.ndarray], **config: Any) -> Checkpoint:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **config}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("template")
    save_file(tensors, folder / "model.safetensors")
    return read_checkpoint(folder, "tiny", quantized=bool(config))


@pytest.fixture
def baseline(tmp_path: Path) -> Checkpoint:
    made = {"model.embed_tokens.weight": numpy.zeros((48, HIDDEN), numpy.float16)}
    for n in range(LAYERS):
        made[f"model.layers.{n}.input_layernorm.weight"] = numpy.zeros(HIDDEN, numpy.float16)
        for name, shape in SHAPES.items():
            made[f"model.layers.{n}.{name}.weight"] = numpy.zeros(shape, numpy.float16)
    return save(tmp_path / "base", made)


@pytest.fixture
def candidate(tmp_path: Path) -> Checkpoint:
    """INT4 in groups of 32, but for o_proj of layer 3, which has 8 bits."""
    made = {"model.embed_tokens.weight": numpy.zeros((48, HIDDEN), numpy.float16)}
    for n in range(LAYERS):
        for name, (rows, columns) in SHAPES.items():
            module = f"model.layers.{n}.{name}"
            if module == "model.layers.3.self_attn.o_proj":
                made[f"{module}.weight"] = numpy.zeros((rows, columns), numpy.int8)
                made[f"{module}.weight_scale"] = numpy.zeros((rows, 1), numpy.float16)
                continue
            made[f"{module}.weight_packed"] = numpy.zeros((rows, columns // 8), numpy.int32)
            made[f"{module}.weight_scale"] = numpy.zeros((rows, columns // 32), numpy.float16)
            made[f"{module}.weight_shape"] = numpy.zeros(2, numpy.int64)
    return save(tmp_path / "cand", made, quantization_config={})


@pytest.fixture
def mended(candidate: Checkpoint) -> Checkpoint:
    """The same under another identity: what quantizing by a proposed recipe makes."""
    folder = candidate.path.with_name("mended")
    shutil.copytree(candidate.path, folder)
    (folder / "tokenizer.json").write_text('{"mended": true}')
    return read_checkpoint(folder, "tiny", quantized=True)
