"""Checks of what the engine can run: a kernel on every target GPU, and groups that fit the layers and their shares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

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
    """A GPU by its NVIDIA compute capability."""

    capability: float = Field(gt=0)


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
    kernels: dict[str, Kernel]


def load_hardware(path: Path = CONFIGS / "hardware.yaml") -> Hardware:
    """Read the targets and what the engine needs.

    :raises SettingsError: invalid, or a target that is not in the list of GPUs.
    """
    hardware = load_settings(path, Hardware)
    if unknown := [name for name in hardware.targets if name not in hardware.gpus]:
        raise SettingsError(f"{path}: targets: {unknown[0]!r} is not under gpus", "Add it with its compute capability.")
    return hardware


def kernels(artifact: Artifact, hardware: Hardware) -> Iterator[Finding]:
    """The engine has a kernel for every declared scheme on every target."""
    if artifact.declared is None:
        return
    for scheme in dict.fromkeys(scheme for _, scheme in artifact.declared.targets):
        kind, kernel = _kernel(scheme, hardware)
        if refused := _refused(scheme, artifact):
            yield finding("kernel-missing", "config.json", refused, OTHER_SCHEME)
            continue
        if kernel is None:
            continue
        for name in hardware.targets:
            capability = hardware.gpus[name].capability
            served = kernel.at_least <= capability and (kernel.below is None or capability < kernel.below)
            if served and _takes(scheme, kernel.groups):
                continue
            lesser = kernel.fallback
            what = f"{scheme.name} ({kind}) on {name} (compute capability {capability:g})"
            if lesser is not None and capability >= lesser.at_least and _takes(scheme, lesser.groups):
                yield finding("kernel-fallback", name, f"{what}: {lesser.note}", OTHER_SCHEME)
            else:
                bound = f"{kernel.at_least:g} or more" + (f" and below {kernel.below:g}" if kernel.below else "")
                groups = f", groups of {', '.join(map(str, kernel.groups))}" if kernel.groups else ""
                yield finding(
                    "kernel-missing",
                    name,
                    f"the engine has no kernel for {what}; it needs {bound}{groups}",
                    OTHER_SCHEME,
                )


def _kernel(scheme: Scheme, hardware: Hardware) -> tuple[str, Kernel | None]:
    if scheme.layout in ("awq", "gptq"):
        kind: str = scheme.layout
    elif scheme.floating:
        kind = "fp8"
    else:
        kind = "int8" if scheme.activations else "weight-only"
    return kind, hardware.kernels.get(kind)


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
