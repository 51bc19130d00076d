"""The seam through which long work reports how far it is; the command line decides how to show it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives progress; implementations must be safe to call from several threads."""

    def say(self, stage: str, text: str) -> None:
        """Report one thing that happened in ``stage``."""

    def advance(self, stage: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` units of ``stage`` are finished."""


class Silent:
    """A :class:`Progress` that shows nothing."""

    def say(self, stage: str, text: str) -> None:
        """Ignore."""

    def advance(self, stage: str, done: int, total: int) -> None:
        """Ignore."""
