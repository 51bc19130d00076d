"""How many bytes a weight takes in a checkpoint, by scheme: as llm-compressor and AutoAWQ write it."""

from __future__ import annotations

import math

from pipeline.quantizers.checkpoint import Tensor

BLOCK = 128
"""Rows and columns that share a scale in scheme FP8_BLOCK."""
_DTYPE_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}
_SCALE_BYTES = 2  # scales are kept in the checkpoint's 16-bit type, by AutoAWQ in FP16
_SHAPE_BYTES = 16  # the unpacked shape, two int64


def plain_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor that stays as it is."""
    return math.prod(tensor.shape) * _DTYPE_BYTES.get(tensor.dtype, 1)


def quantized_bytes(scheme: str, tensor: Tensor, group_size: int | None, backend: str = "llmcompressor") -> int:
    """Bytes of a quantized linear weight [rows, columns] with its scales.

    INT4 values are packed eight to an int32: by llm-compressor along the columns, zero points along the rows; by
    AutoAWQ both along the rows.
    """
    rows, columns = tensor.shape
    if not scheme.startswith("W4A16"):
        scales = {"FP8": 2, "FP8_BLOCK": -(-rows // BLOCK) * -(-columns // BLOCK)}.get(scheme, rows)  # FP8: and input's
        return rows * columns + scales * _SCALE_BYTES
    groups = columns // (group_size or columns)
    packed_rows = 4 * -(-rows // 8)
    zeros = packed_rows * groups if scheme == "W4A16_ASYM" else 0
    if backend == "autoawq":
        return columns * packed_rows + rows * groups * _SCALE_BYTES + zeros
    return rows * 4 * -(-columns // 8) + rows * groups * _SCALE_BYTES + zeros + _SHAPE_BYTES


def kv_scale_bytes(attention_layers: int) -> int:
    """Bytes of the KV cache's scales: one for keys and one for values in each layer."""
    return attention_layers * 2 * _SCALE_BYTES
