"""Checks of what the engine can run: a kernel on every target GPU, and groups that fit the layers and their shares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import SettingsError
from pipeline.inspection.artifact import Artifact, several
from pipeline.inspection.findings import Finding, finding
from pipeline.inspection.schemes import Scheme
from pipeline.settings import CONFIGS, load_settings

OTHER_SCHEME = "Choose a scheme that the target supports (configs/recipes), or another target in configs/hardware.yaml."
_ROW_PARALLEL = re.compile(r"(^|\.)(o_proj|out_proj|down_proj|w2|fc2|dense_4h_to_h|c_proj)$")
"""Layers whose input dimension is shared out among GPUs (``RowParallelLinear`` of vLLM's models)."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True)


class Gpu(_Facts):
    """A GPU: what the engine chooses kernels by, and what a memory plan needs."""

    capability: float | None = Field(None, gt=0, description="NVIDIA compute capability; none: another maker's")
    memory_gib: float = Field(gt=0, description="memory as sold, GiB")
    reported_gib: float | None = Field(None, gt=0, description="memory that the driver reports, GiB")
    bandwidth_gb_s: float = Field(gt=0, description="peak memory bandwidth, 10^9 bytes a second")
    native: list[Literal["fp16", "bf16", "fp8", "fp6", "fp4", "int8", "int4"]]
    datasheet: str = Field(description="where memory and bandwidth are from")


class Fallback(_Facts):
    """A lesser way to serve a scheme, and what is lesser about it."""

    at_least: float = Field(alias="from")
    groups: list[int] | None = None
    note: str


class Kernel(_Facts):
    """What the engine's kernels for one kind of scheme need."""

    at_least: float = Field(alias="from")
    below: float | None = None
    groups: list[int] | None = Field(None, description="group sizes; none: any")
    fallback: Fallback | None = None


class Hardware(_Facts):
    """``configs/hardware.yaml``."""

    targets: list[str] = Field(min_length=1)
    tensor_parallel_size: int = Field(1, ge=1)
    gpus: dict[str, Gpu]
    sources: dict[str, str] = Field(description="where the other figures are from")
    kernels: dict[str, Kernel]


@dataclass(frozen=True, slots=True)
class Service:
    """How the engine serves one kind of scheme on one GPU, and what is to be said of it."""

    kind: str
    level: Literal["native", "fallback", "missing"]
    note: str = ""


def load_hardware(path: Path = CONFIGS / "hardware.yaml") -> Hardware:
    """Read the targets and what the engine needs.

    :raises SettingsError: invalid, or a target that is not in the list of GPUs or has no compute capability.
    """
    hardware = load_settings(path, Hardware)
    for name in hardware.targets:
        if name not in hardware.gpus:
            raise SettingsError(f"{path}: targets: {name!r} is not under gpus", "Add it with its compute capability.")
        if hardware.gpus[name].capability is None:
            raise SettingsError(
                f"{path}: targets: {name!r} has no NVIDIA compute capability, by which kernels are chosen",
                "Name an NVIDIA GPU as target; `quant-gate plan --card` takes any.",
            )
    return hardware


def kernels(artifact: Artifact, hardware: Hardware) -> Iterator[Finding]:
    """The engine has a kernel for every declared scheme, of weights and of the KV cache, on every target."""
    if artifact.declared is None:
        return
    for scheme in dict.fromkeys(scheme for _, scheme in artifact.declared.targets):
        if refused := _refused(scheme, artifact):
            yield finding("kernel-missing", "config.json", refused, OTHER_SCHEME)
            continue
        for name in hardware.targets:
            gpu = hardware.gpus[name]
            found = service(scheme, gpu, hardware)
            what = f"{scheme.name} ({found.kind}) on {name} (compute capability {gpu.capability:g})"
            if found.level == "fallback":
                yield finding("kernel-fallback", name, f"{what}: {found.note}", OTHER_SCHEME)
            elif found.level == "missing":
                yield finding(
                    "kernel-missing", name, f"the engine has no kernel for {what}; {found.note}", OTHER_SCHEME
                )
    if artifact.declared.kv_cache is None:
        return
    for name in hardware.targets:
        if not serves_fp8_kv(hardware.gpus[name], hardware):
            yield finding(
                "kernel-missing",
                name,
                f"the engine keeps no quantized KV cache on {name}; it needs compute capability "
                f"{hardware.kernels['kv-fp8'].at_least:g} or more",
                "Remove kv_cache_scheme, or choose another target in configs/hardware.yaml.",
            )


def service(scheme: Scheme, gpu: Gpu, hardware: Hardware) -> Service:
    """How the engine serves a scheme on a GPU.

    Of GPUs without a compute capability only the formats of their matrix units are known.
    """
    if scheme.layout in ("awq", "gptq"):
        kind: str = scheme.layout
    elif scheme.floating:
        kind = "fp8"
    else:
        kind = "int8" if scheme.activations else "weight-only"
    kernel = hardware.kernels.get(kind)
    if gpu.capability is None:
        known = kind in gpu.native
        return Service(kind, "native" if known else "fallback", "" if known else "kernels of this maker are not listed")
    if kernel is None or (_reaches(kernel, gpu.capability) and _takes(scheme, kernel.groups)):
        return Service(kind, "native")
    lesser = kernel.fallback
    if lesser is not None and gpu.capability >= lesser.at_least and _takes(scheme, lesser.groups):
        return Service(kind, "fallback", lesser.note)
    bound = f"{kernel.at_least:g} or more" + (f" and below {kernel.below:g}" if kernel.below else "")
    groups = f", groups of {', '.join(map(str, kernel.groups))}" if kernel.groups else ""
    return Service(kind, "missing", f"it needs {bound}{groups}")


def serves_fp8_kv(gpu: Gpu, hardware: Hardware) -> bool:
    """Whether the engine keeps an FP8 KV cache on a GPU."""
    if gpu.capability is None:
        return "fp8" in gpu.native
    return _reaches(hardware.kernels["kv-fp8"], gpu.capability)


def _reaches(kernel: Kernel, capability: float) -> bool:
    return kernel.at_least <= capability and (kernel.below is None or capability < kernel.below)


def _takes(scheme: Scheme, groups: list[int] | None) -> bool:
    return groups is None or scheme.group is None or scheme.group in groups


def _refused(scheme: Scheme, artifact: Artifact) -> str:
    """Why vLLM 0.32 refuses a declaration on any device."""
    if scheme.ordered and scheme.group:
        return "groups ordered by activation (g_idx, desc_act, actorder: group) are no longer served by the engine"
    if scheme.layout == "gptq" and not scheme.symmetric:
        return "asymmetric GPTQ is not served by the engine"
    if artifact.declared is not None and artifact.declared.sparse:
        return "sparsity_config is no longer served by the engine"
    return ""


def groups(artifact: Artifact, hardware: Hardware) -> Iterator[Finding]:
    """Groups and blocks divide the input dimensions, also of each GPU's share."""
    misfits: dict[tuple[int, int], list[str]] = defaultdict(list)
    blocks: dict[int, list[str]] = defaultdict(list)
    share = hardware.tensor_parallel_size
    for module, tensor in artifact.linear.items():
        scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
        if scheme is None:
            continue
        rows, columns = tensor.shape
        split = columns // share if _ROW_PARALLEL.search(module) else columns
        group = scheme.group or (scheme.block[1] if scheme.block and share > 1 else None)
        if group and split % group:
            misfits[group, split].append(module)
        if scheme.block and share > 1 and not _ROW_PARALLEL.search(module) and rows // share % scheme.block[0]:
            blocks[scheme.block[0]].append(module)
    for (group, split), modules in misfits.items():
        of = f", shared by {share} GPUs," if share > 1 else ""
        yield from several(
            "group-divides",
            modules,
            f"groups of {group} do not divide the input dimension {split} of {len(modules)} modules{of}",
            "Quantize with a smaller group size (64 or 32), or serve on fewer GPUs.",
        )
    for rows, modules in blocks.items():
        yield from several(
            "group-divides",
            modules,
            f"blocks of {rows} rows do not divide the share that each of {share} GPUs gets of {len(modules)} modules",
            "Serve on fewer GPUs, or quantize per channel.",
        )
