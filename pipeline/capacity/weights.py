"""Bytes of the weights, module by module: each in the scheme that it is stored in, or that a recipe will give it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.capacity.model import Model
from pipeline.capacity.shapes import expected_tensors
from pipeline.errors import ModelError
from pipeline.inspection.artifact import QUANTIZED_PARTS, read_json
from pipeline.inspection.schemes import Declared, Scheme, UnknownScheme, read_declared, scheme_named
from pipeline.inspection.tensors import REMEDY, Stored, Tensors
from pipeline.quantizers.checkpoint import INDEX, WEIGHTS, Tensor, weight_files
from pipeline.quantizers.fit import ROUTER, fit_tensors
from pipeline.quantizers.storage import quantized_bytes
from pipeline.settings import Recipe

ENGINE_BYTES = 2
"""Bytes of a parameter that is not quantized: the engine loads all of them in 16 bits."""
_PLAIN = ("BF16", "F16", "F32", "F64")
_GROUPS = (
    ("head", re.compile(r"(^|\.)(lm_head|embed_out)$")),
    ("embedding", re.compile(r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings)$")),
    ("router", ROUTER),
    ("experts", re.compile(r"\.experts(\.|$)")),
    ("norms", re.compile(r"(norm|ln_\w+)$", re.IGNORECASE)),
    ("attention", re.compile(r"\.(self_attn|attention|attn)\.")),
    ("mlp", re.compile(r"\.(mlp|feed_forward|shared_experts?)\.")),
)
"""What a module is, by its name; the first that matches."""
_KEPT_BY_ALL = re.compile(r"(^|\.)(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj)$")
"""Modules that every card holds whole, beside norms and routers: ``ReplicatedLinear`` of vLLM's models."""
_BY_KV_HEAD = re.compile(r"(^|\.)(k_proj|v_proj)$")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Part:
    """Modules of one kind, stored in one way; their weights with their scales.

    :ivar group: ``attention``, ``mlp``, ``experts``, ``router``, ``embedding``, ``head``, ``norms`` or ``other``.
    :ivar scheme: how weights are stored; None: in 16 bits.
    :ivar shards: into how many parts a module can be divided among cards; None: into any number.
    """

    group: str
    scheme: Scheme | None
    shards: int | None
    parameters: int
    bytes: int

    def bytes_on_each(self, cards: int) -> float:
        """Bytes on each of ``cards``."""
        return self.bytes / min(cards, self.shards or cards)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one build of a model.

    :ivar label: what it is called: a recipe, or ``as stored``.
    """

    label: str
    parts: tuple[Part, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(part.parameters for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of all modules."""
        return sum(part.bytes for part in self.parts)

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes that occur, the one with most parameters first."""
        counts: dict[Scheme, int] = defaultdict(int)
        for part in self.parts:
            if part.scheme:
                counts[part.scheme] += part.parameters
        return tuple(sorted(counts, key=lambda scheme: -counts[scheme]))

    @property
    def bits(self) -> int:
        """Bits of most parameters, which a rule of thumb takes for all."""
        return self.schemes[0].bits if self.schemes else 8 * ENGINE_BYTES

    def bytes_on_each(self, cards: int) -> float:
        """Bytes on each of ``cards`` that share the model."""
        return sum(part.bytes_on_each(cards) for part in self.parts)

    def by_group(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Parameters and bytes by what modules are and how they are stored, the largest first."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for part in self.parts:
            key = part.group, part.scheme.name if part.scheme else "16 bits"
            parameters, size = found.get(key, (0, 0))
            found[key] = parameters + part.parameters, size + part.bytes
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def has_weights(folder: Path) -> bool:
    """Whether all weight files lie in a folder; of an interrupted download the config tells more."""
    if (folder / INDEX).is_file():
        named = read_json(folder / INDEX).get("weight_map") or {}
        if not isinstance(named, dict):
            raise ModelError(f"{folder / INDEX}: weight_map is no JSON object", "Fetch the checkpoint again.")
        return bool(named) and all((folder / str(name)).is_file() for name in named.values())
    return (folder / WEIGHTS).is_file()


def builds(folder: Path, model: Model, recipes: Sequence[Recipe]) -> list[Weights]:
    """The weights as they are and, where they are not quantized, what each recipe will make of them.

    :raises ModelError: a damaged file, an unknown scheme, or neither files nor a known architecture.
    :raises RecipeError: a recipe does not fit.
    """
    if _declaration(model):
        return [stored_weights(folder, model)]
    tensors = baseline_tensors(folder, model)
    return [planned_weights(tensors, model, recipe) for recipe in (None, *recipes)]


def stored_weights(folder: Path, model: Model) -> Weights:
    """The weights of a quantized checkpoint, from the headers of its files and what its config declares.

    :raises ModelError: as :func:`builds`.
    """
    declaration = _declaration(model)
    try:
        declared = read_declared(declaration)
    except UnknownScheme as error:
        raise ModelError(
            f"{folder / 'config.json'}: quantization_config cannot be read here: {error}",
            "Known are compressed-tensors, AutoAWQ, GPTQ and block FP8.",
        ) from error
    if not has_weights(folder):
        raise ModelError(
            f"{folder}: quantized, and no weight files are here whose headers say how",
            "Give the directory with the weight files, or the config.json of the unquantized model.",
        )
    modules: dict[str, list[Stored]] = defaultdict(list)
    for tensor in _loaded(folder, model):
        modules[_module(tensor.name)].append(tensor)
    return Weights("as stored", _summed(_stored(name, each, declared, model) for name, each in modules.items()))


def baseline_tensors(folder: Path, model: Model) -> list[Tensor]:
    """Names and shapes of a BF16 checkpoint's tensors, from headers or, without weight files, by the config.

    :raises ModelError: as :func:`builds`.
    """
    if not has_weights(folder):
        return expected_tensors(model)
    found = _loaded(folder, model)
    if packed := [t.name for t in found if t.dtype not in _PLAIN or t.name.rpartition(".")[2] in QUANTIZED_PARTS]:
        raise ModelError(
            f"{folder}: {packed[0]} is stored quantized, which config.json does not declare",
            "Run `quant-gate inspect` on it.",
        )
    return [Tensor(tensor.name, tensor.dtype, tensor.shape) for tensor in found]


def planned_weights(tensors: Sequence[Tensor], model: Model, recipe: Recipe | None) -> Weights:
    """What a recipe will make of a BF16 checkpoint with these tensors; None: the checkpoint itself.

    :raises RecipeError: it does not fit.
    """
    fitted = fit_tensors(recipe, tensors) if recipe else None
    schemes = fitted.schemes() if fitted else {}
    found = []
    for tensor in tensors:
        name, elements = _module(tensor.name), math.prod(tensor.shape)
        if fitted and name in schemes and tensor.name.endswith(".weight"):
            scheme = scheme_named(schemes[name], fitted.group_size, fitted.recipe.backend)
            size = quantized_bytes(schemes[name], tensor, fitted.group_size, fitted.recipe.backend)
            found.append(_part(name, scheme, elements, size, model))
        else:
            found.append(_part(name, None, elements, elements * ENGINE_BYTES, model))
    return Weights(recipe.name if recipe else "bf16", _summed(found))


# --- stored modules ----------------------------------------------------------------------------


def _declaration(model: Model) -> Mapping[str, Any]:
    said = model.config.get("quantization_config") or model.config.get("compression_config") or {}
    if not isinstance(said, dict):
        raise ModelError(
            f"{model.path}: quantization_config is no JSON object", "Fetch or copy the checkpoint's own config.json."
        )
    return said


def _loaded(folder: Path, model: Model) -> list[Stored]:
    """The tensors that the engine loads: not a tied head stored twice, nor layers for speculative decoding."""
    stored = Tensors(weight_files(folder))
    if faults := [f"{file}: {each[0]}" for file, each in stored.faults.items() if each]:
        raise ModelError(faults[0], REMEDY)
    groups = {name: _group(_module(name)) for name in stored}
    twice = model.tied and "embedding" in groups.values()
    layers = {name: int(found[1]) if (found := _LAYER.search(name)) else 0 for name in stored}
    return [t for n, t in stored.items() if layers[n] < model.layers and not (twice and groups[n] == "head")]


def _stored(name: str, tensors: Sequence[Stored], declared: Declared, model: Model) -> Part:
    quantized = any(tensor.name.rpartition(".")[2] in QUANTIZED_PARTS for tensor in tensors)
    if not quantized:
        elements = sum(tensor.elements for tensor in tensors)
        size = sum(t.elements * ENGINE_BYTES if t.dtype in _PLAIN else t.bytes for t in tensors)
        return _part(name, None, elements, size, model)
    try:
        scheme = declared.scheme_of(name)
    except UnknownScheme as error:
        raise ModelError(f"quantization_config: {error}", REMEDY) from error
    if scheme is None:
        raise ModelError(
            f"{name} is stored quantized, which config.json does not declare", "Run `quant-gate inspect` on it."
        )
    parts = {tensor.name.rpartition(".")[2]: tensor for tensor in tensors}
    values = parts.get("weight") or parts.get("weight_packed") or parts.get("qweight")
    if values is None or scheme.bits < 1:
        raise ModelError(f"{name}: its {scheme.name} weights cannot be counted", "Run `quant-gate inspect` on it.")
    packed = values.bytes * 8 // scheme.bits
    return _part(name, scheme, packed, sum(tensor.bytes for tensor in tensors), model)


def _part(name: str, scheme: Scheme | None, parameters: int, size: int, model: Model) -> Part:
    group = _group(name)
    if group in ("norms", "router") or _KEPT_BY_ALL.search(name):
        shards: int | None = 1
    else:
        shards = model.attention.kv_heads if _BY_KV_HEAD.search(name) and not model.attention.latent else None
    return Part(group, scheme, shards, parameters, size)


def _summed(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts of the same kind as one."""
    found: dict[tuple[str, Scheme | None, int | None], tuple[int, int]] = {}
    for part in parts:
        key = part.group, part.scheme, part.shards
        parameters, size = found.get(key, (0, 0))
        found[key] = parameters + part.parameters, size + part.bytes
    return tuple(Part(*key, *counts) for key, counts in found.items())


def _group(module: str) -> str:
    return next((group for group, pattern in _GROUPS if pattern.search(module)), "other")


def _module(tensor: str) -> str:
    return tensor.rpartition(".")[0]
