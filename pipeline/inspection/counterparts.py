"""Checks beside a baseline of other weights: the same tensors in the same shapes, finite, and of like magnitude.

Value by value the two need not agree, since one was tuned, or both are quantized. What is gone, empty or absurd shows
all the same.
"""

from __future__ import annotations

import concurrent.futures
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.inspection.artifact import (
    FLOATS,
    QUANTIZED_PARTS,
    SCHEME_PARTS,
    Artifact,
    head,
    known_shape,
    own_linear,
    several,
)
from pipeline.inspection.comparison import WORKERS
from pipeline.inspection.decode import Floats, floats
from pipeline.inspection.findings import Finding, Severity
from pipeline.inspection.fits import BLOCK_ELEMENTS, Weight
from pipeline.inspection.layout import extra_layer, tensors_present
from pipeline.inspection.scales import BadScale, bad_scales, read_scales
from pipeline.inspection.schemes import Declared, UnknownScheme
from pipeline.inspection.tensors import Stored, Tensors

MAGNITUDE_LIMIT = 100.0
"""Root mean squares apart by more: tuning, smoothing and rounding stay far within."""
SAME_MODEL = "Give checkpoints of one architecture, and save this one again."
RE_MAKE = "Make the candidate again, and look at what was saved."
_WEIGHTS = ("weight", "weight_packed", "qweight")
_FLOATING = (*FLOATS, "F8_E8M0")
_KV_SCALES = ("k_scale", "v_scale", "kv_scale")
"""Looked at by ``scales.kv_cache_scales``."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The baseline as if it were a candidate.

    :ivar readable: its declaration is understood, or there is none. Else only names of weights and what is stored in
        16 bits can be held against it.
    """

    artifact: Artifact
    readable: bool


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Root mean squares of both sides, where known, and whether the candidate's holds one value throughout."""

    mine: float
    theirs: float | None = None
    constant: bool = False


def alone(artifact: Artifact, declared: Declared | None, *, readable: bool) -> Counterpart:
    """The baseline by its own declaration.

    :param readable: the declaration could be read; a sparse one is not unpacked here.
    """
    readable = readable and not (declared and declared.sparse)
    seen = replace(
        artifact,
        config=artifact.baseline_config,
        tensors=artifact.baseline_tensors,
        declared=declared if readable else None,
        own=None,
    )
    try:
        return Counterpart(replace(seen, own=own_linear(seen)), readable)
    except UnknownScheme:  # a rule that is no expression
        seen = replace(seen, declared=None)
        return Counterpart(replace(seen, own=own_linear(seen)), False)


# --- names and shapes --------------------------------------------------------------------------


def tensors(artifact: Artifact, baseline: Counterpart) -> Iterator[Finding]:
    """Every tensor of the baseline is there, in its shape however it is stored, and no other layer is."""
    unpacked = list(_unpacked(artifact, baseline))
    beside = replace(artifact, baseline_tensors=artifact.baseline_tensors.seen_as(unpacked))
    yield from tensors_present(beside)
    yield from several(
        "tensor-missing",
        [
            f"{module}.weight"
            for module in baseline.artifact.linear
            if artifact.quantized(module) and not any(part in artifact.modules[module] for part in _WEIGHTS)
        ],
        "scales are stored without the weight that they belong to",
        SAME_MODEL,
    )
    if baseline.readable:
        yield from several(
            "tensor-unexpected",
            [
                module
                for module in artifact.linear
                if module not in baseline.artifact.linear
                and f"{module}.weight" not in beside.baseline_tensors
                and module != head(artifact.tensors)  # tied_head() tells whether it may be there
                and not extra_layer(artifact, f"{module}.weight")
            ],
            "linear layers that the baseline does not have",
            SAME_MODEL,
            severity=Severity.FATAL,
        )
    differing = {}
    for tensor in unpacked:
        module, _, part = tensor.name.rpartition(".")
        was = known_shape(baseline.artifact, module) if part == "weight" else tensor.shape
        if part == "weight" and module in artifact.modules:
            now = known_shape(artifact, module)
        else:
            now = artifact.tensors[tensor.name].shape if tensor.name in artifact.tensors else None
        if was is not None and now is not None and was != now:
            differing[tensor.name] = f"{list(now)} instead of {list(was)}"
    if differing:
        yield from several(
            "tensor-shape",
            list(differing),
            f"{len(differing)} weights have another shape than in the baseline, the first {differing[min(differing)]}",
            SAME_MODEL,
        )


def _unpacked(artifact: Artifact, baseline: Counterpart) -> Iterator[Stored]:
    """The baseline's tensors without what schemes add, quantized weights by the names that they have in 16 bits."""
    theirs = baseline.artifact
    for module, parts in theirs.modules.items():
        stored = next((parts[part] for part in _WEIGHTS if part in parts), None)
        if stored is not None:
            yield replace(stored, name=f"{module}.weight")
        for part, tensor in parts.items():
            if part in (*_WEIGHTS, *SCHEME_PARTS) or not (baseline.readable or part == "bias"):
                continue
            lacking = part == "bias" and theirs.quantized(module) and tensor.name not in artifact.tensors
            if lacking and not _root_mean_square(theirs.tensors, tensor.name):
                continue  # AutoGPTQ writes biases of zeros where a model has none
            yield tensor


# --- magnitudes --------------------------------------------------------------------------------


def sizes(
    artifact: Artifact, baseline: Counterpart, advance: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[Finding]:
    """What the candidate stores is finite, no weight is empty, and none is absurdly large or small.

    :param advance: told how many of how many tensors are done.
    """
    bad: dict[str, BadScale] = {}
    found: dict[str, _Sizes] = {}

    def linear(module: str) -> None:
        try:
            measured = _module_sizes(artifact, baseline.artifact, module)
        except BadScale as fault:
            bad[module] = fault
            return
        if measured is not None:
            found[f"{module}.weight"] = measured

    def plain(name: str) -> None:
        found[name] = _tensor_sizes(artifact, baseline.artifact, name)

    with concurrent.futures.ThreadPoolExecutor(min(WORKERS, len(os.sched_getaffinity(0)))) as pool:
        total = len(artifact.linear) + len(artifact.tensors)
        done = 0
        for measure, names in ((linear, list(artifact.linear)), (plain, artifact.tensors)):
            wanted = [name for name in names if measure is linear or _left(artifact, name, bad, found)]
            done += len(names) - len(wanted)
            for job in concurrent.futures.as_completed([pool.submit(measure, name) for name in wanted]):
                job.result()
                done += 1
                advance(done, total)
    yield from bad_scales(bad)
    yield from _judged(artifact, found)


def _left(artifact: Artifact, name: str, bad: Mapping[str, BadScale], measured: Mapping[str, _Sizes]) -> bool:
    """Whether a tensor is yet to be looked at: no linear weight nor its scales have told of it."""
    module, _, part = name.rpartition(".")
    if artifact.tensors[name].dtype not in _FLOATING or part in _KV_SCALES:
        return False
    if part == "output_scale" and module.endswith(("k_proj", "v_proj")):
        return False
    told = part in SCHEME_PARTS and module in bad
    return not told and not (f"{module}.weight" in measured and part in ("weight", *QUANTIZED_PARTS))


def _judged(artifact: Artifact, found: Mapping[str, _Sizes]) -> Iterator[Finding]:
    broken = [name for name, sizes in found.items() if not math.isfinite(sizes.mine)]
    yield from several("weight-nonfinite", broken, f"{len(broken)} tensors hold NaN or infinite values", RE_MAKE)
    empty = [name for name, sizes in found.items() if sizes.constant]
    yield from several(
        "weight-deviates",
        empty,
        f"{len(empty)} weights hold one value throughout, which the baseline's do not",
        RE_MAKE,
    )
    if artifact.declared is not None and artifact.declared.transformed:
        return  # a rotation need not keep lengths
    absurd = {name: apart for name, sizes in found.items() if not sizes.constant and (apart := _apart(name, sizes))}
    if absurd:
        worst = max(absurd, key=lambda name: absurd[name])
        mine, theirs = found[worst].mine, found[worst].theirs
        yield from several(
            "weight-deviates",
            list(absurd),
            f"{len(absurd)} weights are more than {MAGNITUDE_LIMIT:.0f} times larger or smaller than the baseline's "
            f"(the worst, {worst}: root mean square {mine:.2g} beside {theirs:.2g})",
            RE_MAKE,
        )


def _apart(name: str, sizes: _Sizes) -> float:
    """How many times larger or smaller the candidate's is, where that is too much; else 0."""
    if not sizes.theirs or not math.isfinite(sizes.theirs) or not math.isfinite(sizes.mine):
        return 0.0
    times = math.inf if not sizes.mine else max(sizes.mine / sizes.theirs, sizes.theirs / sizes.mine)
    return times if times > MAGNITUDE_LIMIT else 0.0


def _module_sizes(artifact: Artifact, baseline: Artifact, module: str) -> _Sizes | None:
    """Both sides of a linear weight, dequantized; None where the candidate's is stored in a way that is not known.

    :raises BadScale: the candidate's scales cannot be used.
    """
    mine = _weight(artifact, module)
    if mine is None:
        return None
    constant, theirs = _constant(mine), None
    if module in baseline.linear:
        try:
            other = _weight(baseline, module)
        except BadScale:  # no fault of the candidate's
            other = None
        if other is not None:
            theirs, constant = _size(other), constant and not _constant(other)
    return _Sizes(_size(mine), theirs, constant)


def _weight(artifact: Artifact, module: str) -> Weight | None:
    shape = known_shape(artifact, module)
    if not shape or not math.prod(shape):
        return None
    scheme = artifact.scheme_of(module) if artifact.quantized(module) else None
    return Weight(artifact, module, scheme, read_scales(artifact, module, scheme) if scheme else None)


def _constant(weight: Weight) -> bool:
    """Whether all of a weight is stored as one number, whatever its scales."""
    first = weight.codes(0, 1)[0, 0]
    return all(bool((weight.codes(*span) == first).all()) for span in weight.blocks())


def _size(weight: Weight) -> float:
    squares = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # absurd scales are what is looked for
        for span in weight.blocks():
            squares += _squares(weight.after(*span))
    return math.sqrt(squares / (weight.rows * weight.columns))


def _tensor_sizes(artifact: Artifact, baseline: Artifact, name: str) -> _Sizes:
    """Both sides of a tensor that is not quantized. Vectors may be rescaled or tuned at will, but not lost."""
    size, tensor, other = _root_mean_square(artifact.tensors, name), artifact.tensors[name], baseline.tensors.get(name)
    module, _, part = name.rpartition(".")
    coded = part in SCHEME_PARTS or artifact.quantized(module) or baseline.quantized(module)
    if other is None or other.shape != tensor.shape or other.dtype not in FLOATS or (coded and part != "bias"):
        return _Sizes(size)
    if len(tensor.shape) > 1:
        return _Sizes(size, _root_mean_square(baseline.tensors, name))
    lost = part == "weight" and size == 0 and _root_mean_square(baseline.tensors, name) > 0
    return _Sizes(size, None, lost)


def _root_mean_square(tensors: Tensors, name: str) -> float:
    """Of a tensor that is stored as floats; not finite where a value is not."""
    tensor, squares = tensors[name], 0.0
    if not tensor.elements:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        if not tensor.shape:
            return math.sqrt(_squares(floats(tensors.read(name).reshape(1, 1), tensor.dtype)))
        rows = tensor.shape[0]
        step = max(1, BLOCK_ELEMENTS // (tensor.elements // rows))
        for first in range(0, rows, step):
            squares += _squares(floats(tensors.rows(name, first, min(first + step, rows)), tensor.dtype))
    return math.sqrt(squares / tensor.elements)


def _squares(values: Floats) -> float:
    wide = values.astype(np.float64)  # the squares of the smallest and largest scales are no float32
    return float(np.einsum("ij,ij->", wide, wide))
