"""Reads every weight of both sides and holds one against the other."""

from __future__ import annotations

import concurrent.futures
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.artifact import Artifact
from pipeline.inspection.decode import Floats, floats
from pipeline.inspection.fits import MOVED, ROUNDED, Fit, Tolerance, Weight, column_gain, fit
from pipeline.inspection.scales import BadScale, Scales, read_scales

ERROR_FLOOR = 0.01
"""Relative error that is never held against a weight: what rounding a smoothed weight to 16 bits may do."""
GAIN_LIMIT = 0.10
"""Off by this share as a whole, a weight is scaled wrongly; rounding and clipping stay within a few percent."""
SPREAD_LIMIT = 0.08
"""How far the groups' gains may be off in the middle: scales of the group next to one's own give 0.15 and more on the
embedded model, GPTQ 0.02."""
OFFSET_LIMIT = 0.25
"""Mean difference in steps: rounding has none, zero points off by one have a whole one."""
WORKERS = 4
_LAYER = re.compile(r"^(.*?(?:^|\.)(?:layers|h|blocks)\.\d+)\.")
OUTPUT_SIDE = re.compile(r"(^|\.)(o_proj|out_proj|dense|wo|down_proj|w2|c_proj|fc2|dense_4h_to_h|lm_head|embed_out)$")
"""Layers whose inputs do not come from a norm."""
_OFFSET_NORMS = re.compile(r"^(gemma|gemma2|gemma3|gemma3_text|qwen3_next|qwen3_5\w*)$")
"""Models whose norms multiply by one plus the weight (``CalibrationOffsetNorm`` of llm-compressor)."""


@dataclass(slots=True)
class Comparison:
    """What is known of all weights: filled by :func:`compare`, judged by ``values.judge``.

    :ivar tolerance: how far a weight may be off.
    """

    tolerance: Tolerance = MOVED
    fits: dict[str, Fit] = field(default_factory=dict)
    columns: dict[str, tuple[NDArray[np.float64], Fit]] = field(default_factory=dict)
    bad: dict[str, BadScale] = field(default_factory=dict)
    norms: dict[str, Floats] = field(default_factory=dict)
    altered: list[str] = field(default_factory=list)
    nonfinite: list[str] = field(default_factory=list)


def compare(artifact: Artifact, advance: Callable[[int, int], None] = lambda done, total: None) -> Comparison:
    """Read every weight of both sides once, in some megabytes at a time.

    :param advance: told how many of how many weights are done.
    """
    found = Comparison(ROUNDED if artifact.rounded else MOVED)
    _plain_tensors(artifact, found)
    chosen = [
        module
        for module, tensor in artifact.linear.items()
        if artifact.quantized(module) or _unchanged_shape(artifact, f"{module}.weight", tensor.shape)
    ]
    with concurrent.futures.ThreadPoolExecutor(min(WORKERS, len(os.sched_getaffinity(0)))) as pool:
        jobs = [pool.submit(_one, artifact, module, found) for module in chosen]
        for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            job.result()
            advance(done, len(jobs))
        for job in [pool.submit(_columns, artifact, module, found) for module in _consumers(found)]:
            job.result()
    return found


def _one(artifact: Artifact, module: str, found: Comparison) -> None:
    scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
    scales: Scales | None = None
    if artifact.quantized(module):
        if scheme is None:
            return  # quantized, but not declared to be: told elsewhere
        try:
            scales = read_scales(artifact, module, scheme)
        except BadScale as fault:
            found.bad[module] = fault
            return
    if artifact.declared is not None and artifact.declared.transformed:
        return  # rotated weights are no longer the baseline's
    layer, columns = layer_of(module), artifact.linear[module].shape[1]
    norms = [(n, f) for n, f in found.norms.items() if layer_of(n) == layer and len(f) == columns]
    found.fits[module] = fit(Weight(artifact, module, scheme, scales), found.tolerance, norms)


def _consumers(found: Comparison) -> list[str]:
    """Weights whose columns may have been multiplied: they or a neighbour differ by more than rounding, or in parts."""
    finite = {module: result for module, result in found.fits.items() if result.finite}
    parents = {
        module.rpartition(".")[0]
        for module, result in finite.items()
        if result.stray or not plain(result, found.tolerance)
    }
    return [
        m
        for m, r in finite.items()
        if m.rpartition(".")[0] in parents and (OUTPUT_SIDE.search(m) or not by_rows(r, found.tolerance))
    ]


def _columns(artifact: Artifact, module: str, found: Comparison) -> None:
    scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
    scales = read_scales(artifact, module, scheme) if scheme else None
    weight = Weight(artifact, module, scheme, scales)
    gain = column_gain(weight)
    found.columns[module] = gain, fit(weight, found.tolerance, columns=gain)


def plain(result: Fit, tolerance: Tolerance) -> bool:
    """Whether the weight is the baseline's (times a norm's factor) with rounding errors."""
    return (
        result.error <= max(tolerance.error * result.expected, ERROR_FLOOR)
        and result.spread <= SPREAD_LIMIT
        and abs(result.gain - 1) <= GAIN_LIMIT
        and abs(result.offset) <= OFFSET_LIMIT
    )


def by_rows(result: Fit, tolerance: Tolerance) -> bool:
    """Whether it is with every row multiplied by something."""
    return result.row_error <= max(tolerance.error * result.expected, ERROR_FLOOR) and result.row_spread <= SPREAD_LIMIT


def layer_of(name: str) -> str:
    """The decoder layer that a tensor or module belongs to; empty for those outside."""
    match = _LAYER.match(name)
    return match[1] if match else ""


def _plain_tensors(artifact: Artifact, found: Comparison) -> None:
    """Norms, biases, embeddings and the like: unchanged, or a norm with the factor that it was divided by."""
    offset = 1.0 if _OFFSET_NORMS.match(str(artifact.baseline_config.get("model_type"))) else 0.0
    for name, tensor in artifact.baseline_tensors.items():
        module, _, part = name.rpartition(".")
        if module in artifact.linear and part == "weight":
            continue
        if not _unchanged_shape(artifact, name, tensor.shape) or (artifact.quantized(module) and part == "weight"):
            continue
        same, finite = _same(artifact, name)
        if not finite:
            found.nonfinite.append(name)
        elif not same and len(tensor.shape) == 1 and part == "weight":
            before, after = (floats(s.read(name), s[name].dtype) for s in (artifact.baseline_tensors, artifact.tensors))
            factor = np.divide(before + offset, after + offset, out=np.ones_like(before), where=after + offset != 0)
            found.norms[name] = factor.astype(np.float32)
        elif not same:
            found.altered.append(name)


def _same(artifact: Artifact, name: str) -> tuple[bool, bool]:
    """Whether a tensor is the baseline's within the rounding of 16-bit floats, and whether it is finite."""
    mine, theirs = artifact.tensors[name], artifact.baseline_tensors[name]
    rows = mine.shape[0] if mine.shape else 1
    step = max(1, (1 << 20) // max(1, mine.elements // max(rows, 1)))
    same = finite = True
    for first in range(0, rows, step) if mine.elements else ():
        last = min(first + step, rows)
        if mine.shape:
            raw, was = artifact.tensors.rows(name, first, last), artifact.baseline_tensors.rows(name, first, last)
        else:
            raw, was = artifact.tensors.read(name).reshape(1, 1), artifact.baseline_tensors.read(name).reshape(1, 1)
        if mine.dtype == theirs.dtype and np.array_equal(raw, was):
            continue
        after, before = floats(raw, mine.dtype), floats(was, theirs.dtype)
        finite &= bool(np.isfinite(after).all())
        same &= bool((np.abs(after - before) <= 2.0**-7 * np.abs(before) + 2.0**-14 * np.abs(before).max()).all())
    return same, finite


def _unchanged_shape(artifact: Artifact, name: str, shape: tuple[int, ...]) -> bool:
    mine = artifact.tensors.get(name)
    wide = ("BF16", "F16", "F32", "F64")
    return mine is not None and mine.shape == shape and mine.dtype in wide
