"""Content digests: the identity of everything that a verdict depends on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """Serialise to one canonical text: sorted keys, no spaces, no NaN.

    :raises ValueError: for NaN or infinity, which have no JSON form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def tree_digest(root: Path, files: list[Path]) -> str:
    """SHA-256 (hex) over the relative POSIX names and digests of ``files``, in name order."""
    return digest_of(sorted((f.relative_to(root).as_posix(), file_digest(f)) for f in files))
