"""Runs a worker script in another environment's Python: one job in, progress out, no orphan left.

The worker gets its own process group, so Ctrl-C in a terminal reaches the control process alone, which
then ends the group; and the kernel ends the worker when the control process dies (``worker_io.py``).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.digests import tree_digest
from pipeline.errors import DiskSpaceError, GoldenSetError, QuantizeError
from pipeline.processes import Group
from pipeline.progress import Progress

SCRIPTS = Path(__file__).resolve().parent / "workers"
_LOG_LINES = 15
_LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")  # the last would cost 10 s of compiling a start
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "Cannot allocate memory", "can't allocate memory")
_OUT_OF_DISK = ("No space left on device", "Disk quota exceeded")


def source_digest(script: str, *parts: str) -> str:
    """Digest of a worker's source and of the modules that it imports: other code may make another candidate."""
    return tree_digest(SCRIPTS, [SCRIPTS / name for name in (script, *parts, "worker_io.py")])


def run_worker(
    script: str, job: Mapping[str, Any], *, python: Path, folder: Path, stage: str, progress: Progress
) -> dict[str, Any]:
    """Run ``workers/<script>`` on ``job`` and return its result.

    ``folder`` receives ``job.json`` and ``worker.log``.

    :raises GoldenSetError: it refused the calibration text.
    :raises QuantizeError: it failed or was killed; shows the end of its log.
    :raises DiskSpaceError: it ran out of disk space.
    """
    job_file, log_file = folder / "job.json", folder / "worker.log"
    job_file.write_text(json.dumps({**job, "parent_pid": os.getpid()}, indent=1), encoding="utf-8")
    command = [python, SCRIPTS / script, job_file]
    result: dict[str, Any] | None = None
    with (
        log_file.open("wb") as log,
        Group(command, stdout=subprocess.PIPE, stderr=log, env=_environment()) as process,
    ):
        assert process.stdout is not None
        with process.stdout as reports:
            for line in reports:
                record = json.loads(line)
                if "say" in record:
                    progress.say(stage, record["say"])
                elif "done" in record:
                    progress.advance(stage, record["done"], record["total"])
                elif "refused" in record:
                    raise GoldenSetError(record["refused"], record["remedy"])
                else:
                    result = record["result"]
        code = process.wait()
    if code != 0 or result is None:
        _fail(script, code, log_file)
    assert result is not None
    return result


def _environment() -> dict[str, str]:
    """The worker's environment: its own packages only, no network, threads that do not spin while waiting."""
    environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return environment | {
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONNOUSERSITE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


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
