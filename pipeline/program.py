"""What surrounds a command: open streams, signals, and how it ends."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.errors import GateError, StageError
from pipeline.reporting.terminal import typed
from pipeline.secrets import scrubbed
from pipeline.visible import visible


@contextlib.contextmanager
def no_exit() -> Iterator[None]:
    """A library that exits the program, perhaps with 0, must not be taken for a verdict."""
    try:
        yield
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # by rich; see `main`
            raise
        raise StageError(f"something ended the program before there was a result (exit {ending.code})") from ending


def guard(command: Any) -> None:
    """Let no command be ended by a library."""
    for each in getattr(command, "commands", {}).values():
        guard(each)
    call = command.callback
    if call is None:
        return

    @functools.wraps(call)
    def guarded(*arguments: Any, **named: Any) -> Any:
        with no_exit():
            return call(*arguments, **named)

    command.callback = guarded


def open_standard_streams() -> None:
    """Open those that the caller closed: a pipe to a child that got number 0 would be lost when the child starts."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def interrupt(number: int, frame: FrameType | None) -> None:
    """Treat a request to end like Ctrl-C, once; cleaning up is not to be interrupted again."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.write(2, b"\ninterrupted: stopping what runs, which takes some seconds\n")
    raise KeyboardInterrupt


def complain(error: GateError) -> int:
    """Tell what went wrong and what to do, and return the exit code."""
    console = Console(stderr=True, emoji=False)
    console.print(Text.assemble(("error:", "bold red"), " ", visible(scrubbed(error.message))), soft_wrap=True)
    if error.remedy:
        console.print(Text.assemble(("remedy:", "bold"), " ", visible(scrubbed(typed(error.remedy)))), soft_wrap=True)
    return error.exit_code
