"""Stopping whatever was started, from whichever thread."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from pipeline.errors import Interrupted
from pipeline.processes import as_done, enrol, go_on, leave, stop_all, supervised


class Child:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_failing_block_stops_what_it_enrolled() -> None:
    left, kept = Child(), Child()
    with pytest.raises(ZeroDivisionError), supervised():
        enrol(left)
        enrol(kept)
        leave(left)
        raise ZeroDivisionError
    assert (left.stops, kept.stops) == (0, 1)
    leave(kept)


def test_nothing_starts_until_the_threads_have_ended() -> None:
    """A thread that was computing when all was stopped must not start a process afterwards."""
    late, next_time, computed = Child(), Child(), threading.Event()

    def compute_then_start() -> None:
        assert computed.wait(60)
        enrol(late)

    with ThreadPoolExecutor() as pool:
        with pytest.raises(ZeroDivisionError), supervised(pool):
            work = pool.submit(compute_then_start)
            threading.Timer(0.1, computed.set).start()
            raise ZeroDivisionError
        assert work.done()
        with pytest.raises(Interrupted):
            work.result()
    enrol(next_time)  # what broke one run does not outlast it
    leave(next_time)


def test_after_an_interruption_nothing_starts_until_a_new_block() -> None:
    """A thread that was being begun when the signal came is known to nobody, and must not start an engine."""
    late = Child()
    with pytest.raises(KeyboardInterrupt), supervised():
        raise KeyboardInterrupt
    with pytest.raises(Interrupted):
        enrol(late)
    with supervised():
        enrol(late)
    leave(late)


def test_a_waiting_thread_learns_that_it_should_not() -> None:
    go_on()
    with supervised():
        stop_all()
        with pytest.raises(Interrupted):
            go_on()
    with supervised():
        go_on()


def test_all_are_stopped_at_the_same_time() -> None:
    """Each waits for the other to be stopped as well."""
    meeting = threading.Barrier(2, timeout=30)
    met = []

    class Meeting:
        def stop(self) -> None:
            met.append(meeting.wait())

    children = [Meeting(), Meeting()]
    for child in children:
        enrol(child)
    stop_all()
    for child in children:
        leave(child)
    with supervised():
        pass
    assert sorted(met) == [0, 1]


def test_a_quiet_block_stops_nothing() -> None:
    child = Child()
    with supervised():
        enrol(child)
    assert child.stops == 0
    leave(child)
    leave(child)  # twice is harmless
    stop_all()
    assert child.stops == 0
    with supervised():
        pass


def test_futures_come_as_they_are_done_and_each_once() -> None:
    first, second = Future[int](), Future[int]()
    coming = as_done([first, second])
    second.set_result(2)
    assert next(coming) is second
    first.set_exception(KeyError("broke"))
    assert next(coming) is first
    assert list(coming) == []
    assert list(as_done([])) == []
