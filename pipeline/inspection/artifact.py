"""A candidate beside its baseline: both opened, their tensors sorted into modules."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError
from pipeline.inspection.findings import Finding, finding
from pipeline.inspection.schemes import Declared, Scheme
from pipeline.inspection.tensors import Stored, Tensors
from pipeline.quantizers.checkpoint import Tensor
from pipeline.quantizers.fit import is_linear

QUANTIZED_PARTS = ("weight_packed", "qweight", "scales", "weight_scale", "weight_scale_inv")
"""Parts of a module that only a quantized one has."""
SCHEME_PARTS = (
    *QUANTIZED_PARTS,
    *("weight_zero_point", "weight_shape", "weight_g_idx", "weight_global_scale", "qzeros", "g_idx"),
    *("input_scale", "input_zero_point", "input_global_scale", "output_scale", "output_zero_point"),
    *("k_scale", "v_scale", "q_scale", "kv_scale", "k_zero_point", "v_zero_point"),
)
"""Parts that a scheme adds to a module."""
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w3"))
"""Layers that the engine joins to one: they need the same scheme (``packed_modules_mapping`` of vLLM's models)."""
FLOATS = ("BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2")
"""Types of weights that hold a value an element."""
SHOWN = 3
_EXPERT = re.compile(r"^(.*\.experts)\.(\d+)\.(.+)$")


@dataclass(frozen=True, slots=True)
class Artifact:
    """What the checks read.

    :ivar linear: the baseline's linear weights by module, or those of ``own``.
    :ivar modules: the candidate's tensors by module and part (``weight``, ``weight_scale``, ...).
    :ivar declared: what the candidate declares; None where that cannot be read.
    :ivar intended: modules that the recipe was to quantize, where a recipe is known.
    :ivar intended_schemes: the schemes that it was to give them.
    :ivar intended_kv_cache: the type that it was to give the KV cache, if any.
    :ivar rounded: the recipe rounds to the nearest value and does nothing else.
    :ivar own: the candidate's linear weights, where the baseline's are not the same in 16 bits; see :func:`own_linear`.
    """

    candidate: Path
    baseline: Path
    config: Mapping[str, Any]
    baseline_config: Mapping[str, Any]
    tensors: Tensors
    baseline_tensors: Tensors
    declared: Declared | None = None
    intended: frozenset[str] | None = None
    intended_schemes: frozenset[Scheme] | None = None
    intended_kv_cache: str | None = None
    rounded: bool = False
    own: Mapping[str, Stored] | None = None
    linear: Mapping[str, Stored] = field(init=False)
    modules: Mapping[str, Mapping[str, Stored]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, dict[str, Stored]] = defaultdict(dict)
        for tensor in self.tensors.values():
            module, _, part = tensor.name.rpartition(".")
            found[module][part] = tensor
        object.__setattr__(self, "modules", dict(found))
        linear = _linear(self.baseline_tensors.values()) if self.own is None else self.own
        object.__setattr__(self, "linear", linear)

    def quantized(self, module: str) -> bool:
        """Whether the candidate stores this module's weight quantized."""
        parts = self.modules.get(module, {})
        return any(part in parts for part in QUANTIZED_PARTS)

    def scheme_of(self, module: str) -> Scheme | None:
        """The declared scheme of a linear module."""
        return self.declared.scheme_of(module) if self.declared else None

    def tied(self, config: Mapping[str, Any]) -> bool:
        """Whether a config ties the output head to the embedding; by the baseline's tensors where it does not say."""
        said = config.get("tie_word_embeddings")
        return not head(self.baseline_tensors) if said is None else bool(said)


def _linear(tensors: Iterable[Stored]) -> dict[str, Stored]:
    return {t.name.removesuffix(".weight"): t for t in tensors if is_linear(Tensor(t.name, t.dtype, t.shape))}


def own_linear(artifact: Artifact) -> dict[str, Stored]:
    """The candidate's linear weights by module, in the shapes that they have unpacked: by what it stores itself.

    :raises UnknownScheme: the declaration cannot be read.
    """
    weights = []
    for module, parts in artifact.modules.items():
        stored = parts.get("weight")
        if artifact.quantized(module):
            flat = [part for part in parts.values() if len(part.shape) == 2]
            shape = known_shape(artifact, module)
            if shape is None and flat:  # another layout than the declared one: a fault to be found, whatever the shape
                shape = flat[0].shape
            stored = replace(next(iter(parts.values())), name=f"{module}.weight", shape=shape) if shape else None
        if stored is not None:
            weights.append(stored)
    return _linear(weights)


def known_shape(artifact: Artifact, module: str) -> tuple[int, ...] | None:
    """The shape of a module's weight unpacked; None where none is stored, or in a way that is not known.

    :raises UnknownScheme: the declaration cannot be read.
    """
    parts = artifact.modules[module]
    if artifact.quantized(module):
        scheme = artifact.scheme_of(module)
        return _unpacked(artifact.tensors, parts, scheme) if scheme else None
    stored = parts.get("weight")
    return stored.shape if stored is not None and stored.dtype in FLOATS else None


def _unpacked(tensors: Tensors, parts: Mapping[str, Stored], scheme: Scheme) -> tuple[int, ...] | None:
    """Rows and columns of a quantized weight; None where the part that the scheme keeps it in is not stored."""
    part = {"plain": "weight", "packed": "weight_packed"}.get(scheme.layout, "qweight")
    if part not in parts or len(parts[part].shape) != 2:
        return None
    (first, second), per_word = parts[part].shape, 32 // scheme.bits
    if scheme.layout == "packed":
        said = parts.get("weight_shape")
        if said is not None and said.elements == 2:  # the last word of a row need not be full
            return first, int(tensors.read(said.name).reshape(-1)[1])
        return first, second * per_word
    if scheme.layout == "awq":
        return second * per_word, first
    return (second, first * per_word) if scheme.layout == "gptq" else (first, second)


def head(tensors: Mapping[str, Stored]) -> str | None:
    """The module of the output head, where it is stored."""
    parts = (name.rpartition(".")[0] for name in tensors)
    return next((module for module in parts if re.search(r"(^|\.)(lm_head|embed_out)$", module)), None)


def embedding(tensors: Mapping[str, Stored]) -> str | None:
    """The module of the input embedding."""
    parts = (name.rpartition(".")[0] for name in tensors)
    return next((m for m in parts if re.search(r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings)$", m)), None)


def expert(module: str) -> tuple[str, int, str] | None:
    """``...experts``, number and projection of an expert's module; None for any other."""
    match = _EXPERT.match(module)
    return (match[1], int(match[2]), match[3]) if match else None


def split_experts(baseline: Tensors, candidate: Tensors) -> None:
    """See the baseline's experts one by one where it keeps all in one tensor and the candidate does not.

    ``experts.gate_up_proj`` [experts, 2 inner, hidden] and ``experts.down_proj`` [experts, hidden, inner], as
    transformers 5 writes them; quantizers save ``experts.N.gate_proj``, ``up_proj`` and ``down_proj``.
    """
    blocks = {found[0] for name in candidate if (found := expert(name))}
    for name, tensor in list(baseline.items()):
        block, _, part = name.removesuffix(".weight").rpartition(".")
        names = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}.get(part)
        if len(tensor.shape) != 3 or not tensor.elements or block not in blocks or names is None:
            continue
        count, rows, _ = tensor.shape
        each = rows // len(names)
        baseline.split(
            name,
            {
                f"{block}.{n}.{kind}.weight": (n * rows + k * each, n * rows + (k + 1) * each)
                for n in range(count)
                for k, kind in enumerate(names)
            },
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is no such file.

    :raises ModelError: it is not one.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: unreadable: {error}", "Fetch or copy the checkpoint again.") from error
    return value


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = sorted(names)
    rest = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + rest


def several(check: str, names: Sequence[str], text: str, remedy: str, **options: Any) -> list[Finding]:
    """One finding for all ``names`` with the same fault, none where there are none.

    :param text: what is wrong; count and names are added.
    """
    if not names:
        return []
    figures = {**options.pop("figures", {}), "count": len(names)}
    return [finding(check, sorted(names)[0], f"{text}: {listed(names)}", remedy, figures, **options)]
