"""Smoothing (SmoothQuant, AWQ): input columns of layers multiplied, and what produces those inputs divided.

What was multiplied is not declared anywhere. It is found: a changed norm, or rows of the layer before, must be made up
for by the columns that they feed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.artifact import Artifact, several
from pipeline.inspection.comparison import OUTPUT_SIDE, Comparison, by_rows, layer_of
from pipeline.inspection.findings import Finding
from pipeline.inspection.fits import FEW, Fit
from pipeline.quantizers.fit import ROUTER

SAME_FACTOR = 0.10
"""How well the two ends of a smoothing factor agree (root mean square); each is known from noisy weights."""
SAME_COLUMN = 0.05
"""A column that differs by no more, noise aside, was not multiplied."""
RE_DERIVE = "Quantize again from this baseline; if it comes out the same, report it to the quantizer's authors."


def smoothed(artifact: Artifact, found: Comparison) -> dict[str, int]:
    """Weights whose rows or columns were multiplied, where the other end of the factor was divided by the same.

    :returns: how many rows or groups of each are off by more than a half after that.
    """
    explained: dict[str, int] = {}
    by_parent: dict[str, list[Fit]] = defaultdict(list)
    for module, result in found.fits.items():
        if result.finite and by_rows(result, found.tolerance):
            by_parent[module.rpartition(".")[0]].append(result)
    for consumer, (gain, result) in found.columns.items():
        noise = result.expected / np.sqrt(len(result.row_gain))
        touched = np.abs(gain - 1) > SAME_COLUMN + 5 * noise
        if not by_rows(result, found.tolerance) or not touched.any():
            continue  # columns that were not multiplied need no other end, and explain nothing
        rests = [
            (rest, producer.module)
            for producer in by_parent[consumer.rpartition(".")[0]]
            for rows in _as_inputs(producer.row_gain, len(gain), artifact)
            if producer.module != consumer and (rest := _rest(rows, gain, touched)) is not None
        ]
        if rests:
            (off, _), producer = min(rests)
            explained[consumer] = result.stray
            explained[producer] = off + found.fits[producer].row_stray
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


def _rest(
    rows: NDArray[np.float32], columns: NDArray[np.float64], touched: NDArray[np.bool_]
) -> tuple[int, float] | None:
    """How many rows are off after the columns were taken into account, and how far the others are off.

    None where the two have nothing to do with each other.
    """
    if len(rows) != len(columns):
        return None
    difference = np.abs(rows * columns - 1)
    if np.median(difference[touched]) > 0.5 * np.median(np.abs(columns - 1)[touched]):
        return None  # the rows explain nothing
    off = difference > 0.5
    others = float(np.sqrt(np.mean(difference[~off] ** 2))) if not off.all() else np.inf
    if np.count_nonzero(off) > FEW * len(rows) or others > SAME_FACTOR:
        return None
    return int(np.count_nonzero(off)), others


def norms_followed(artifact: Artifact, found: Comparison) -> Iterator[Finding]:
    """A norm that was rescaled is made up for by all layers that it feeds."""
    unused, left = [], []
    for norm, factor in found.norms.items():
        layer = layer_of(norm)
        inside = {m: f for m, f in found.fits.items() if layer_of(m) == layer and not OUTPUT_SIDE.search(m)}
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


def _block(module: str, layer: str) -> str:
    """The part of a layer that a module belongs to: ``self_attn``, ``mlp``."""
    return module.removeprefix(layer).strip(".").partition(".")[0]
