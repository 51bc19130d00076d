"""Where a golden set lies, and how its transcripts are read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.digests import tree_digest
from pipeline.errors import GoldenSetError
from pipeline.golden.complaints import Complaint
from pipeline.golden.reading import Library, Record, read_jsonl, read_library
from pipeline.golden.streaming import RemoteSource, is_remote, read_table


@dataclass(frozen=True, slots=True)
class Source:
    """A golden set on this machine: a directory, or one file of transcripts.

    ``home`` holds ``policies/`` and ``tools/``; ``shown`` is how the set is named in messages.
    """

    root: Path
    home: Path
    shown: str
    transcripts: tuple[Path, ...]

    @property
    def name(self) -> str:
        """The set's name: that of its directory or file."""
        return self.root.resolve().stem

    def library(self) -> tuple[Library, list[Complaint]]:
        """The set's policies and tools."""
        return read_library(self.home, _shown(self.home))

    def records(self) -> Iterator[Record | Complaint]:
        """All transcripts, file by file in name order, one in memory at a time."""
        for path in self.transcripts:
            if path.suffix == ".parquet":
                yield from read_table(path.as_posix(), _shown(path))
            else:
                yield from read_jsonl(path, _shown(path))

    def files(self) -> list[Path]:
        """All files that the set consists of."""
        return [
            *self.transcripts,
            *sorted((self.home / "policies").glob("*.md")),
            *sorted((self.home / "tools").glob("*.json")),
        ]

    def digest(self) -> str:
        """SHA-256 (hex) over names and contents of all files."""
        return tree_digest(self.home, self.files())


def open_source(location: Path | str) -> Source | RemoteSource:
    """Find a set: a directory or file on this machine, a URL, or a hub id.

    :raises GoldenSetError: nothing is there, or no transcripts.
    """
    return RemoteSource(str(location)) if is_remote(str(location)) else open_local(Path(location))


def open_local(root: Path) -> Source:
    """Find the files of a set on this machine.

    :raises GoldenSetError: nothing is there, or no transcripts.
    """
    try:
        is_file, is_directory = root.is_file(), root.is_dir()
    except OSError as error:
        raise GoldenSetError(f"golden set {str(root)[:300]}: {error.strerror}", "Correct the path.") from error
    if is_file:
        parent = root.parent
        home = parent.parent if parent.name == "transcripts" else parent
        return Source(root, home, _shown(root), (root,))
    if not is_directory:
        raise GoldenSetError(
            f"golden set {root}: no such file or directory", "Give a directory with transcripts/*.jsonl, or one file."
        )
    transcripts = tuple(
        sorted(path for path in (root / "transcripts").glob("*") if path.suffix in (".jsonl", ".parquet"))
    )
    if not transcripts:
        raise GoldenSetError(
            f"golden set {root}: no transcripts/*.jsonl in it",
            "Put transcripts there, one JSON object a line; docs/golden-sets.md shows how.",
        )
    return Source(root, root, _shown(root), transcripts)


def _shown(path: Path) -> str:
    """Relative to the working directory where that is shorter."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError, RuntimeError):  # elsewhere, or a loop of symbolic links
        return path.as_posix()
