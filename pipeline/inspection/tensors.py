"""Reads tensors from safetensors files by name and by rows, without a framework and without mapping whole files.

The format: eight bytes of header length (little endian), a JSON header of ``{name: {dtype, shape,
data_offsets}}``, then the bytes of all tensors, without gaps or overlaps
(https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ModelError

HEADER_LIMIT = 100_000_000
"""Longest header that the format's own reader takes, bytes."""
REMEDY = "Fetch or copy the checkpoint again."
_BITS = {
    **{"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4},
    **{"U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32},
    **{"U64": 64, "I64": 64, "F64": 64},
}
_RAW = {
    **{"BOOL": "u1", "U8": "u1", "I8": "i1", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1"},
    **{"U16": "<u2", "I16": "<i2", "F16": "<f2", "BF16": "<u2", "U32": "<u4", "I32": "<i4", "F32": "<f4"},
    **{"U64": "<u8", "I64": "<i8", "F64": "<f8"},
}
"""How a stored type is read; types that numpy lacks come as the integers of the same width."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as a file's header describes it. ``start`` and ``end`` count bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    end: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Stored bytes."""
        return self.end - self.start


def read_header(file: Path) -> tuple[dict[str, Stored], list[str]]:
    """The tensors of one file and what is wrong with it, in words.

    A file with faults yields the tensors that can still be read.
    """
    size = file.stat().st_size
    with file.open("rb") as handle:
        start = handle.read(8)
        if len(start) < 8:
            return {}, [f"{size} bytes are too few for a header"]
        length = int.from_bytes(start, "little")
        if not 0 < length <= min(HEADER_LIMIT, size - 8):
            return {}, [f"the header's length {length} does not fit a file of {size} bytes"]
        text = handle.read(length)
    try:
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("not a JSON object")
    except (ValueError, RecursionError) as error:
        return {}, [f"the header is not JSON: {error}"]
    header.pop("__metadata__", None)
    found, faults = {}, []
    for name, facts in header.items():
        tensor, fault = _stored(name, facts, file, 8 + length, size)
        if tensor is None or fault:
            faults.append(f"{name}: {fault}")
        else:
            found[name] = tensor
    reached = 8 + length
    for tensor in sorted(found.values(), key=lambda t: (t.start, t.end)):
        if tensor.start != reached:
            faults.append(f"{tensor.name}: starts at byte {tensor.start}, the tensor before it ends at {reached}")
        reached = max(reached, tensor.end)
    if not faults and reached != size:
        faults.append(f"{size - reached} bytes belong to no tensor")
    return found, faults


def _stored(name: str, facts: Any, file: Path, base: int, size: int) -> tuple[Stored | None, str]:
    try:
        dtype, shape = str(facts["dtype"]), tuple(int(n) for n in facts["shape"])
        first, last = (int(n) for n in facts["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        return None, f"unreadable description: {error!r}"
    tensor = Stored(name, dtype, shape, file, base + first, base + last)
    if any(n < 0 for n in shape) or not 0 <= first <= last:
        return None, f"impossible shape {list(shape)} or offsets {first}-{last}"
    if tensor.end > size:
        return None, f"ends at byte {tensor.end}, the file at {size}: it was cut short"
    if dtype in _BITS and tensor.elements * _BITS[dtype] != tensor.bytes * 8:
        return None, f"{dtype} {list(shape)} does not take {tensor.bytes} bytes"
    return tensor, ""


class Tensors(Mapping[str, Stored]):
    """The tensors of some files by name, for reading while the context is open. Safe to use from several threads."""

    def __init__(self, files: list[Path]) -> None:
        self.faults: dict[Path, list[str]] = {}
        self.copies: dict[str, list[Path]] = {}
        self._tensors: dict[str, Stored] = {}
        self._handles: dict[Path, int] = {}
        for file in files:
            try:
                found, self.faults[file] = read_header(file)
            except OSError as error:
                raise ModelError(f"{file}: cannot read: {error}", REMEDY) from error
            for name, tensor in found.items():
                self.copies.setdefault(name, []).append(file)
                self._tensors[name] = tensor

    def __enter__(self) -> Tensors:
        self._handles = {file: os.open(file, os.O_RDONLY) for file in self.faults}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}

    def __getitem__(self, name: str) -> Stored:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def split(self, name: str, parts: Mapping[str, tuple[int, int]]) -> None:
        """See a tensor as several: each part a span of its rows, all leading dimensions taken as rows."""
        whole = self._tensors.pop(name)
        columns = whole.shape[-1]
        width = whole.bytes // (whole.elements // columns)
        for part, (first, last) in parts.items():
            start = whole.start + first * width
            shape = (last - first, columns)
            self._tensors[part] = Stored(part, whole.dtype, shape, whole.file, start, whole.start + last * width)

    def seen_as(self, tensors: Iterable[Stored]) -> Tensors:
        """The same files with other tensors in them: for names and shapes, not for reading."""
        other = copy.copy(self)
        other._tensors = {tensor.name: tensor for tensor in tensors}
        return other

    def read(self, name: str) -> NDArray[Any]:
        """A whole tensor in its raw type (:data:`_RAW`); meant for small ones.

        :raises ModelError: a type that numpy cannot hold, or a file that ended meanwhile.
        """
        tensor = self[name]
        return self._values(tensor, 0, tensor.bytes).reshape(tensor.shape)

    def rows(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Rows ``first`` to ``last`` of a tensor seen as a matrix [shape[0], rest], in its raw type."""
        tensor = self[name]
        width = tensor.bytes // tensor.shape[0]
        return self._values(tensor, first * width, last * width).reshape(last - first, -1)

    def _values(self, tensor: Stored, first: int, last: int) -> NDArray[Any]:
        if tensor.dtype not in _RAW:
            raise ModelError(f"{tensor.file}: {tensor.name}: type {tensor.dtype} cannot be read", "")
        buffer = bytearray(last - first)
        done = os.preadv(self._handles[tensor.file], [buffer], tensor.start + first)
        while 0 < done < len(buffer):  # one call reads 2 GiB at most
            more = os.preadv(self._handles[tensor.file], [memoryview(buffer)[done:]], tensor.start + first + done)
            if more == 0:
                break
            done += more
        if done < len(buffer):
            raise ModelError(f"{tensor.file}: ended while {tensor.name} was read", REMEDY)
        return np.frombuffer(buffer, _RAW[tensor.dtype])
