"""Tiny checkpoints on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.numpy import save_file
from tiny_llama import MakeCheckpoint, llama_tensors


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> MakeCheckpoint:
    """A function that writes a complete checkpoint and returns its directory."""

    def make(
        name: str = "model",
        tensors: Mapping[str, numpy.ndarray] | None = None,
        config: Mapping[str, Any] | None = None,
        template: str | None = "{{ messages }}",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        facts = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **(config or {})}
        (folder / "config.json").write_text(json.dumps(facts))
        (folder / "tokenizer.json").write_text("{}")
        (folder / "tokenizer_config.json").write_text("{}")
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        save_file(dict(llama_tensors() if tensors is None else tensors), folder / "model.safetensors")
        return folder

    return make
