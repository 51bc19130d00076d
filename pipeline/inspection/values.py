"""Checks of the values: every weight of the candidate is the baseline's, within rounding and smoothing.

Smoothing (SmoothQuant, AWQ) multiplies the input columns of some layers and divides what produces those inputs: a norm,
or the rows of the layer before. Where a weight differs, such a factor is looked for, and both ends must agree.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.artifact import Artifact, several
from pipeline.inspection.decode import Floats, floats
from pipeline.inspection.findings import Finding
from pipeline.inspection.fits import Fit, Weight, fit, fit_columns, likeness
from pipeline.inspection.scales import BadScale, Scales, bad_scales, read_scales
from pipeline.quantizers.fit import ROUTER

ERROR_LIMIT = 3.0
"""Times the rounding error that a weight may differ: GPTQ moves weights further than to the nearest value, since it
makes up for the errors of others (1.3 to 1.8 times on the embedded model). A zero point off by one is 3.5 times: a step
against step / sqrt(12)."""
ROUNDED_LIMIT = 1.5
"""The same where the recipe rounds to the nearest value alone (1.02 to 1.03 times on the embedded model)."""
ERROR_FLOOR = 0.01
"""Relative error that is never held against a weight: what rounding a smoothed weight to 16 bits may do."""
GAIN_LIMIT = 0.10
"""Off by this share as a whole, a weight is scaled wrongly; rounding and clipping stay within a few percent."""
OFFSET_LIMIT = 0.25
"""Mean difference in steps: rounding has none, zero points off by one have a whole one."""
SAME_FACTOR = 0.10
"""How well the two ends of a smoothing factor agree (root mean square); each is known from noisy weights."""
FEW = 0.05
"""Share of rows or groups up to which a weight counts as right but for these."""
RE_DERIVE = "Quantize again from this baseline; if it comes out the same, report it to the quantizer's authors."
WORKERS = 4
_LAYER = re.compile(r"^(.*?(?:^|\.)(?:layers|h|blocks)\.\d+)\.")
_OUTPUT_SIDE = re.compile(r"(^|\.)(o_proj|out_proj|dense|wo|down_proj|w2|c_proj|fc2|dense_4h_to_h|lm_head|embed_out)$")
"""Layers whose inputs do not come from a norm."""
_OFFSET_NORMS = re.compile(r"^(gemma|gemma2|gemma3|gemma3_text|qwen3_next|qwen3_5\w*)$")
"""Models whose norms multiply by one plus the weight (``CalibrationOffsetNorm`` of llm-compressor)."""


@dataclass(slots=True)
class Comparison:
    """What is known of all weights: filled by :func:`compare`, judged by :func:`judge`.

    :ivar limit: times the rounding error that a weight may differ.
    """

    limit: float = ERROR_LIMIT
    fits: dict[str, Fit] = field(default_factory=dict)
    columns: dict[str, tuple[NDArray[np.float64], float]] = field(default_factory=dict)
    bad: dict[str, BadScale] = field(default_factory=dict)
    norms: dict[str, Floats] = field(default_factory=dict)
    altered: list[str] = field(default_factory=list)
    nonfinite: list[str] = field(default_factory=list)


def compare(artifact: Artifact, advance: Callable[[int, int], None] = lambda done, total: None) -> Comparison:
    """Read every weight of both sides once, in some megabytes at a time.

    :param advance: told how many of how many weights are done.
    """
    found = Comparison(ROUNDED_LIMIT if artifact.rounded else ERROR_LIMIT)
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
    layer, columns = _layer(module), artifact.linear[module].shape[1]
    norms = [(n, f) for n, f in found.norms.items() if _layer(n) == layer and len(f) == columns]
    found.fits[module] = fit(Weight(artifact, module, scheme, scales), norms)


def _consumers(found: Comparison) -> list[str]:
    """Weights whose columns may have been multiplied: they or a neighbour differ by more than rounding, or in parts."""
    finite = {module: result for module, result in found.fits.items() if result.finite}
    parents = {
        module.rpartition(".")[0] for module, result in finite.items() if result.stray or not plain(result, found.limit)
    }
    return [
        m
        for m, r in finite.items()
        if m.rpartition(".")[0] in parents and (_OUTPUT_SIDE.search(m) or not by_rows(r, found.limit))
    ]


def _columns(artifact: Artifact, module: str, found: Comparison) -> None:
    scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
    scales = read_scales(artifact, module, scheme) if scheme else None
    found.columns[module] = fit_columns(Weight(artifact, module, scheme, scales))


def plain(result: Fit, limit: float) -> bool:
    """Whether the weight is the baseline's (times a norm's factor) with rounding errors."""
    return (
        result.error <= max(limit * result.expected, ERROR_FLOOR)
        and abs(result.gain - 1) <= GAIN_LIMIT
        and abs(result.offset) <= OFFSET_LIMIT
    )


def by_rows(result: Fit, limit: float) -> bool:
    """Whether it is with every row multiplied by something."""
    return result.row_error <= max(limit * result.expected, ERROR_FLOOR)


def judge(artifact: Artifact, found: Comparison) -> Iterator[Finding]:
    """Findings of a comparison."""
    yield from bad_scales(found.bad)
    broken = [module for module, result in found.fits.items() if not result.finite] + found.nonfinite
    yield from several("weight-nonfinite", broken, f"{len(broken)} weights hold NaN or infinite values", RE_DERIVE)
    explained = _smoothed(artifact, found)
    deviating, rows = [], []
    for module, result in found.fits.items():
        if not result.finite:
            continue
        parts_only = (
            0 < result.stray <= FEW * result.groups and abs(float(np.median(result.row_gain)) - 1) <= GAIN_LIMIT
        )
        if module in explained:
            stray = result.row_stray if by_rows(result, found.limit) else 0
        elif plain(result, found.limit) or parts_only:
            stray = result.stray
        else:
            deviating.append(result)
            continue
        if stray:
            rows.append((module, stray, result.groups))
    yield from _deviating(artifact, deviating, found.limit)
    if rows:
        count = sum(stray for _, stray, _ in rows)
        yield from several(
            "weight-rows",
            [module for module, _, _ in rows],
            f"{count} rows or groups in {len(rows)} weights are scaled by more than a half too much or too little",
            RE_DERIVE,
            figures={"groups": count},
        )
    yield from _altered(found, explained)
    yield from _norms_followed(artifact, found)


# --- smoothing ---------------------------------------------------------------------------------


def _smoothed(artifact: Artifact, found: Comparison) -> set[str]:
    """Weights whose rows or columns were multiplied, where the other end of the factor was divided by the same."""
    explained: set[str] = set()
    by_parent: dict[str, list[Fit]] = defaultdict(list)
    for module, result in found.fits.items():
        if result.finite and by_rows(result, found.limit):
            by_parent[module.rpartition(".")[0]].append(result)
    for consumer, (gain, left) in found.columns.items():
        result = found.fits[consumer]
        if left > max(found.limit * result.expected, ERROR_FLOOR) or _cancel(np.ones_like(gain), gain):
            continue  # columns that were not multiplied need no other end, and explain nothing
        for producer in by_parent[consumer.rpartition(".")[0]]:
            if producer.module != consumer and any(
                _cancel(rows, gain) for rows in _as_inputs(producer.row_gain, len(gain), artifact)
            ):
                explained |= {consumer, producer.module}
    return explained


def _as_inputs(row_gain: NDArray[np.float32], width: int, artifact: Artifact) -> Iterator[NDArray[np.float32]]:
    """The rows of a layer as inputs of the next: as they are, the last part of joined layers, or KV heads repeated."""
    if len(row_gain) >= width:
        yield row_gain[-width:]
    heads, shared = (artifact.baseline_config.get(n) for n in ("num_attention_heads", "num_key_value_heads"))
    if isinstance(heads, int) and isinstance(shared, int) and 0 < shared < heads and width % heads == 0:
        own = shared * (width // heads)
        if len(row_gain) >= own:
            yield np.repeat(row_gain[-own:].reshape(shared, -1), heads // shared, axis=0).reshape(-1)


def _cancel(rows: NDArray[np.float32] | NDArray[np.float64], columns: NDArray[np.float64]) -> bool:
    return len(rows) == len(columns) and float(np.sqrt(np.mean((rows * columns - 1) ** 2))) <= SAME_FACTOR


def _norms_followed(artifact: Artifact, found: Comparison) -> Iterator[Finding]:
    """A norm that was rescaled is made up for by all layers that it feeds."""
    unused, left = [], []
    for norm, factor in found.norms.items():
        layer = _layer(norm)
        inside = {m: f for m, f in found.fits.items() if _layer(m) == layer and not _OUTPUT_SIDE.search(m)}
        inside = {m: f for m, f in inside.items() if artifact.linear[m].shape[1] == len(factor)}
        fed = {_block(module, layer) for module, result in inside.items() if result.norm == norm}
        if not fed and not any(f.norm == norm for f in found.fits.values()):
            unused.append(norm)
        left += [m for m, f in inside.items() if _block(m, layer) in fed and f.norm != norm and m not in found.bad]
    yield from several(
        "smoothing-broken",
        unused,
        f"{len(unused)} norms differ from the baseline's, and no layer makes up for it",
        RE_DERIVE,
    )
    routers = sorted(module for module in left if ROUTER.search(module))
    rest = f" (among them router gates: {routers[0]})" if routers else ""
    yield from several(
        "smoothing-broken",
        left,
        f"{len(left)} layers were not rescaled with the norm that feeds them{rest}",
        "Map every layer that the norm feeds (smoothing or AWQ mappings), and quantize again.",
    )


def _layer(name: str) -> str:
    match = _LAYER.match(name)
    return match[1] if match else ""


def _block(module: str, layer: str) -> str:
    """The part of a layer that a module belongs to: ``self_attn``, ``mlp``."""
    return module.removeprefix(layer).strip(".").partition(".")[0]


# --- tensors that are not linear weights ---------------------------------------------------------


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


def _altered(found: Comparison, explained: set[str]) -> Iterator[Finding]:
    """Tensors that differ, but biases of layers and norms that were rescaled: those go along."""
    left = []
    for name in found.altered:
        module, _, part = name.rpartition(".")
        if not (part == "bias" and (module in explained or f"{module}.weight" in found.norms)):
            left.append(name)
    yield from several(
        "weight-altered",
        left,
        f"{len(left)} tensors that are not quantized differ from the baseline's",
        "Give the baseline that this candidate was made from; quantizing must leave these alone.",
    )


# --- words -------------------------------------------------------------------------------------


def _deviating(artifact: Artifact, results: Sequence[Fit], limit: float) -> Iterator[Finding]:
    """One finding a kind of difference, the worst weight's figures with it."""
    kinds: dict[str, list[Fit]] = defaultdict(list)
    for result in results:
        kinds[_kind(result, limit)].append(result)
    for kind, members in kinds.items():
        worst = max(members, key=lambda result: result.error)
        yield from several(
            "weight-deviates",
            [result.module for result in members],
            f"{len(members)} weights are not the baseline's: {kind}{_instead(artifact, worst)} "
            f"(the worst, {worst.module}: relative error {worst.error:.2g} where rounding makes {worst.expected:.2g}, "
            f"gain {worst.gain:.2f}, cosine {worst.cosine:.3f})",
            RE_DERIVE,
            figures={"error": _short(worst.error), "expected": _short(worst.expected), "cosine": _short(worst.cosine)},
        )


def _kind(result: Fit, limit: float) -> str:
    if abs(result.cosine) < 0.3:
        return "they have nothing in common"
    if abs(abs(result.offset) - 1) < 0.3:
        return "their zero points seem to be off by one"
    if by_rows(result, limit) and np.ptp(np.quantile(result.row_gain, [0.1, 0.9])) < 0.1 * abs(result.gain):
        return f"their scales are off by a factor of about {float(np.median(result.row_gain)):.2g}"
    if by_rows(result, limit):
        return "their rows are scaled differently, and no other layer makes up for it"
    return "they differ by more than rounding"


def _instead(artifact: Artifact, result: Fit) -> str:
    """Which other weight of the baseline this is, if it is one."""
    if abs(result.cosine) > 0.3 or not artifact.quantized(result.module):
        return ""
    scheme = artifact.scheme_of(result.module)
    if scheme is None:
        return ""
    mine = Weight(artifact, result.module, scheme, read_scales(artifact, result.module, scheme))
    rows = min(16, mine.rows)
    after = mine.after(0, rows)
    for other, tensor in artifact.linear.items():
        if tensor.shape == (mine.rows, mine.columns) and other != result.module:
            before = floats(artifact.baseline_tensors.rows(tensor.name, 0, rows), tensor.dtype)
            if likeness(before, after) > 0.7:
                return f"; {result.module} holds the weight of {other}"
    return ""


def _short(value: float) -> float:
    return float(f"{value:.4g}") if np.isfinite(value) else 1e9


def values(artifact: Artifact, advance: Callable[[int, int], None] = lambda done, total: None) -> Iterator[Finding]:
    """Compare all weights, and judge."""
    yield from judge(artifact, compare(artifact, advance))
