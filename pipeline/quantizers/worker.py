"""Runs a worker script in another environment's Python: one job in, progress out, no orphan left.

The worker gets its own process group, so Ctrl-C in a terminal reaches the control process alone, which
then ends the group; and the kernel ends the worker when the control process dies (``worker_io.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pipeline.digests import tree_digest
from pipeline.errors import DiskSpaceError, Interrupted, QuantizeError
from pipeline.processes import enrol, leave
from pipeline.progress import Progress

SCRIPTS = Path(__file__).resolve().parent / "workers"
_LOG_LINES = 15
_GRACE_S = 5.0
_LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")  # the last would cost 10 s of compiling a start
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "Cannot allocate memory", "can't allocate memory")
_OUT_OF_DISK = ("No space left on device", "Disk quota exceeded")


def source_digest(script: str) -> str:
    """Digest of a worker's source: other code may make another candidate."""
    return tree_digest(SCRIPTS, [SCRIPTS / script, SCRIPTS / "worker_io.py"])


def run_worker(
    script: str, job: Mapping[str, Any], *, python: Path, folder: Path, stage: str, progress: Progress
) -> dict[str, Any]:
    """Run ``workers/<script>`` on ``job`` and return its result.

    ``folder`` receives ``job.json`` and ``worker.log``.

    :raises QuantizeError: it failed or was killed; shows the end of its log.
    :raises DiskSpaceError: it ran out of disk space.
    """
    job_file, log_file = folder / "job.json", folder / "worker.log"
    job_file.write_text(json.dumps({**job, "parent_pid": os.getpid()}, indent=1), encoding="utf-8")
    with log_file.open("wb") as log:
        worker = _Worker([str(python), str(SCRIPTS / script), str(job_file)], log)
        enrol(worker)
        try:
            code, result = worker.run(stage, progress)
        finally:
            worker.stop()
            leave(worker)
    if code != 0 or result is None:
        _fail(script, code, log_file)
    assert result is not None
    return result


class _Worker:
    """A worker process. It may be stopped from another thread than the one that runs it, even before it starts."""

    def __init__(self, command: list[str], log: IO[bytes]) -> None:
        self._command = command
        self._log = log
        self._lock = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, stage: str, progress: Progress) -> tuple[int, dict[str, Any] | None]:
        """Run to the end; returns the exit status (negative: the signal) and the reported result."""
        with self._lock:
            if self._stopped:
                raise Interrupted("interrupted")
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=_environment(),
                start_new_session=True,
            )
        result: dict[str, Any] | None = None
        assert process.stdout is not None
        with process.stdout as reports:
            for line in reports:
                record = json.loads(line)
                if "say" in record:
                    progress.say(stage, record["say"])
                elif "done" in record:
                    progress.advance(stage, record["done"], record["total"])
                else:
                    result = record["result"]
        return process.wait(), result

    def stop(self) -> None:
        """End the worker's whole group for certain."""
        with self._lock:
            self._stopped = True
            process = self._process
            if process is None:
                return
            if process.poll() is None:
                _signal_group(process, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)
            _signal_group(process, signal.SIGKILL)  # also what the worker itself may have left behind
            process.wait()


def _environment() -> dict[str, str]:
    """The worker's environment: its own packages only, no network, threads that do not spin while waiting."""
    environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return environment | {
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONNOUSERSITE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _fail(script: str, code: int, log_file: Path) -> None:
    kept = log_file.parent.with_suffix(".failed.log")  # the folder goes away with the failed stage
    shutil.copyfile(log_file, kept)
    text = log_file.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
    lines = [line for line in text.splitlines() if line.strip()]
    tail = "\n".join(f"  {line[:300]}" for line in lines[-_LOG_LINES:]) or "  (its log is empty)"
    end = "\n".join(lines[-_LOG_LINES:])
    if any(sign in end for sign in _OUT_OF_DISK):
        raise DiskSpaceError(
            f"{script}: no space left on the disk\n{tail}",
            "Free some space or set QUANT_GATE_HOME to a larger disk, then run again.",
        )
    if code == -signal.SIGKILL:
        what, remedy = (
            "was killed by signal 9, most often because the machine ran out of memory",
            "Free memory, or use a machine that holds the model's weights twice over.",
        )
    elif any(sign in end for sign in _OUT_OF_MEMORY):
        what, remedy = "ran out of memory", "Free memory, or lower the recipe's calibration `max_tokens`."
    elif code < 0:
        what, remedy = f"was killed by signal {-code}", "Run again; the log above tells how far it got."
    else:
        what, remedy = f"failed (exit status {code})", "Mend what the log above names, then run again."
    raise QuantizeError(f"{script} {what}. End of its log ({kept}):\n{tail}", remedy)
