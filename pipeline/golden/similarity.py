"""Duplicates and near-duplicates among many transcripts, in bounded memory.

Near-duplicates are found by MinHash over word triples (Broder 1997; datasketch does the hashing)
with banding: two transcripts are compared when all values of one band agree. Kept per transcript:
``PERMUTATIONS`` 32-bit values in one array, nothing of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from datasketch import MinHash

PERMUTATIONS = 128
"""Values per signature: the estimated similarity has a standard error of at most 1/(2*sqrt(128)) = 0.044."""

BANDS = 16
"""With 128/16 = 8 values a band, pairs at 0.8 meet with 1-(1-0.8^8)^16 = 95 % and pairs at 0.5 with 6 %."""

THRESHOLD = 0.8
"""Estimated Jaccard similarity from which two conversations count as nearly the same."""

_WORD = re.compile(r"\w+")


@functools.cache
def _blank() -> MinHash:
    from datasketch import MinHash  # costs every start of the command line otherwise

    return MinHash(num_perm=PERMUTATIONS, seed=1)


def words(text: str) -> list[str]:
    """Lower-cased words and numbers, without punctuation."""
    return _WORD.findall(text.lower())


def conversation_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the customer and the assistant said; system texts and tool results are shared by many."""
    return "\n".join(m["content"] for m in messages if m["role"] in ("user", "assistant") and m.get("content"))


def signature(text: str) -> NDArray[np.uint32]:
    """The MinHash signature of a text's word triples."""
    listed = words(text)
    triples = {" ".join(listed[i : i + 3]) for i in range(max(1, len(listed) - 2))}
    sketch = _blank().copy()
    sketch.update_batch([triple.encode() for triple in triples])
    return np.asarray(sketch.hashvalues, dtype=np.uint64).astype(np.uint32)


class NearDuplicates:
    """Collects signatures; :meth:`pairs` then names each transcript's nearest earlier one."""

    def __init__(self) -> None:
        self._signatures = np.empty((1024, PERMUTATIONS), dtype=np.uint32)
        self._count = 0

    def add(self, text: str) -> int:
        """Add a conversation; returns its number, from 0."""
        if self._count == len(self._signatures):
            self._signatures = np.concatenate([self._signatures, np.empty_like(self._signatures)])
        self._signatures[self._count] = signature(text)
        self._count += 1
        return self._count - 1

    def pairs(self, threshold: float = THRESHOLD) -> Iterator[tuple[int, int, float]]:
        """Yield (later, earlier, similarity), at most one per later transcript, in order."""
        kept = self._signatures[: self._count]
        best: dict[int, tuple[float, int]] = {}
        width = PERMUTATIONS // BANDS
        for band in range(BANDS):
            part = np.ascontiguousarray(kept[:, band * width : (band + 1) * width])
            keys = part.view(np.dtype((np.void, part.dtype.itemsize * width))).ravel()
            order = np.argsort(keys, kind="stable")
            ranked = keys[order]
            # In a bucket each is compared with the one before it: linear also where thousands agree.
            for place in np.flatnonzero(ranked[1:] == ranked[:-1]):
                earlier, later = int(order[place]), int(order[place + 1])
                similarity = float(np.mean(kept[earlier] == kept[later]))
                if similarity >= threshold and similarity > best.get(later, (0.0, 0))[0]:
                    best[later] = (similarity, earlier)
        for later in sorted(best):
            yield later, best[later][1], best[later][0]
