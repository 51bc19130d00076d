"""Golden sets that are tables or lie elsewhere, read row by row through the datasets library.

Read are Parquet files (here or remote), JSON-lines files and whole sets on object storage (any URL
that fsspec knows, such as ``s3://bucket/set``), and data sets of a hub (``owner/name``, with
``@revision``). Nothing is downloaded as a whole but policies and tools, which are small.

In a table, ``messages``, ``tools``, ``slices`` and ``meta`` are best written as JSON text: a column
of nested values gives every row the keys of all rows, filled with nulls. Such nulls are taken out
again, and with them any null that was meant.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.digests import canonical_json, tree_digest
from pipeline.errors import GoldenSetError
from pipeline.golden.complaints import Complaint
from pipeline.golden.reading import Library, Record, parse_line, read_library, strict_json

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")
_NESTED = ("messages", "tools", "slices", "meta")


def is_remote(location: str) -> bool:
    """Whether a location is a URL or a hub id, rather than a path on this machine.

    A name in a directory that exists is a path, if a mistyped one: the hub is not asked for it.
    """
    path = Path(location)
    return "://" in location or (not path.parent.is_dir() and _HUB_ID.fullmatch(location) is not None)


def read_table(url: str, shown: str) -> Iterator[Record | Complaint]:
    """The transcripts of a Parquet file; ``line`` is the row, from 1."""
    yield from _records(_stream(shown, "parquet", data_files=url), shown)


def _records(rows: Iterable[Mapping[str, Any]], shown: str) -> Iterator[Record | Complaint]:
    for number, row in enumerate(rows, start=1):
        data = {name: value for name, value in row.items() if value is not None}
        try:
            for name in _NESTED:
                value = data.get(name)
                if isinstance(value, str) and value[:1] in ("[", "{"):
                    data[name] = strict_json(value)
                elif value is not None:
                    data[name] = _without_nulls(value)
        except ValueError as error:
            yield Complaint(shown, number, str(data.get("id", "")), name, f"not JSON: {error}")
            continue
        yield Record(shown, number, data)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


def _stream(shown: str, *arguments: Any, **options: Any) -> Iterator[Mapping[str, Any]]:
    """Rows of a data set.

    :raises GoldenSetError: it cannot be opened, or breaks off.
    """
    import datasets  # takes seconds, and most sets are plain files

    try:
        options.setdefault("split", "train")
        yield from datasets.load_dataset(*arguments, streaming=True, **options)
    except GoldenSetError:
        raise
    except Exception as error:
        raise GoldenSetError(
            f"golden set {shown}: cannot be read: {type(error).__name__}: {error}",
            "Check the name, the network (HF_HUB_OFFLINE), and the access rights.",
        ) from error


@dataclass
class RemoteSource:
    """A set at a URL or on a hub. Its digest is known once all its records were read."""

    location: str
    _seen: Any = field(default_factory=hashlib.sha256)
    _library_digest: str = ""

    @property
    def shown(self) -> str:
        """The location, as given."""
        return self.location

    @property
    def name(self) -> str:
        """The last part of the location."""
        return self.location.rstrip("/").rpartition("/")[2].partition("@")[0].partition(".")[0]

    def library(self) -> tuple[Library, list[Complaint]]:
        """Policies and tools of a set on object storage; a single file or a hub's data set has none."""
        if "://" not in self.location or self._is_file():
            return Library({}, {}), []
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for pattern in ("policies/*.md", "tools/*.json"):
                for file in self._glob(pattern):
                    target = root / pattern.partition("/")[0] / file.rpartition("/")[2]
                    target.parent.mkdir(exist_ok=True)
                    with self._open(file) as source:
                        target.write_bytes(source.read())
            files = [path for path in root.rglob("*") if path.is_file()]
            self._library_digest = tree_digest(root, files)
            return read_library(root, self.location.rstrip("/"))

    def records(self) -> Iterator[Record | Complaint]:
        """All transcripts, one in memory at a time."""
        self._seen = hashlib.sha256()
        for record in self._rows():
            if isinstance(record, Record):
                self._seen.update(canonical_json(record.data).encode())
            yield record

    def digest(self) -> str:
        """SHA-256 (hex) over all records read, in order, and over policies and tools."""
        return hashlib.sha256(f"{self._seen.hexdigest()} {self._library_digest}".encode()).hexdigest()

    def _rows(self) -> Iterator[Record | Complaint]:
        if "://" not in self.location:
            name, _, revision = self.location.partition("@")
            yield from _records(_stream(self.location, name, revision=revision or None), self.location)
            return
        files = [self.location] if self._is_file() else self._glob("transcripts/*.*")
        for url in files:
            if url.endswith(".parquet"):
                yield from read_table(url, url)
                continue
            for number, row in enumerate(_stream(url, "text", data_files=url), start=1):
                if row["text"].strip():
                    yield parse_line(url, number, row["text"].encode())

    def _is_file(self) -> bool:
        return re.search(r"\.(parquet|jsonl?)(\.\w+)?$", self.location) is not None

    def _glob(self, pattern: str) -> list[str]:
        import fsspec

        try:
            system, root = fsspec.core.url_to_fs(self.location)
            found = sorted(system.glob(f"{root.rstrip('/')}/{pattern}"))
        except (OSError, ValueError, ImportError) as error:
            raise GoldenSetError(
                f"golden set {self.location}: cannot be listed: {error}",
                "Check the URL and the access rights; s3:// needs the package s3fs, gs:// needs gcsfs.",
            ) from error
        if not found and pattern.startswith("transcripts"):
            raise GoldenSetError(
                f"golden set {self.location}: no transcripts/ in it", "Give a set's folder, or one file."
            )
        return [str(system.unstrip_protocol(path)) for path in found]

    @staticmethod
    def _open(url: str) -> Any:
        import fsspec

        return fsspec.open(url, "rb")
