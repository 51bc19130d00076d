"""A directory as one ``.tar.zst``, written and read as a stream, so that memory does not grow with it."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import zstandard

from pipeline.errors import RecordError, UsageError

LEVEL = 10
"""Requests repeat the same policies and tools: a long window finds them, higher levels gain little."""
WINDOW_LOG = 26
"""2^26 bytes: 64 MiB of memory at most, on reading as well."""


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

    :raises RecordError: not such an archive, damaged, or with such a member.
    """
    try:
        with (
            archive.open("rb") as handle,
            zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(handle, closefd=False) as stream,
            tarfile.open(fileobj=io.BufferedReader(stream), mode="r|") as members,
        ):
            for member in members:
                if not (member.isfile() or member.isdir()):
                    raise RecordError(f"{archive}: {member.name} is neither a file nor a directory", _REMEDY)
                members.extract(member, root, filter="data")
            _drain(stream)
    except (OSError, tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise RecordError(f"{archive}: cannot be read as a bundle: {error}", _REMEDY) from error


_REMEDY = "Give a file that `quant-gate bundle` wrote, or fetch it again: it is damaged or something else."


def _drain(stream: zstandard.ZstdDecompressionReader) -> None:
    """Read to the end, where the checksum of the whole is."""
    with contextlib.suppress(EOFError):
        while stream.read(1 << 20):
            pass
