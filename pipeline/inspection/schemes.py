"""What a checkpoint declares about its quantization: ``quantization_config``, by the rules of the engine.

Known: compressed-tensors (llm-compressor), AutoAWQ, GPTQ (AutoGPTQ, GPTQModel, auto-round) and block FP8. The rules
are those of vLLM 0.32 (``vllm/model_executor/layers/quantization``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pipeline.errors import RecipeError
from pipeline.quantizers.fit import matches
from pipeline.quantizers.storage import BLOCK

Layout = Literal["plain", "packed", "awq", "gptq"]
_FORMATS: dict[str, Layout] = {
    "float-quantized": "plain",
    "int-quantized": "plain",
    "naive-quantized": "plain",
    "pack-quantized": "packed",
}
"""The formats of compressed-tensors whose values are read here."""


class UnknownScheme(Exception):
    """The declaration cannot be read, or names something that is not known here."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one weight [rows, columns] is stored.

    :ivar layout: ``plain``: one value an element; ``packed``: words along the columns; ``awq`` and ``gptq``: theirs.
    :ivar group: columns that share a scale; None: all of a row.
    :ivar block: rows and columns that share a scale, for block strategies.
    :ivar whole: one scale for the whole weight.
    :ivar activations: ``static``, ``dynamic`` or None where only weights are quantized.
    :ivar zero_offset: what is added to stored zero points (1 in GPTQ's first format).
    :ivar ordered: columns are assigned to groups by an index (``g_idx``).
    :ivar signed_scales: scales may be negative (auto-round's full range).
    """

    layout: Layout
    bits: int
    floating: bool
    symmetric: bool
    group: int | None = None
    block: tuple[int, int] | None = None
    whole: bool = False
    activations: Literal["static", "dynamic"] | None = None
    zero_offset: int = 0
    ordered: bool = False
    signed_scales: bool = False

    @property
    def name(self) -> str:
        """For people: ``FP8 per channel``, ``INT4 in groups of 128``."""
        kind = f"{'FP' if self.floating else 'INT'}{self.bits}"
        if self.block:
            return f"{kind} in blocks of {self.block[0]}x{self.block[1]}"
        if self.group:
            return f"{kind} in groups of {self.group}"
        return f"{kind} {'per tensor' if self.whole else 'per channel'}"


@dataclass(frozen=True, slots=True)
class Declared:
    """Which scheme a checkpoint declares for which module.

    :ivar targets: a name, a ``re:`` expression or ``Linear``, with its scheme. Methods but compressed-tensors have one.
    :ivar ignored: modules to leave alone, in the way that ``method`` says it.
    :ivar head: the output head is quantized as well.
    :ivar limited_to: parts of names, one of which a quantized module has (GPTQ).
    :ivar dynamic: changes by expression (GPTQModel).
    :ivar kv_cache: the declared KV cache scheme, if there is one.
    :ivar transformed: weights were rotated, so they cannot be compared with the baseline's.
    :ivar sparse: a sparsity scheme is declared.
    """

    method: str
    targets: tuple[tuple[str, Scheme], ...]
    ignored: tuple[str, ...] = ()
    head: bool = False
    limited_to: tuple[str, ...] = ()
    dynamic: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    kv_cache: Mapping[str, Any] | None = None
    transformed: bool = False
    sparse: bool = False

    def scheme_of(self, module: str) -> Scheme | None:
        """The scheme of a linear module, or None where it is to be left alone.

        :raises UnknownScheme: a rule is not a regular expression, or changes a scheme to what is none.
        """
        try:
            if self.method == "compressed-tensors":
                return self._by_target(module)
            return self._by_name(module)
        except (RecipeError, re.error, AttributeError, TypeError, ValueError) as error:
            raise UnknownScheme(f"{self.method}: {error}") from error

    def _by_target(self, module: str) -> Scheme | None:
        if any(matches(module, rule) for rule in self.ignored):
            return None
        named = (scheme for target, scheme in self.targets if target != "Linear" and matches(module, target))
        general = (scheme for target, scheme in self.targets if target == "Linear")
        return next(named, None) or next(general, None)

    def _by_name(self, module: str) -> Scheme | None:
        base = self.targets[0][1]
        if module.rpartition(".")[2] in ("lm_head", "embed_out") and not self.head:
            return None
        if any(rule in module if self.method == "awq" else rule == module for rule in self.ignored):
            return None
        if self.limited_to and not any(part in module for part in self.limited_to):
            return None
        for rule, changes in self.dynamic:
            if re.match(rule.removeprefix("+:").removeprefix("-:"), module):
                return None if rule.startswith("-:") else _changed(base, changes)
        return base


def scheme_named(name: str, group_size: int | None, backend: str) -> Scheme:
    """The scheme that a recipe names, as its backend stores it.

    :param name: as in a recipe: ``W4A16``, ``FP8_DYNAMIC``, ...
    """
    if name.startswith("W4A16"):
        layout: Layout = "awq" if backend == "autoawq" else "packed"
        return Scheme(layout, 4, False, symmetric=name == "W4A16", group=group_size)
    if name == "W8A8":
        return Scheme("plain", 8, False, symmetric=True, activations="dynamic")
    block = (BLOCK, BLOCK) if name == "FP8_BLOCK" else None
    static = name == "FP8"
    return Scheme(
        "plain", 8, True, symmetric=True, block=block, whole=static, activations="static" if static else "dynamic"
    )


def _changed(scheme: Scheme, changes: Mapping[str, Any]) -> Scheme:
    group = changes.get("group_size", scheme.group)
    return replace(
        scheme,
        bits=int(changes.get("bits", scheme.bits)),
        group=None if group in (None, -1) else int(group),
        symmetric=bool(changes.get("sym", scheme.symmetric)),
        ordered=bool(changes.get("desc_act", scheme.ordered)),
    )


def read_declared(config: Mapping[str, Any]) -> Declared:
    """Read ``quantization_config`` of a model's config.

    :raises UnknownScheme: it is not of a known kind.
    """
    method = str(config.get("quant_method", "")).lower()
    readers = {"compressed-tensors": _compressed, "awq": _awq, "gptq": _gptq, "fp8": _fp8}
    if method not in readers:
        raise UnknownScheme(f"quant_method {method or 'missing'!r}")
    try:
        return readers[method](config)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnknownScheme(f"{method}: {error!r}") from error


def _compressed(config: Mapping[str, Any]) -> Declared:
    targets: list[tuple[str, Scheme]] = []
    for group in config["config_groups"].values():
        names = [str(name) for name in group["targets"]]
        if all(name.endswith("Attention") for name in names):
            continue  # the engine reads these as a part of the KV cache scheme
        scheme = _compressed_scheme(group, str(group.get("format") or config.get("format")))
        targets += [(name, scheme) for name in names]
    if not targets:
        raise UnknownScheme("config_groups names no weights")
    sparsity = config.get("sparsity_config") or {}
    return Declared(
        "compressed-tensors",
        tuple(targets),
        ignored=tuple(map(str, config.get("ignore") or ())),
        kv_cache=config.get("kv_cache_scheme"),
        transformed=bool((config.get("transform_config") or {}).get("config_groups")),
        sparse=bool(sparsity.get("targets")),
    )


def _compressed_scheme(group: Mapping[str, Any], form: str) -> Scheme:
    weights, inputs = group["weights"], group.get("input_activations")
    if form not in _FORMATS:
        raise UnknownScheme(f"format {form!r}")
    strategy = weights.get("strategy")
    size, bits, floating = weights.get("group_size"), int(weights.get("num_bits", 8)), weights.get("type") == "float"
    if strategy is None:
        strategy = "tensor" if size is None else "channel" if size == -1 else "group"
    if strategy not in ("tensor", "channel", "group", "block") or (floating and bits != 8) or bits not in (4, 8):
        raise UnknownScheme(f"{bits} bits {weights.get('type')}, strategy {strategy!r}, format {form!r}")
    block = weights.get("block_structure") if strategy == "block" else None
    if isinstance(block, str):
        block = block.split("x")
    return Scheme(
        _FORMATS[form],
        bits,
        floating,
        symmetric=bool(weights.get("symmetric", True)),
        group=int(size) if strategy == "group" else None,
        block=(int(block[0]), int(block[1])) if block else None,
        whole=strategy == "tensor",
        activations=None if not inputs else "dynamic" if inputs.get("dynamic") else "static",
        ordered=weights.get("actorder") in ("group", "dynamic", True),
    )


def _awq(config: Mapping[str, Any]) -> Declared:
    version = str(config.get("version", "gemm")).lower()
    bits = int(config.get("w_bit", config.get("bits", 0)))
    if version != "gemm" or bits != 4:
        raise UnknownScheme(f"AWQ version {version!r} with {bits} bits")
    size = int(config.get("q_group_size", config.get("group_size", -1)))
    scheme = Scheme("awq", bits, False, symmetric=not config["zero_point"], group=None if size == -1 else size)
    ignored = tuple(map(str, config.get("modules_to_not_convert") or ()))
    return Declared("awq", (("Linear", scheme),), ignored, head=bool(config.get("lm_head")))


def _gptq(config: Mapping[str, Any]) -> Declared:
    bits, size = int(config["bits"]), int(config["group_size"])
    if bits not in (4, 8):
        raise UnknownScheme(f"GPTQ with {bits} bits")
    form = str(config.get("checkpoint_format", "gptq")).lower()
    if form not in ("gptq", "gptq_v2"):
        raise UnknownScheme(f"GPTQ checkpoint_format {form!r}")
    made_by = f"{config.get('provider', '')} {(config.get('meta') or {}).get('quantizer', '')}"
    scheme = Scheme(
        "gptq",
        bits,
        False,
        symmetric=bool(config["sym"]),
        group=None if size == -1 else size,
        zero_offset=1 if form == "gptq" else 0,
        ordered=bool(config.get("desc_act")),
        signed_scales="autoround_version" in config or "auto-round" in made_by or "auto_round" in made_by,
    )
    inside = config.get("modules_in_block_to_quantize") or ()
    return Declared(
        "gptq",
        (("Linear", scheme),),
        head=bool(config.get("lm_head")),
        limited_to=tuple(str(name) for part in inside for name in ([part] if isinstance(part, str) else part)),
        dynamic=tuple((config.get("dynamic") or {}).items()),
    )


def _fp8(config: Mapping[str, Any]) -> Declared:
    block = config.get("weight_block_size")
    scheme = Scheme(
        "plain",
        8,
        True,
        symmetric=True,
        block=(int(block[0]), int(block[1])) if block else None,
        whole=not block,
        activations="static" if config.get("activation_scheme") == "static" else "dynamic",
    )
    ignored = tuple(map(str, config.get("ignored_layers") or config.get("modules_to_not_convert") or ()))
    return Declared("fp8", (("Linear", scheme),), ignored)
