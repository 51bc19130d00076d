"""What the tests of the runner share: runs, verdicts to come to, and work that waits to be stopped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import processes
from pipeline.errors import ServerError, Verdict
from pipeline.progress import Silent
from pipeline.request import Request
from pipeline.runner import RunResult, run
from pipeline.store import Store


def run_gate(request: Request, store: Store) -> RunResult:
    return run(request, store, Silent())


def without_times(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del record["times"]
    return record


# With 90 turns in 30 scenarios and a margin of 10 points (one-sided 95 %): no flip proves a loss below 8.3 points;
# 9 losses are a loss of just 10 points, which rules out neither side; 45 losses are 50 points.
CASES: dict[Verdict, dict[str, Callable[[int], bool]]] = {
    Verdict.ACCEPT: {},
    Verdict.INCONCLUSIVE: {"candidate": lambda number: number not in range(0, 27, 3)},
    Verdict.REJECT: {"candidate": lambda number: number % 2 > 0},
    Verdict.INVALID: {"baseline": lambda number: number < 6},  # below its floor: no yardstick
}
ALL_WORK = sorted(
    [*(f"{when} {what}" for when in ("start", "end") for what in ("baseline", "repeat", "candidate")), "quantize"]
)
CODES = {Verdict.ACCEPT: 0, Verdict.REJECT: 10, Verdict.INCONCLUSIVE: 20, Verdict.INVALID: 30}

LIMIT_S = 30
"""For a wait that should end at once; reached only when the test fails."""


def wait(event: threading.Event) -> None:
    assert event.wait(LIMIT_S)


class FakeServer:
    """Work that ends when it is stopped, like a served replay or a quantizer."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.stopped = threading.Event()
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()

    def work(self) -> None:
        processes.enrol(self)
        try:
            self.started.set()
            wait(self.stopped)
            raise ServerError("stopped from outside")
        finally:
            processes.leave(self)
