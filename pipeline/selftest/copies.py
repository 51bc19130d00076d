"""A candidate's directory, copied to be spoiled: hard links for what stays, new files for what is edited."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.inspection.decode import floats
from pipeline.quantizers.checkpoint import WEIGHTS

Floats = NDArray[np.float32]
_ITEM = {"F8_E4M3": "u1", "BF16": "<u2", "F16": "<f2", "F32": "<f4", "I8": "i1", "I32": "<i4", "I64": "<i8"}


@dataclass(slots=True)
class Weight:
    """A stored tensor; ``raw`` in the integers of its width where numpy lacks the type (FP8, BF16)."""

    dtype: str
    raw: NDArray[Any]

    @property
    def values(self) -> Floats:
        """As numbers."""
        return floats(self.raw, self.dtype)

    @values.setter
    def values(self, values: Floats) -> None:
        """Store numbers in the tensor's own type, which must be a float of 16 or 32 bits."""
        single = np.ascontiguousarray(values, np.float32)
        if self.dtype == "BF16":  # to nearest, ties to even; numbers near the largest do not occur here
            bits = single.view(np.uint32)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            self.raw = np.where(np.isnan(single), 0x7FC0, rounded).astype("<u2")
        else:
            self.raw = single.astype(_ITEM[self.dtype])


Weights = dict[str, Weight]


@dataclass(slots=True)
class Copy:
    """A copy of a candidate at ``path``, beside the ``baseline`` that it was made from."""

    path: Path
    baseline: Path

    @staticmethod
    def of(candidate: Path, baseline: Path, path: Path) -> Copy:
        """Copy ``candidate`` to ``path`` without copying a byte."""
        shutil.copytree(candidate, path, copy_function=os.link)
        return Copy(path, baseline)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink()

    def edit_text(self, name: str, change: Callable[[str], str]) -> None:
        """Replace the text of a file.

        :raises ValueError: nothing changed, so that a fault is never tested that is not there.
        """
        before = (self.path / name).read_text(encoding="utf-8")
        after = change(before)
        if after == before:
            raise ValueError(f"{name}: nothing to spoil")
        self._replace(name, after.encode())

    def edit_json(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a JSON file in place.

        :raises ValueError: nothing changed.
        """

        def changed(text: str) -> str:
            data = json.loads(text)
            change(data)
            return json.dumps(data, ensure_ascii=False, indent=1)

        before = json.loads((self.path / name).read_text(encoding="utf-8"))
        self.edit_text(name, changed)
        if json.loads((self.path / name).read_text(encoding="utf-8")) == before:
            raise ValueError(f"{name}: nothing to spoil")

    def edit_weights(self, change: Callable[[Weights], None]) -> None:
        """Change, add or remove tensors of the one weight file."""
        weights = read_weights(self.path / WEIGHTS)
        change(weights)
        self._replace(WEIGHTS, b"".join(_serialized(weights)))

    def edit_bytes(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change a file's bytes."""
        self._replace(name, change((self.path / name).read_bytes()))

    def _replace(self, name: str, content: bytes) -> None:
        """Never through the link: the original's bytes stay."""
        partial = self.path / f"{name}.partial"
        partial.write_bytes(content)
        partial.replace(self.path / name)


def read_weights(file: Path) -> Weights:
    """All tensors of a safetensors file, in memory."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    base = 8 + length
    weights = {}
    for name, facts in header.items():
        first, last = facts["data_offsets"]
        item = np.dtype(_ITEM[facts["dtype"]])
        data = np.frombuffer(content, item, (last - first) // item.itemsize, base + first)
        weights[name] = Weight(facts["dtype"], data.reshape(facts["shape"]).copy())
    return weights


def _serialized(weights: Weights) -> Iterable[bytes]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, weight in weights.items():
        start, end = end, end + weight.raw.nbytes
        header[name] = {"dtype": weight.dtype, "shape": list(weight.raw.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for weight in weights.values():
        yield np.ascontiguousarray(weight.raw).tobytes()
