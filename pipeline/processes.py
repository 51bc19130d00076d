"""Every process that the gate has started, so that an interruption stops them all, whoever started them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Protocol

from pipeline.errors import Interrupted


class Stoppable(Protocol):
    """A started process; ``stop`` may be called from any thread, at any time, repeatedly."""

    def stop(self) -> None:
        """Stop it for certain."""


_lock = threading.Lock()
_running: list[Stoppable] = []
_closing = False


def enrol(child: Stoppable) -> None:
    """Have :func:`stop_all` know ``child``; call it before the process is started.

    :raises Interrupted: everything is being stopped, so nothing may start.
    """
    with _lock:
        go_on()
        _running.append(child)


def go_on() -> None:
    """Let a thread that waits for something other than a process look whether it still should.

    :raises Interrupted: everything is being stopped.
    """
    if _closing:
        raise Interrupted("interrupted")


def leave(child: Stoppable) -> None:
    """Forget ``child``, which has ended; unknown ones are ignored."""
    with _lock, contextlib.suppress(ValueError):
        _running.remove(child)


def stop_all() -> None:
    """Stop every enrolled process and let no further one start."""
    global _closing  # noqa: PLW0603 - the state of this process, like a signal
    with _lock:
        _closing = True
        children = list(_running)
    for child in children:
        child.stop()


@contextlib.contextmanager
def supervised(threads: Executor | None = None) -> Iterator[None]:
    """When the block raises (Ctrl-C included), stop everything, so that ``threads`` waiting for a process end.

    Nothing may start until they have ended. After an error it may again; after an interruption, which can come
    before ``threads`` knows of a thread that it has just begun, only inside the next such block.
    """
    global _closing  # noqa: PLW0603
    with _lock:
        _closing = False
    try:
        yield
    except BaseException as error:
        stop_all()
        if threads is not None:
            threads.shutdown()
        with _lock:
            _closing = not isinstance(error, Exception)
        raise
