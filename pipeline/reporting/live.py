"""Progress on the terminal: live bars where there is a terminal, else a line a stage."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text


class LiveProgress:
    """A :class:`pipeline.progress.Progress` that draws on ``console``; use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._tasks: dict[str, TaskID] = {}
        self._quarters: dict[str, int] = {}
        self._bars = Bars(
            TextColumn("[bold]{task.fields[stage]:<20}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, stage: str, text: str) -> None:
        """Print one line, with the time since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        with self._lock:
            self._bars.console.print(
                Text.assemble((f"{minutes:>3}:{seconds:02}", "dim"), "  ", (f"{stage:<20}", "bold"), " ", text),
                soft_wrap=True,
            )

    def advance(self, stage: str, done: int, total: int) -> None:
        """Move the bar of ``stage``; without a terminal, print a line at every quarter."""
        if not self._console.is_terminal:
            quarter = 4 * done // total if total else 0
            with self._lock:
                news = 0 < quarter < 4 and self._quarters.get(stage, 0) < quarter
                self._quarters[stage] = max(quarter, self._quarters.get(stage, 0))
            if news:
                self.say(stage, f"{done} of {total}")
            return
        with self._lock:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task("", total=total, stage=stage)
            self._bars.update(self._tasks[stage], completed=done, total=total, visible=done < total)
