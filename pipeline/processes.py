"""Every process that the gate has started, so that an interruption stops them all, whoever started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import Interrupted

GRACE_S = 5.0
"""Seconds that a :class:`Group` has to end by itself when it is stopped."""
SIGNAL_S = 0.3
"""Seconds after which a waiting main thread looks for signals."""


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
    # At the same time: each may take its grace.
    stopping = [threading.Thread(target=child.stop) for child in children]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join()


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


def as_done(work: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Each of these futures when it is done.

    Unlike :func:`concurrent.futures.as_completed` it wakes now and then: a signal that another thread receives is
    handled only when the main thread does.
    """
    pending = set(work)
    while pending:
        done, pending = wait(pending, SIGNAL_S, FIRST_COMPLETED)
        yield from done


class Group:
    """A command in a process group of its own: Ctrl-C in a terminal does not reach it, and it ends as a whole.

    ``with Group(command) as process`` starts it; what is left of the group when the block ends is killed.
    ``options`` are those of :class:`subprocess.Popen`. It may be stopped from another thread, even before it starts.

    :raises Interrupted: on entering, when everything is being stopped.
    """

    def __init__(self, command: Sequence[str | Path], **options: Any) -> None:
        self._command = command
        self._options = options
        self._lock = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> subprocess.Popen[bytes]:
        enrol(self)
        try:
            with self._lock:
                if self._stopped:
                    raise Interrupted("interrupted")
                options = {"stdin": subprocess.DEVNULL, **self._options}
                self._process = subprocess.Popen(self._command, start_new_session=True, **options)
        except BaseException:
            self.__exit__()
            raise
        return self._process

    def __exit__(self, *raised: object) -> None:
        self.stop()
        leave(self)

    def stop(self) -> None:
        """End the whole group for certain."""
        with self._lock:
            self._stopped = True
            process = self._process
            if process is None:
                return
            if process.poll() is None:
                _signal(process, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
            _signal(process, signal.SIGKILL)  # also what the command itself may have left behind
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
