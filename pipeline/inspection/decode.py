"""Stored numbers to float32: 16-bit and 8-bit floats, and integers packed into 32-bit words.

Several stored values are decoded at a time by looking 16 bits up in a table, since numpy spends more on an index
than on a copy of a few floats.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where AutoAWQ puts column i of eight: its words hold columns 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on."""


def floats(raw: NDArray[Any], dtype: str) -> Floats:
    """Values stored as floats or whole bytes.

    :param raw: as :meth:`pipeline.inspection.tensors.Tensors.rows` gives them.
    :param dtype: the stored type, as safetensors spells it.
    """
    if dtype == "BF16":  # the upper half of a float32
        pairs = np.zeros((*raw.shape, 2), np.uint16)
        pairs[..., 1] = raw
        return pairs.view(np.float32)[..., 0]
    if dtype in ("F8_E4M3", "F8_E5M2"):
        return _by_table(raw, _float8_pairs(dtype))
    if dtype == "F8_E8M0":
        return np.exp2(raw.astype(np.float32) - 127)
    return raw.astype(np.float32)


def unpack(
    words: NDArray[Any], bits: int, columns: int, *, order: tuple[int, ...] | None = None, zero: int = 0
) -> Floats:
    """Unsigned integers of ``bits`` (4 or 8) bits, packed along the last dimension from the lowest bits on.

    :param words: [rows, packed columns], 32-bit.
    :param columns: how many values a row holds.
    :param order: column ``i`` of every eight is value ``order[i]`` of the word.
    :param zero: subtracted from every value.
    """
    halves = np.ascontiguousarray(words).view(np.uint16)
    values = _by_table(halves.view(np.uint8) if bits == 8 else halves, _packed(bits, zero)).reshape(len(words), -1)
    if order is not None:
        values = values.reshape(len(words), -1, len(order))[:, :, list(order)].reshape(len(words), -1)
    return values[:, :columns]


def _by_table(raw: NDArray[Any], table: Floats) -> Floats:
    """``raw`` read 16 bits at a time through ``table`` [65536, values]; a last odd byte is padded."""
    shape = raw.shape
    data = np.ascontiguousarray(raw).view(np.uint8).reshape(-1)
    if len(data) % 2:
        data = np.append(data, np.uint8(0))
    per_byte = table.shape[1] // 2
    values: Floats = np.take(table, data.view(np.uint16), axis=0).reshape(-1)
    if raw.dtype == np.uint8:
        return values[: raw.size * per_byte].reshape((*shape[:-1], shape[-1] * per_byte))
    return values.reshape((*shape[:-1], shape[-1] * table.shape[1]))


@functools.cache
def _float8_pairs(dtype: str) -> Floats:
    """[65536, 2]: both bytes of a 16-bit word as floats."""
    return _pairs(float8(dtype)[:, None])


@functools.cache
def _packed(bits: int, zero: int) -> Floats:
    """[65536, 16 / bits]: the unsigned integers of a 16-bit word, from the lowest bits on, less ``zero``."""
    byte = np.arange(256)
    parts = [byte] if bits == 8 else [byte & 15, byte >> 4]
    return _pairs(np.stack(parts, axis=1).astype(np.float32) - np.float32(zero))


def _pairs(table: Floats) -> Floats:
    """A table of one byte [256, n] to one of two bytes [65536, 2 n], the lower byte first."""
    word = np.arange(65536)
    return np.concatenate([table[word & 255], table[word >> 8]], axis=1)


def float8(dtype: str) -> Floats:
    """The 256 values of an 8-bit float: OCP 8-bit floating point specification (2023), section 5.

    E4M3 has no infinities: exponent and mantissa of ones only are NaN. E5M2 follows IEEE 754.
    """
    exponent_bits = 4 if dtype == "F8_E4M3" else 5
    mantissa_bits = 7 - exponent_bits
    byte = np.arange(256)
    exponent = (byte >> mantissa_bits) & (2**exponent_bits - 1)
    mantissa = (byte & (2**mantissa_bits - 1)) / 2**mantissa_bits
    bias = 2 ** (exponent_bits - 1) - 1
    values = np.where(exponent > 0, 1 + mantissa, mantissa) * np.exp2(np.maximum(exponent, 1) - bias)
    top = exponent == 2**exponent_bits - 1
    if dtype == "F8_E4M3":
        values[top & (byte & 7 == 7)] = np.nan
    else:
        values[top] = np.where(mantissa[top] > 0, np.nan, np.inf)
    signed: Floats = np.where(byte & 128, -values, values).astype(np.float32)
    return signed
