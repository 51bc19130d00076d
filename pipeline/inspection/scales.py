"""Scales, zero points and group indices of quantized modules: there, of the right shape, and usable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.artifact import FUSED, Artifact, listed, several
from pipeline.inspection.decode import AWQ_ORDER, Floats, floats, unpack
from pipeline.inspection.findings import Finding, Severity, finding
from pipeline.inspection.schemes import Scheme
from pipeline.inspection.tensors import Stored, Tensors

QUANTIZE_AGAIN = "Quantize again; with GPTQ or AWQ, calibrate on more text, so that every module sees some."


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales of one weight [rows, columns], brought to one form.

    :ivar values: [rows, groups]; [row blocks, groups] for block strategies; [1, 1] for one scale.
    :ivar zeros: zero points of the same shape, or None where all are the middle of the range.
    :ivar group: columns that share a scale.
    :ivar row_block: rows that share a row of ``values``.
    :ivar order: which column comes first, where an index assigns columns to groups.
    """

    values: Floats
    zeros: Floats | None
    group: int
    row_block: int = 1
    order: NDArray[np.intp] | None = None

    def rows(self, first: int, last: int) -> tuple[Floats, Floats | None]:
        """Scales and zero points [last - first, groups] of rows ``first`` to ``last``."""
        index = np.arange(first, last) // self.row_block
        if len(self.values) == 1:
            index = np.zeros_like(index)
        return self.values[index], None if self.zeros is None else self.zeros[index]


class BadScale(Exception):
    """A module's scales cannot be used. ``check`` names the fault."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(text)
        self.check = check
        self.text = text


def read_scales(artifact: Artifact, module: str, scheme: Scheme) -> Scales:
    """Read and check the scales of a module of the baseline's shape.

    :raises BadScale: the first fault that was found.
    """
    parts, tensors = artifact.modules[module], artifact.tensors
    rows, columns = artifact.linear[module].shape
    _check_weight_shape(parts, tensors, scheme, rows, columns)
    name = next((part for part in ("scales", "weight_scale", "weight_scale_inv") if part in parts), None)
    if name is None:
        raise BadScale("scale-missing", "no scale is stored")
    group = scheme.block[1] if scheme.block else scheme.group or columns
    groups = -(-columns // group)
    row_block = scheme.block[0] if scheme.block else 1
    shape = (1, 1) if scheme.whole else (-(-rows // row_block), groups)
    values = _matrix(tensors, parts[name], shape, transposed=scheme.layout in ("awq", "gptq"))
    _check_values(values, scheme)
    zeros = _zeros(parts, tensors, scheme, values, (rows, groups))
    order = _order(parts, tensors, scheme, columns, group)
    if scheme.activations == "static":
        _check_input_scale(parts, tensors)
    return Scales(values, zeros, group, row_block, order)


def _check_weight_shape(parts: Mapping[str, Stored], tensors: Tensors, scheme: Scheme, rows: int, columns: int) -> None:
    """The stored weight is one of [rows, columns]."""
    per_word = 32 // scheme.bits
    wanted = {
        "plain": ("weight", (rows, columns)),
        "packed": ("weight_packed", (rows, -(-columns // per_word))),
        "awq": ("qweight", (columns, rows // per_word)),
        "gptq": ("qweight", (columns // per_word, rows)),
    }
    part, shape = wanted[scheme.layout]
    if part not in parts:
        raise BadScale("scheme-dtype", f"no {part} is stored")
    if parts[part].shape != shape:
        raise BadScale(
            "tensor-shape", f"{part} is {list(parts[part].shape)}, a {rows}x{columns} weight needs {list(shape)}"
        )
    if "weight_shape" in parts:
        said = tuple(int(n) for n in tensors.read(parts["weight_shape"].name).reshape(-1))
        if said != (rows, columns):
            raise BadScale(
                "tensor-shape", f"weight_shape says {list(said)}, the baseline's weight is {[rows, columns]}"
            )


def _matrix(tensors: Tensors, tensor: Stored, shape: tuple[int, int], *, transposed: bool) -> Floats:
    """A scale tensor as [rows, groups]."""
    wanted = shape[::-1] if transposed else shape
    one_dimensional = (shape[0] * shape[1],) if 1 in shape else ()
    accepted = {wanted, one_dimensional} | ({(), (1,)} if shape == (1, 1) else set())
    if tensor.shape not in accepted:
        raise BadScale(
            "scale-shape", f"{tensor.name.rpartition('.')[2]} is {list(tensor.shape)}, the scheme needs {list(wanted)}"
        )
    if tensor.dtype not in ("F16", "BF16", "F32", "F64", "F8_E8M0", "U8"):
        raise BadScale("scale-shape", f"scales of type {tensor.dtype}")
    values = floats(tensors.read(tensor.name), "F8_E8M0" if tensor.dtype == "U8" else tensor.dtype).reshape(wanted)
    return np.ascontiguousarray(values.T) if transposed else values


def _check_values(values: Floats, scheme: Scheme) -> None:
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise BadScale("scale-value", f"{bad} of {values.size} scales are NaN or infinite")
    signed = np.abs(values) if scheme.signed_scales else values
    bad = int(np.count_nonzero(signed <= 0))
    if bad:
        raise BadScale("scale-value", f"{bad} of {values.size} scales are zero or negative")


def _zeros(
    parts: Mapping[str, Stored], tensors: Tensors, scheme: Scheme, scales: Floats, shape: tuple[int, int]
) -> Floats | None:
    """Zero points [rows, groups] of an asymmetric scheme, as what is subtracted from the stored integers."""
    rows, groups = shape
    middle = 2 ** (scheme.bits - 1)
    if scheme.layout in ("awq", "gptq"):
        if "qzeros" not in parts:
            if scheme.symmetric:
                return None
            raise BadScale("zero-point-missing", "an asymmetric scheme without qzeros")
        words = tensors.read(parts["qzeros"].name)
        if words.shape != (groups, rows * scheme.bits // 32):
            raise BadScale(
                "zero-point-range", f"qzeros is {list(words.shape)}, not {[groups, rows * scheme.bits // 32]}"
            )
        order = AWQ_ORDER if scheme.layout == "awq" else None
        found = unpack(words, scheme.bits, rows, order=order).T + scheme.zero_offset
        if scheme.symmetric:
            # Some tools store the one format's zero points and declare the other; the engine reads neither.
            off = min(int(np.count_nonzero(found != other)) for other in (middle - 1, middle, middle + 1))
            if off:
                raise BadScale(
                    "zero-point-range",
                    f"{off} of {found.size} zero points are not {middle}, though the scheme is declared symmetric: "
                    "the engine ignores them",
                )
            return None
        return np.ascontiguousarray(found)
    if scheme.symmetric or scheme.floating:
        return None
    if "weight_zero_point" not in parts:
        raise BadScale("zero-point-missing", "an asymmetric scheme without weight_zero_point")
    raw, stored = tensors.read(parts["weight_zero_point"].name), parts["weight_zero_point"]
    if scheme.layout == "packed" and stored.dtype == "I32" and stored.shape == (-(-rows * scheme.bits // 32), groups):
        return np.ascontiguousarray(unpack(np.ascontiguousarray(raw.T), scheme.bits, rows).T)
    if raw.size != scales.size:
        raise BadScale(
            "zero-point-range", f"weight_zero_point is {list(stored.shape)}, scales are {list(scales.shape)}"
        )
    found = floats(raw, stored.dtype).reshape(scales.shape)
    bad = int(np.count_nonzero((found < -middle) | (found >= middle)))
    if bad:
        raise BadScale("zero-point-range", f"{bad} of {found.size} zero points lie outside {-middle}..{middle - 1}")
    return found + middle if scheme.layout == "packed" else found


def _order(
    parts: Mapping[str, Stored], tensors: Tensors, scheme: Scheme, columns: int, group: int
) -> NDArray[np.intp] | None:
    """The columns in order of their groups, where ``g_idx`` says another order than the natural one."""
    name = next((part for part in ("g_idx", "weight_g_idx") if part in parts), None)
    if name is None:
        if scheme.ordered and scheme.group:
            raise BadScale("group-index", "activation ordering is declared, but no group index is stored")
        return None
    index = tensors.read(parts[name].name).reshape(-1).astype(np.int64)
    natural = np.arange(columns) // group
    if len(index) != columns or not np.array_equal(np.sort(index), natural):
        raise BadScale("group-index", f"the group index does not give every group its {group} of {columns} columns")
    if np.array_equal(index, natural):
        return None
    if not scheme.ordered:
        raise BadScale("group-index", "columns are reordered by a group index, but no activation ordering is declared")
    return np.argsort(index, kind="stable")


def _check_input_scale(parts: Mapping[str, Stored], tensors: Tensors) -> None:
    if "input_scale" not in parts:
        raise BadScale("scale-missing", "static activations are declared, but no input_scale is stored")
    values = floats(tensors.read(parts["input_scale"].name), parts["input_scale"].dtype)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise BadScale("scale-value", "an input scale is NaN, infinite, zero or negative")


def bad_scales(faults: Mapping[str, BadScale]) -> Iterator[Finding]:
    """Findings for modules whose scales could not be used."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for module, fault in faults.items():
        kinds[fault.check].append(module)
    for check, modules in kinds.items():
        first = faults[min(modules)].text
        yield from several(
            check, modules, f"the scales of {len(modules)} modules cannot be used; the first: {first}", QUANTIZE_AGAIN
        )


def fused_scales(artifact: Artifact) -> Iterator[Finding]:
    """Static scales of activations, and global scales, agree among layers that the engine joins."""
    differing = []
    for module in artifact.modules:
        parent, _, name = module.rpartition(".")
        for family in FUSED:
            if name != family[0]:
                continue
            members = [f"{parent}.{other}" for other in family if f"{parent}.{other}" in artifact.modules]
            for part in ("input_scale", "input_global_scale", "weight_global_scale"):
                if len(set(_values(artifact, members, part))) > 1:
                    differing.append(f"{parent}.{'/'.join(family)} {part}")
    yield from several(
        "scale-fused",
        differing,
        f"{len(differing)} sets of layers that the engine joins to one have different scales; it takes the largest",
        "Quantize with a tool that gives joined layers one scale.",
    )


def _values(artifact: Artifact, modules: list[str], part: str) -> list[Any]:
    stored = [artifact.modules[module][part] for module in modules if part in artifact.modules[module]]
    return [round(float(floats(artifact.tensors.read(t.name), t.dtype).max()), 9) for t in stored if t.elements]


def kv_cache_scales(artifact: Artifact) -> Iterator[Finding]:
    """A static KV cache scheme comes with a usable scale for every layer."""
    scheme = artifact.declared.kv_cache if artifact.declared else None
    stored = {
        module: tensor
        for module, parts in artifact.modules.items()
        for part, tensor in parts.items()
        if part in ("k_scale", "v_scale", "kv_scale")
        or (part == "output_scale" and module.rpartition(".")[2] in ("k_proj", "v_proj"))
    }
    if scheme is not None and not scheme.get("dynamic") and not stored:
        yield finding(
            "scale-kv-cache",
            "config.json",
            "a static KV cache scheme is declared, but no scale is stored: the engine takes 1.0",
            "Calibrate the KV cache, or remove kv_cache_scheme.",
        )
    if scheme is None and stored:
        yield from several(
            "scale-kv-cache",
            list(stored),
            f"KV cache scales are stored for {len(stored)} modules, but no scheme is declared: they are not used",
            "Keep kv_cache_scheme in quantization_config.",
        )
    bad = []
    for module, tensor in stored.items():
        values = floats(artifact.tensors.read(tensor.name), tensor.dtype)
        if not (np.isfinite(values).all() and (values > 0).all()):
            bad.append(module)
    if bad:
        yield finding(
            "scale-kv-cache",
            min(bad),
            f"KV cache scales of {len(bad)} modules are NaN, infinite, zero or negative: {listed(bad)}",
            "Calibrate the KV cache again.",
            {"count": len(bad)},
            severity=Severity.FATAL,
        )
