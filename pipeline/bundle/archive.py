"""A directory as one ``.tar.zst``, written and read as a stream, so that memory does not grow with it."""

from __future__ import annotations

import contextlib
import errno
import io
import tarfile
from pathlib import Path
from typing import Any

import zstandard

from pipeline.errors import DiskSpaceError, RecordError, UsageError

LEVEL = 10
"""Requests repeat the same policies and tools: a long window finds them, higher levels gain little."""
WINDOW_LOG = 26
"""2^26 bytes: 64 MiB of memory at most, on reading as well."""
LEAST_LIMIT, EXPANSION = 1 << 30, 1000
"""Files may come to 1 GiB, or to 1000 times the archive where that is more: real evidence comes to some 50 times."""
HEADERS = 1 << 20
"""Bytes allowed beside the contents of each file, for names and padding."""
DEPTH = 8
"""Parts of a file's name at most; a bundle's have three."""


def pack(root: Path, target: Path) -> None:
    """Write all files below ``root`` to ``target``, in name order and without times, owners and modes.

    :raises UsageError: ``target`` cannot be written.
    """
    parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=WINDOW_LOG, write_checksum=True)
    draft = target.with_name(f".{target.name}.partial")
    try:
        with (
            draft.open("wb") as handle,
            zstandard.ZstdCompressor(compression_params=parameters).stream_writer(handle, closefd=False) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                member = tarfile.TarInfo(path.relative_to(root).as_posix())
                member.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(member, content)
        draft.replace(target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error}", "Check the path and the space left.") from error
    finally:
        draft.unlink(missing_ok=True)


def unpack(archive: Path, root: Path) -> None:
    """Unpack below ``root``; nothing that would land outside of it, no links and no devices.

    :raises RecordError: not such an archive, damaged, with such a member, or of files larger than is allowed.
    :raises DiskSpaceError: no room for them.
    """
    try:
        left = max(LEAST_LIMIT, EXPANSION * archive.stat().st_size)
        with (
            archive.open("rb") as handle,
            zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(handle, closefd=False) as stream,
            _Limited(archive, stream) as limited,
            tarfile.open(fileobj=io.BufferedReader(limited), mode="r|") as members,
        ):
            for member in members:
                left -= member.size
                if left < 0:
                    raise _too_large(archive)
                limited.left += member.size + HEADERS
                if member.name.count("/") >= DEPTH:
                    raise RecordError(f"{archive}: a file more than {DEPTH} folders deep", _REMEDY)
                if not (member.isfile() or member.isdir()):
                    raise RecordError(f"{archive}: {member.name} is neither a file nor a directory", _REMEDY)
                members.extract(member, root, filter="data")
            _drain(limited)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskSpaceError(f"{archive}: no room to unpack it in {root}", _ROOM) from error
        raise RecordError(f"{archive}: cannot be read as a bundle: {error}", _REMEDY) from error
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise RecordError(f"{archive}: cannot be read as a bundle: {error}", _REMEDY) from error


_REMEDY = "Give a file that `quant-gate bundle` wrote, or fetch it again: it is damaged or something else."
_ROOM = "Free some space, or set TMPDIR to a larger disk."


def _too_large(archive: Path) -> RecordError:
    return RecordError(
        f"{archive}: expands to more than {EXPANSION} times its size and {LEAST_LIMIT >> 20} MiB: no evidence does",
        _REMEDY,
    )


class _Limited(io.RawIOBase):
    """What an archive expands to, up to ``left`` bytes more: headers are read to memory before their size is known."""

    def __init__(self, archive: Path, stream: zstandard.ZstdDecompressionReader) -> None:
        self.left = HEADERS
        self._archive, self._stream = archive, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._stream.readinto(buffer)
        self.left -= count
        if self.left < 0:
            raise _too_large(self._archive)
        return count


def _drain(stream: io.RawIOBase) -> None:
    """Read to the end, where the checksum of the whole is."""
    with contextlib.suppress(EOFError):
        while stream.read(1 << 20):
            pass
