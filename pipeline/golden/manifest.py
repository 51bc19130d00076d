"""``MANIFEST.json``: the digests of the files of a set, so that a changed set is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pipeline.digests import file_digest
from pipeline.golden.complaints import Complaint
from pipeline.golden.source import Source, open_local
from pipeline.golden.streaming import RemoteSource

MANIFEST = "MANIFEST.json"
_REMEDY = "if the change is meant, run `quant-gate golden manifest --write`"


def write_manifest(root: Path) -> Path:
    """Write the manifest of a set as its files now are; returns its path.

    :raises GoldenSetError: there is no such set.
    """
    source = open_local(root)
    path = source.home / MANIFEST
    record = {"schema_version": 1, "name": source.name, "files": _digests(source)}
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def check_manifest(source: Source | RemoteSource) -> Iterator[Complaint]:
    """Complain about files that differ from the manifest. A set without a manifest has nothing to differ from."""
    if isinstance(source, RemoteSource):
        return
    path = source.home / MANIFEST
    if source.root != source.home or not path.is_file():
        return
    shown = f"{source.shown}/{MANIFEST}"
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))["files"]
        expected = {str(name): str(digest) for name, digest in recorded.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield Complaint(shown, 1, "", "files", f"unreadable manifest: {error}; {_REMEDY}")
        return
    try:
        actual = _digests(source)
    except OSError as error:
        yield Complaint(shown, 1, "", "files", f"cannot read {error.filename}: {error.strerror}")
        return
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            yield Complaint(shown, 1, "", "files", f"{name} is gone; {_REMEDY}")
        elif name not in expected:
            yield Complaint(shown, 1, "", "files", f"{name} is new; {_REMEDY}")
        elif expected[name] != actual[name]:
            yield Complaint(shown, 1, "", "files", f"{name} has changed; {_REMEDY}")


def _digests(source: Source) -> dict[str, str]:
    return {path.relative_to(source.home).as_posix(): file_digest(path) for path in source.files()}
