"""The whole self-test: every fault and every rate, on all cores."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from pipeline import golden as golden_sets
from pipeline.evidence.record import read_decision
from pipeline.progress import Progress
from pipeline.selftest import reply_level
from pipeline.selftest.case import Case, make_case
from pipeline.selftest.catalogue import Fault, Result, Sound, faults
from pipeline.selftest.checkpoint_level import run_faults
from pipeline.selftest.rates import QUESTIONS, Rate
from pipeline.selftest.report import Report
from pipeline.settings import PROJECT_ROOT, load_gate
from pipeline.store import Store

STAGE = "selftest"
RESULT = "selftest/result.json"
"""Where the report is kept, below the store."""
GOLDEN = PROJECT_ROOT / "golden_sets" / "support"

Found = Sound | Result | Rate
Job = Callable[[], Sequence[Found]]


def selftest(store: Store, progress: Progress, full: bool = False) -> Report:
    """Run the reply-level faults and the simulations; with ``full`` the checkpoint-level faults as well.

    The shipped golden set and the shipped policy are what is tested. The report is kept below ``store``.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="selftest-", dir=_made(store.root)) as folder:
        jobs: list[Job] = [partial(_accepts_itself, Path(folder))]
        jobs += [partial(_measure, name) for name in QUESTIONS]
        jobs += [partial(_inject, Path(folder), fault) for fault in faults("reply")]
        done = _all(jobs, progress)
    if full:
        done += run_faults(store, faults("checkpoint"), progress)
    report = Report(
        sound=tuple(item for item in done if isinstance(item, Sound)),
        results=tuple(item for item in done if isinstance(item, Result)),
        rates=tuple(item for item in done if isinstance(item, Rate)),
        seconds=time.monotonic() - started,
    )
    report.write(store.root / RESULT)
    return report


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _all(jobs: Sequence[Job], progress: Progress) -> list[Found]:
    """Run ``jobs`` in processes of their own; what they find in the order of the jobs."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads that show progress
    pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context, initializer=_leave_signals_to_the_parent)
    with pool:
        try:
            waiting = [pool.submit(job) for job in jobs]
            for done, _ in enumerate(concurrent.futures.as_completed(waiting), 1):
                progress.advance(STAGE, done, len(jobs))
            return [item for future in waiting for item in future.result()]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_signals_to_the_parent() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@cache
def _case() -> Case:
    return make_case(golden_sets.load(GOLDEN), load_gate())


def _accepts_itself(folder: Path) -> list[Sound]:
    decision = read_decision(reply_level.decision_of(Store(folder), _case()))
    return [Sound("baseline against itself", decision["verdict"], decision["reasons"][0]["text"])]


def _inject(folder: Path, fault: Fault) -> list[Result]:
    return [reply_level.run_fault(Store(folder), fault, _case())]


def _measure(name: str) -> list[Rate]:
    case = _case()
    return QUESTIONS[name].measure(case.golden, case.policy)
