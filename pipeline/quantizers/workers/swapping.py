"""Modules of a candidate for use in its baseline: weights as its files hold them, activations rounded by its scheme.

One module is read at a time. What an engine multiplies in 8 bits is multiplied here in float with the same rounded
values (compressed-tensors' own reference), so results differ from an engine's by the order of sums only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.quantization import (
    QuantizationArgs,
    QuantizationConfig,
    QuantizationScheme,
    QuantizationStatus,
    fake_quantize,
    preset_name_to_scheme,
)
from compressed_tensors.quantization.lifecycle.forward import set_forward_quantized
from compressed_tensors.quantization.utils import calculate_qparams
from compressed_tensors.utils import is_match
from safetensors import safe_open

_INDEX = "model.safetensors.index.json"


class Tensors:
    """The tensors of a checkpoint, read by name."""

    def __init__(self, folder: Path) -> None:
        index = folder / _INDEX
        names = (
            set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            if index.is_file()
            else {"model.safetensors"}
        )
        self._files = {key: file for file in (folder / name for name in sorted(names)) for key in _keys(file)}

    def below(self, prefix: str) -> list[str]:
        """Names of the tensors below a module."""
        return [name for name in self._files if name.startswith(f"{prefix}.")]

    def read(self, name: str) -> torch.Tensor:
        """One tensor."""
        with safe_open(self._files[name], framework="pt") as handle:
            return handle.get_tensor(name)

    def own(self, module: str) -> dict[str, torch.Tensor]:
        """The tensors of one module by their local names; those of modules below it are left out."""
        start = len(module) + 1
        return {name[start:]: self.read(name) for name in self.below(module) if "." not in name[start:]}


def _keys(file: Path) -> list[str]:
    with safe_open(file, framework="pt") as handle:
        return list(handle.keys())


class Candidate:
    """The quantized modules of a checkpoint that llm-compressor wrote."""

    def __init__(self, folder: Path) -> None:
        declared = json.loads((folder / "config.json").read_text(encoding="utf-8"))["quantization_config"]
        self.tensors = Tensors(folder)
        self._groups = list(QuantizationConfig.model_validate(declared).config_groups.values())

    def linear(self, name: str, plain: torch.nn.Linear) -> torch.nn.Linear:
        """The candidate's module of that name, to stand in for ``plain``."""
        scheme = self._scheme(name, plain)
        state = {key: _exact(value) for key, value in self.tensors.own(name).items()}
        form = BaseCompressor.get_value_from_registry(infer_module_format(torch.nn.Linear, scheme).value)
        state |= form.decompress(state, scheme)
        return _linear(plain, state["weight"], state.get("bias"), scheme, state.get("input_scale"))

    def _scheme(self, name: str, plain: torch.nn.Linear) -> QuantizationScheme:
        """A target that names the module goes before one that names its class."""
        matching = [group for group in self._groups if is_match(name, plain, group.targets)]
        named = [group for group in matching if "Linear" not in group.targets]
        if not matching:
            raise ValueError(f"{name}: no scheme of the candidate's quantization_config names it")
        return (named or matching)[0]

    def kv_scales(self, layer: str) -> tuple[float, float] | None:
        """Scales of the keys and the values of a layer, where the KV cache is quantized."""
        found = {name.rpartition(".")[2]: name for name in self.tensors.below(layer)}
        if "k_scale" not in found or "v_scale" not in found:
            return None
        key, value = (float(self.tensors.read(found[name])) for name in ("k_scale", "v_scale"))
        return key, value


def rounded(plain: torch.nn.Linear, preset: str) -> torch.nn.Linear:
    """``plain`` by a preset of compressed-tensors with a scale per row, its weights rounded to nearest."""
    scheme = preset_name_to_scheme(preset, ["Linear"])
    return _linear(plain, round_rows(plain.weight.data, scheme.weights), plain.bias, scheme, None)


def round_rows(weight: torch.Tensor, weights: QuantizationArgs) -> torch.Tensor:
    """``weight`` [rows, columns] rounded to the grid of each row's least and greatest value."""
    scale, zero = calculate_qparams(weight.amin(dim=1, keepdim=True), weight.amax(dim=1, keepdim=True), weights)
    return fake_quantize(weight, scale, zero, weights)


def _exact(value: torch.Tensor) -> torch.Tensor:
    """16-bit scales as float32, so that products with them are not rounded once more."""
    return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value


def _linear(
    plain: torch.nn.Linear,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    scheme: QuantizationScheme,
    input_scale: torch.Tensor | None,
) -> torch.nn.Linear:
    device, dtype = plain.weight.device, plain.weight.dtype

    def fixed(value: torch.Tensor) -> torch.nn.Parameter:
        return torch.nn.Parameter(value.to(device, dtype), requires_grad=False)

    made = torch.nn.Linear(plain.in_features, plain.out_features, bias=False, device="meta")
    made.weight = fixed(weight)
    if bias is not None:
        made.bias = fixed(bias)
    if scheme.input_activations is not None:
        quantizing: Any = made
        quantizing.quantization_scheme = scheme
        quantizing.quantization_status = QuantizationStatus.DECOMPRESSED  # weights are on their grid already
        if input_scale is not None:
            quantizing.input_scale = fixed(input_scale)
        set_forward_quantized(made)
    return made
