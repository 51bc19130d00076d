"""How a worker script talks to the control process, see ``pipeline/quantizers/worker.py``.

The job is a JSON file named by the first argument. Reports are JSON lines on standard output:
``{"say": text}``, ``{"done": n, "total": m}`` and at the end ``{"result": {...}}``, or
``{"refused": text, "remedy": text}`` where the user's input cannot be used. Whatever the libraries print
goes to standard error, which the control process keeps as the worker's log.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_report_fd = -1


def start() -> dict[str, Any]:
    """Read the job, tie this process's life to its parent's, and claim standard output for reports."""
    global _report_fd  # noqa: PLW0603 - one report channel a process
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != job["parent_pid"]:  # the parent died before the line above
        sys.exit("the control process is gone")
    _report_fd = os.dup(1)
    os.set_inheritable(_report_fd, False)
    os.dup2(2, 1)
    return job


def _report(record: dict[str, Any]) -> None:
    os.write(_report_fd, (json.dumps(record) + "\n").encode())


def say(text: str) -> None:
    """Report one thing that happened."""
    _report({"say": text})


def advance(done: int, total: int) -> None:
    """Report that ``done`` of ``total`` units are finished."""
    _report({"done": done, "total": total})


def refuse(text: str, remedy: str) -> NoReturn:
    """Report that the user's input cannot be used, and end."""
    _end({"refused": text, "remedy": remedy})


def finish(result: dict[str, Any]) -> NoReturn:
    """Report the result and end: the control process takes a worker without one for failed."""
    _end({"result": result})


def _end(record: dict[str, Any]) -> NoReturn:
    """The interpreter is not wound down: with these libraries that takes seconds and does nothing."""
    _report(record)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
