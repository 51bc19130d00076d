"""How well one weight of the candidate fits the baseline's: sums over rows and groups, read in blocks of rows.

With ``b`` a weight of the baseline and ``c`` the candidate's, dequantized, the sums of b*b, b*c and c*c over each row's
groups give everything: relative error, cosine, the gain (what ``c`` is of ``b``) as a whole, by row and by group.
A scale is the same for all of a group, so it multiplies sums, not elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.artifact import Artifact
from pipeline.inspection.decode import AWQ_ORDER, Floats, floats, unpack
from pipeline.inspection.scales import Scales
from pipeline.inspection.schemes import Scheme

BLOCK_ELEMENTS = 1 << 18
"""Elements decoded at a time: a megabyte of float32, which fits a core's cache with its partner."""
PROBE_ROWS = 64
FLOAT8_ERROR = 0.0265
"""Relative rounding error of a normal E4M3 number: three bits of mantissa round to within 2^-4 of the power of two
below, evenly spread: 2^-4 / sqrt(3), over the root mean square of a mantissa spread evenly over [1, 2)."""
FLOAT8_SUBNORMAL = 2.0**-9
"""Step of the subnormal numbers of E4M3."""
MATTERS = 0.1
"""Rows and groups with less than this share of the mean energy are not judged by themselves."""
FEW = 0.05
"""Share of rows that a weight's errors are taken without, the worst: GPTQ may move most of all in a single row. They
are judged by their groups. Also the share of rows or groups up to which a weight counts as right but for these."""
Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a quantizer may take a weight from the nearest value.

    :ivar error: times the rounding error that a weight may differ.
    :ivar moved: times the rounding error of its row that a group may differ by itself, where it is not merely scaled
        and the row as a whole is right: so much of the others' errors GPTQ may have put into it. 0 where none is.
    """

    error: float
    moved: float


ROUNDED = Tolerance(error=1.5, moved=0.0)
"""Where the recipe rounds to the nearest value alone (1.02 to 1.03 times on the embedded model)."""
MOVED = Tolerance(error=5.0, moved=8.0)
"""GPTQ moves weights further, since it makes up for the errors of others: 1.3 to 2.2 times on the embedded model, and a
group by up to 5.8 times its row's."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One weight against the baseline's.

    :ivar error: root of the summed squared differences over that of the baseline's squares, :data:`FEW` rows left out.
    :ivar expected: the same from rounding alone, by the stored scales; 0 for weights that are not quantized.
    :ivar gain: sum of b*c over sum of b*b: 1 where the candidate is the baseline with noise.
    :ivar offset: mean difference in quantization steps.
    :ivar stray: groups whose own gain is off by more than a half, of ``groups``, and not because weights moved.
    :ivar norm: the changed norm that explains the columns, if one does.
    :ivar row_gain: gain by row [rows].
    :ivar row_error: relative error that is left with every row scaled as fits best.
    :ivar row_stray: groups whose gain is off their own row's by more than a half.
    :ivar spread: how far the groups' gains are off the weight's, in the middle (median).
    :ivar row_spread: how far they are off their own row's.
    """

    module: str
    error: float
    expected: float
    gain: float
    cosine: float
    offset: float
    finite: bool
    stray: int
    groups: int
    norm: str | None
    row_gain: NDArray[np.float32]
    row_error: float
    row_stray: int
    spread: float
    row_spread: float


class Weight:
    """Both sides of one linear weight [rows, columns], read by rows.

    :param scales: of a quantized module; None reads the candidate's weight as it is stored.
    """

    def __init__(self, artifact: Artifact, module: str, scheme: Scheme | None, scales: Scales | None) -> None:
        self.module, self.scheme, self.scales = module, scheme, scales
        self.rows, self.columns = artifact.linear[module].shape
        self._before, self._tensors = artifact.baseline_tensors, artifact.tensors
        self._stored, self._parts = artifact.linear[module], artifact.modules[module]
        # AutoAWQ's and GPTQ's words of one row lie scattered over the whole tensor, which is small.
        self._words = self._tensors.read(self._parts["qweight"].name) if "qweight" in self._parts and scheme else None

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Spans of rows of some :data:`BLOCK_ELEMENTS` elements."""
        step = max(8, BLOCK_ELEMENTS // self.columns // 8 * 8)
        for first in range(0, self.rows, step):
            yield first, min(first + step, self.rows)

    def before(self, first: int, last: int) -> Floats:
        """Rows of the baseline."""
        return floats(self._before.rows(self._stored.name, first, last), self._stored.dtype)

    def codes(self, first: int, last: int) -> Floats:
        """Rows of the candidate as stored, less the middle of the range where zero points are not stored."""
        scheme = self.scheme
        if scheme is None or scheme.layout == "plain":
            stored = self._parts["weight"]
            return floats(self._tensors.rows(stored.name, first, last), stored.dtype)
        middle = 2 ** (scheme.bits - 1) if scheme.symmetric else 0
        if self._words is None:
            words = self._tensors.rows(self._parts["weight_packed"].name, first, last)
            return unpack(words, scheme.bits, self.columns, zero=middle)
        if scheme.layout == "gptq":  # packed along the columns, which are its rows
            return unpack(self._words[:, first:last].T, scheme.bits, self.columns, zero=middle)
        some = self._words[:, first // 8 : -(-last // 8)]
        return np.ascontiguousarray(unpack(some, 4, last - first, order=AWQ_ORDER, zero=middle).T)

    def after(self, first: int, last: int) -> Floats:
        """Rows of the candidate, dequantized, columns in their own order."""
        codes, scales = self.codes(first, last), self.scales
        if scales is None:
            return codes
        values, zeros = scales.rows(first, last)
        if scales.order is not None:
            codes = codes[:, scales.order]
        grouped = _grouped(codes, scales.group)
        if zeros is not None:
            grouped = grouped - zeros[:, :, None]
        flat: Floats = (grouped * values[:, :, None]).reshape(len(codes), -1)[:, : self.columns]
        if scales.order is None:
            return flat
        natural = np.empty_like(flat)
        natural[:, scales.order] = flat
        return natural

    def same_bytes(self) -> bool:
        """Whether an unquantized weight is the baseline's bit for bit."""
        mine, name = self._parts.get("weight"), self._stored.name
        if mine is None or self.scheme is not None or mine.dtype != self._stored.dtype:
            return False
        return all(
            np.array_equal(self._before.rows(name, *span), self._tensors.rows(mine.name, *span))
            for span in self.blocks()
        )


def fit(
    weight: Weight,
    tolerance: Tolerance,
    norms: Sequence[tuple[str, Floats]] = (),
    columns: NDArray[np.float64] | None = None,
) -> Fit:
    """Compare one linear weight with the baseline's.

    :param norms: what the columns may have been multiplied by: name of the norm, and [columns].
    :param columns: what the columns were multiplied by [columns], whatever did it.
    """
    if weight.same_bytes():
        ones = np.ones(weight.rows, np.float32)
        return Fit(weight.module, 0.0, 0.0, 1.0, 1.0, 0.0, True, 0, weight.rows, None, ones, 0.0, 0, 0.0, 0.0)
    norm = _best(weight, norms)
    factor = columns.astype(np.float32) if columns is not None else dict(norms)[norm] if norm else None
    parts = [_sums(weight, tolerance, factor, *span) for span in weight.blocks()]
    row_bb, row_bc, row_cc, rounding = (np.concatenate([part.rows[n] for part in parts]) for n in range(4))
    before, crossed, after = float(row_bb.sum()), float(row_bc.sum()), float(row_cc.sum())
    row_gain = _divided(row_bc, row_bb)
    gains, row_gains = (np.concatenate([part.gains[n] for part in parts]) for n in range(2))
    whole = crossed / before if before else 1.0
    return Fit(
        module=weight.module,
        error=_error(row_bb - 2 * row_bc + row_cc, row_bb),
        expected=_root(float(rounding.sum()), after),
        gain=whole,
        cosine=crossed / math.sqrt(before * after) if before * after > 0 else float(before == after),
        offset=sum(part.shift for part in parts) / (weight.rows * weight.columns),
        finite=math.isfinite(after),
        stray=sum(part.stray for part in parts),
        groups=sum(part.groups for part in parts),
        norm=norm,
        row_gain=row_gain.astype(np.float32),
        row_error=_error(row_cc - row_gain * row_bc, row_gain * row_bc),
        row_stray=sum(part.row_stray for part in parts),
        spread=float(np.median(np.abs(gains / whole - 1))) if len(gains) and whole else 0.0,
        row_spread=float(np.median(np.abs(row_gains - 1))) if len(row_gains) else 0.0,
    )


def column_gain(weight: Weight) -> Sums:
    """The gain of every column [columns]."""
    bb, bc = np.zeros(weight.columns), np.zeros(weight.columns)
    for span in weight.blocks():
        before, after = weight.before(*span), weight.after(*span)
        bb += np.einsum("ij,ij->j", before, before)
        bc += np.einsum("ij,ij->j", before, after)
    return _divided(bc, bb)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a block of rows adds.

    :ivar rows: sums of b*b, b*c and c*c, and of what rounding adds to the squared difference, each by row.
    :ivar gains: of the groups that matter, of b and of their row.
    :ivar shift: differences in steps, summed.
    """

    rows: tuple[Sums, Sums, Sums, Sums]
    gains: tuple[Sums, Sums]
    stray: int
    row_stray: int
    groups: int
    shift: float


def _sums(weight: Weight, tolerance: Tolerance, factor: Floats | None, first: int, last: int) -> _Part:
    before, codes = weight.before(first, last), weight.codes(first, last)
    if factor is not None:
        before = before * factor
    scheme, scales = weight.scheme, weight.scales
    if scheme is None or scales is None:
        sums = (np.einsum("ij,ij->i", x, y)[:, None].astype(np.float64) for x, y in _pairs(before, codes))
        return _part(tolerance, *sums)
    values, zeros = scales.rows(first, last)
    if scales.order is not None:
        before, codes = before[:, scales.order], codes[:, scales.order]
    b, q = _grouped(before, scales.group), _grouped(codes, scales.group)
    if zeros is not None:
        q = q - zeros[:, :, None]
    bb, bq, qq = (np.einsum("igk,igk->ig", x, y).astype(np.float64) for x, y in _pairs(b, q))
    wide, count = np.broadcast_to(values, bb.shape).astype(np.float64), b.shape[2]
    if scheme.floating:
        shift, rounding = 0.0, wide**2 * (FLOAT8_ERROR**2 * qq + count * FLOAT8_SUBNORMAL**2 / 12)
    else:
        shift = float((np.einsum("igk->ig", q) - np.einsum("igk->ig", b) / wide).sum())
        rounding = wide**2 * count / 12
    return _part(tolerance, bb, bq * wide, qq * wide**2, rounding, shift)


def _part(
    tolerance: Tolerance, bb: Sums, bc: Sums, cc: Sums, rounding: Sums | None = None, shift: float = 0.0
) -> _Part:
    if rounding is None:
        rounding = np.zeros_like(bb)
    rows = bb.sum(1), bc.sum(1), cc.sum(1), rounding.sum(1)
    gain, row_gain, matters = _divided(bc, bb), _divided(rows[1], rows[0])[:, None], bb > MATTERS * bb.mean()
    merely_scaled = cc - gain * bc <= tolerance.error**2 * rounding
    strays = []
    for right in (np.ones_like(row_gain), row_gain):
        difference = cc - 2 * right * bc + right**2 * bb
        near = [np.abs(g - right) <= 0.5 * np.abs(right) for g in (gain, row_gain)]
        moved = near[1] & ~merely_scaled & (difference <= tolerance.moved**2 * rows[3][:, None])
        strays.append(int(np.count_nonzero(matters & ~near[0] & ~moved)))
    return _Part(rows, (gain[matters], _divided(gain, row_gain)[matters]), strays[0], strays[1], bb.size, shift)


def _pairs(b: Floats, c: Floats) -> tuple[tuple[Floats, Floats], ...]:
    return (b, b), (b, c), (c, c)


def _best(weight: Weight, norms: Sequence[tuple[str, Floats]]) -> str | None:
    """The norm that explains the first rows best; None where none is better than nothing."""
    if not norms:
        return None
    rows = min(PROBE_ROWS, weight.rows)
    before, after = weight.before(0, rows), weight.after(0, rows)
    options: list[tuple[str | None, Floats]] = [(None, before), *((name, before * factor) for name, factor in norms)]
    return max(options, key=lambda option: likeness(option[1], after))[0]


def likeness(before: Floats, after: Floats) -> float:
    """Mean cosine of the rows of two matrices: 1 where they differ in the length of their rows at most."""
    lengths = np.sqrt(np.einsum("ij,ij->i", before, before) * np.einsum("ij,ij->i", after, after))
    return float(_divided(np.einsum("ij,ij->i", before, after), lengths).mean())


def _grouped(values: Floats, group: int) -> Floats:
    """[rows, columns] as [rows, groups, group], the last group filled up with zeros."""
    rows, columns = values.shape
    if columns % group:
        values = np.pad(values, ((0, 0), (0, group - columns % group)))
    return values.reshape(rows, -1, group)


def _divided(above: NDArray[np.floating], below: NDArray[np.floating]) -> Sums:
    """Quotients, 1 where there is nothing to divide by."""
    quotient: Sums = np.divide(above, below, out=np.ones(above.shape), where=below > 0)
    return quotient


def _error(squares: Sums, totals: Sums) -> float:
    """Root of a share of squares, both by row, without the worst rows."""
    worst = math.ceil(FEW * len(squares)) if len(squares) > 1 else 0
    kept = np.argsort(squares)[: len(squares) - worst]
    return _root(float(squares[kept].sum()), float(totals[kept].sum()))


def _root(squares: float, total: float) -> float:
    """Root of a share of squares; rounding may have made it a little less than nothing."""
    if math.isnan(squares) or math.isnan(total):
        return math.inf
    return math.sqrt(max(squares, 0.0) / total) if total > 0 else math.inf if squares > 0 else 0.0
