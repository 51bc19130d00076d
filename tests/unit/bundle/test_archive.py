"""Archives that would fill memory or disk, or that the system cannot take."""

from __future__ import annotations

import errno
import tarfile
from pathlib import Path

import pytest
import zstandard

from pipeline.bundle.archive import unpack
from pipeline.errors import DiskSpaceError, RecordError


def archive(folder: Path, member: tarfile.TarInfo, content: bytes = b"") -> Path:
    """An archive whose one member need not be as long as it says."""
    path = folder / "sent.tar.zst"
    head = member.tobuf(tarfile.PAX_FORMAT)
    blocks = head + content + bytes(-len(content) % 512) + bytes(10240)
    path.write_bytes(zstandard.compress(blocks))
    return path


def member(name: str, size: int = 0, **headers: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.pax_headers = size, headers
    return made


def test_a_small_file_is_unpacked(tmp_path: Path) -> None:
    unpack(archive(tmp_path, member("a", 3), b"abc"), tmp_path / "root")
    assert (tmp_path / "root" / "a").read_bytes() == b"abc"


@pytest.mark.parametrize(
    "bomb", [member("a", 3 << 30), member("a", comment="x" * (2 << 20))], ids=["content", "header"]
)
def test_what_expands_without_measure_is_refused(bomb: tarfile.TarInfo, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="expands to more than"):
        unpack(archive(tmp_path, bomb), tmp_path / "root")


def test_zeros_behind_the_last_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="expands to more than"):
        unpack(archive(tmp_path, member("a", 0), bytes(4 << 20)), tmp_path / "root")


def test_folders_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="folders deep"):
        unpack(archive(tmp_path, member("a/" * 3000 + "b")), tmp_path / "root")


def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    with pytest.raises(DiskSpaceError, match="no room"):
        unpack(archive(tmp_path, member("a", 3), b"abc"), tmp_path / "root")
