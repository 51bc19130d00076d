"""Checks of the values: every weight of the candidate is the baseline's, within rounding and smoothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence

import numpy as np

from pipeline.inspection.artifact import Artifact, several
from pipeline.inspection.comparison import GAIN_LIMIT, SPREAD_LIMIT, Comparison, by_rows, compare, plain
from pipeline.inspection.decode import floats
from pipeline.inspection.findings import Finding
from pipeline.inspection.fits import FEW, Fit, Tolerance, Weight, likeness
from pipeline.inspection.scales import bad_scales, read_scales
from pipeline.inspection.smoothing import RE_DERIVE, norms_followed, smoothed


def judge(artifact: Artifact, found: Comparison) -> Iterator[Finding]:
    """Findings of a comparison."""
    yield from bad_scales(found.bad)
    broken = [module for module, result in found.fits.items() if not result.finite] + found.nonfinite
    yield from several("weight-nonfinite", broken, f"{len(broken)} weights hold NaN or infinite values", RE_DERIVE)
    explained = smoothed(artifact, found)
    deviating, rows = [], []
    for module, result in found.fits.items():
        if not result.finite:
            continue
        parts_only = (
            0 < result.stray <= FEW * result.groups and abs(float(np.median(result.row_gain)) - 1) <= GAIN_LIMIT
        )
        if module in explained:
            stray = explained[module]
        elif plain(result, found.tolerance) or parts_only:
            stray = result.stray
        else:
            deviating.append(result)
            continue
        if stray:
            rows.append((module, stray, result.groups))
    yield from _deviating(artifact, deviating, found.tolerance)
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
    yield from norms_followed(artifact, found)


def _altered(found: Comparison, explained: Container[str]) -> Iterator[Finding]:
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


def _deviating(artifact: Artifact, results: Sequence[Fit], tolerance: Tolerance) -> Iterator[Finding]:
    """One finding a kind of difference, the worst weight's figures with it."""
    kinds: dict[str, list[Fit]] = defaultdict(list)
    for result in results:
        kinds[_kind(result, tolerance)].append(result)
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


def _kind(result: Fit, tolerance: Tolerance) -> str:
    if abs(result.cosine) < 0.3:
        return "they have nothing in common"
    if abs(abs(result.offset) - 1) < 0.3:
        return "their zero points seem to be off by one"
    if by_rows(result, tolerance) and np.ptp(np.quantile(result.row_gain, [0.1, 0.9])) < 0.1 * abs(result.gain):
        return f"their scales are off by a factor of about {float(np.median(result.row_gain)):.2g}"
    if by_rows(result, tolerance):
        return "their rows are scaled differently, and no other layer makes up for it"
    if min(result.spread, result.row_spread) > SPREAD_LIMIT and result.error <= tolerance.error * result.expected:
        return "the scales of their groups are not their own"
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
