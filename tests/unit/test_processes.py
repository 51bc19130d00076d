"""Stopping whatever was started, from whichever thread."""

from __future__ import annotations

import pytest

from pipeline.errors import Interrupted
from pipeline.processes import enrol, leave, stop_all, supervised


class Child:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_failing_block_stops_what_it_enrolled_and_lets_nothing_start() -> None:
    left, kept, late = Child(), Child(), Child()
    with pytest.raises(ZeroDivisionError), supervised():
        enrol(left)
        enrol(kept)
        leave(left)
        raise ZeroDivisionError
    assert (left.stops, kept.stops) == (0, 1)
    with pytest.raises(Interrupted):
        enrol(late)
    leave(kept)
    with supervised():
        enrol(late)  # a new block may start things again
        leave(late)


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
