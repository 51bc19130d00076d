"""The store of stage outputs: one directory per (stage, digest of its declared inputs).

A directory under ``stages/<stage>/<key>`` exists only when it is complete: work happens in a
neighbouring ``.work`` directory under a lock and is renamed in. A stage that keeps partial work
(``resumable``) finds its earlier ``.work`` directory again; any other starts from an empty one.
Its record lists the files that it was kept with, so that a damaged or edited one is not taken for whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pipeline.digests import digest_of, file_digest
from pipeline.errors import DiskSpaceError, GateError, RecordError, UsageError
from pipeline.processes import go_on
from pipeline.settings import PROJECT_ROOT

STAGE_FILE = "stage.json"
DIGESTED_BYTES = 64 << 20
"""Files up to this size are known by size and digest, larger ones (weights) by size; who reads those digests them."""
LOOK_S = 0.2
"""Seconds between looks at a lock that another run holds."""


@dataclass(frozen=True, slots=True)
class StageOutput:
    """A complete stage output. ``seconds`` is the time it took when it was made."""

    stage: str
    key: str
    path: Path
    reused: bool
    seconds: float


def home() -> Path:
    """Where the gate keeps its work: ``$QUANT_GATE_HOME``, else ``.quant-gate`` in the project."""
    return Path(os.environ.get("QUANT_GATE_HOME") or PROJECT_ROOT / ".quant-gate").resolve()


class Store:
    """Makes or reuses stage outputs below ``root`` (default :func:`home`)."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or home()

    def path_of(self, stage: str, inputs: Mapping[str, Any]) -> Path:
        """Where the output for these inputs is, or will be."""
        return self.root / "stages" / stage / digest_of(inputs)[:16]

    def find(self, stage: str, inputs: Mapping[str, Any]) -> StageOutput | None:
        """The complete output for these inputs, or None."""
        path = self.path_of(stage, inputs)
        return _read(stage, path) if path.is_dir() else None

    def make(
        self,
        stage: str,
        inputs: Mapping[str, Any],
        build: Callable[[Path], None],
        *,
        resumable: bool = False,
        unfinished: Callable[[Path], bool] = lambda _: False,
        needs_bytes: int = 0,
    ) -> StageOutput:
        """Reuse the output for ``inputs``, or have ``build`` fill an empty directory and keep it.

        :param inputs: everything the output depends on, as JSON values.
        :param resumable: keep what ``build`` wrote when it fails, and hand it to the next try.
        :param unfinished: says of a kept output whether ``build`` is to go on with it (of a resumable stage only).
        :param needs_bytes: free bytes demanded before the work starts.
        :raises DiskSpaceError: not enough room, before or during the work.
        :raises UsageError: the store cannot be written.
        :raises Interrupted: while another run was making the same output.
        """
        final = self.path_of(stage, inputs)
        if final.is_dir() and not unfinished((kept := _read(stage, final)).path):
            return kept
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            lock = final.with_suffix(".lock").open("w")
        except OSError as error:
            raise _no_space(stage, final, error) or UsageError(
                f"cannot write stage outputs to {self.root}: {error}", "Set QUANT_GATE_HOME to a directory of yours."
            ) from error
        with _locked(lock):
            if final.is_dir() and not unfinished((kept := _read(stage, final)).path):  # made while this one waited
                return kept
            free = shutil.disk_usage(final.parent).free
            if free < needs_bytes:
                raise DiskSpaceError(
                    f"stage {stage} needs {needs_bytes / 1e9:.1f} GB in {final.parent}, {free / 1e9:.1f} GB are free",
                    "Free some space (`make clean` removes kept stage outputs) or set QUANT_GATE_HOME elsewhere.",
                )
            work = final.with_suffix(".work")
            if not resumable:
                shutil.rmtree(work, ignore_errors=True)
            started = time.time()
            try:
                if final.is_dir():
                    final.rename(work)
                work.mkdir(exist_ok=True)
                build(work)
                seconds = time.time() - started
                record = {
                    "stage": stage,
                    "inputs": inputs,
                    "started": started,
                    "seconds": seconds,
                    "files": _files(work),
                }
                (work / STAGE_FILE).write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
            except OSError as error:
                if not resumable:
                    shutil.rmtree(work, ignore_errors=True)
                if full := _no_space(stage, final, error):
                    raise full from error
                raise
            except BaseException:
                if not resumable:
                    shutil.rmtree(work, ignore_errors=True)
                raise
            work.rename(final)
            return StageOutput(stage, final.name, final, False, seconds)


def record_of(path: Path) -> dict[str, Any]:
    """The record of the kept output in ``path``.

    :raises RecordError: it is damaged.
    """
    try:
        return dict(json.loads((path / STAGE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path}: kept stage output is damaged: {error!r}", f"Remove {path} and run again.")


def _read(stage: str, path: Path) -> StageOutput:
    record = record_of(path)
    try:
        output = StageOutput(stage, path.name, path, True, float(record["seconds"]))
        kept, found = record["files"], _files(path)
        altered = [name for name in sorted(kept.keys() | found.keys()) if found.get(name) != kept.get(name)]
        belongs = record["stage"] == stage and digest_of(record["inputs"])[:16] == path.name
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, error) from error
    if not belongs:
        raise RecordError(f"{path}: kept stage output is that of other inputs", f"Remove {path} and run again.")
    if altered:
        raise RecordError(
            f"{path}: kept stage output was altered: {', '.join(altered[:5])}", f"Remove {path} and run again."
        )
    return output


def started_at(output: StageOutput) -> float:
    """When the work on a kept output began, in seconds since 1970.

    :raises RecordError: its record is damaged.
    """
    try:
        return float(record_of(output.path)["started"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(output.path, error) from error


def _files(root: Path) -> dict[str, Any]:
    """Size and digest of every file below ``root`` but the record itself."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name != STAGE_FILE and path.is_file():
            size = path.stat().st_size
            found[name] = [size, file_digest(path) if size <= DIGESTED_BYTES else None]
    return found


def _no_space(stage: str, final: Path, error: OSError) -> GateError | None:
    """The error to raise instead, when ``error`` means a full disk."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return DiskSpaceError(
        f"stage {stage}: no space left in {final.parent}",
        "Free some space or set QUANT_GATE_HOME to a larger disk, then run again.",
    )


@contextlib.contextmanager
def _locked(handle: IO[str]) -> Iterator[None]:
    """Hold an exclusive lock file; the lock dies with the process.

    Waiting is done in steps: a thread that sleeps in the kernel could not be told that the gate is interrupted.
    """
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                go_on()
                time.sleep(LOOK_S)
        yield
