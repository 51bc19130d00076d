"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from pipeline.progress import Progress
from pipeline.reporting.live import LiveProgress


def log(width: int = 80) -> tuple[io.StringIO, Console]:
    """Where output goes that is no terminal."""
    buffer = io.StringIO()
    return buffer, Console(file=buffer, width=width, force_terminal=False)


def test_without_a_terminal_it_is_a_line_a_stage_and_a_line_a_quarter() -> None:
    buffer, console = log()
    with LiveProgress(console) as live:
        progress: Progress = live
        progress.say("resolve", "demo: 269 MB")
        for done in range(101):
            progress.advance("replay baseline", done, 100)
        progress.say("replay", "done")
    lines = [line.split(maxsplit=1)[1] for line in buffer.getvalue().splitlines()]
    assert [" ".join(line.split()) for line in lines] == [
        "resolve demo: 269 MB",
        "replay baseline 25 of 100",
        "replay baseline 50 of 100",
        "replay baseline 75 of 100",
        "replay done",
    ]
    assert "\x1b" not in buffer.getvalue()


def test_quarters_are_counted_per_stage_and_once() -> None:
    buffer, console = log()
    with LiveProgress(console) as live:
        for stage in ("one", "two"):
            for done in (0, 60, 60, 40, 99, 100, 100):
                live.advance(stage, done, 100)
        live.advance("empty", 0, 0)
        live.advance("single", 1, 1)
    assert [line.split()[1:] for line in buffer.getvalue().splitlines()] == [
        [stage, done, "of", "100"] for stage in ("one", "two") for done in ("60", "99")
    ]


@pytest.mark.parametrize(
    "text", ["[bold]x[/bold] [/red]", "[link=http://a]b", "model [a/b]", "ends with \\", "a:x:b :warning:"]
)
@pytest.mark.parametrize("terminal", [False, True])
def test_text_is_shown_as_it_is(text: str, terminal: bool) -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=100, force_terminal=terminal, color_system=None)
    with LiveProgress(console) as live:
        live.say("stage", text)
    assert f" {text}\n" in buffer.getvalue()


def test_a_long_line_stays_one_line() -> None:
    buffer, console = log(width=40)
    with LiveProgress(console) as live:
        live.say("stage", "word " * 40)
    assert len(buffer.getvalue().splitlines()) == 1


def test_on_a_terminal_a_bar_shows_what_is_under_way_and_goes() -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=100, force_terminal=True, color_system=None)
    with LiveProgress(console) as live:
        live.advance("replay baseline", 3, 10)
        live._bars.refresh()
        assert "3/10" in buffer.getvalue()
        live.advance("replay baseline", 10, 10)
        shown = len(buffer.getvalue())
        live._bars.refresh()
        assert "10/10" not in buffer.getvalue()[shown:]  # what is finished makes room


def test_threads_may_report_at_the_same_time() -> None:
    buffer, console = log()
    with LiveProgress(console) as live:

        def report(stage: str) -> None:
            for done in range(201):
                live.advance(stage, done, 200)

        threads = [threading.Thread(target=report, args=(f"stage{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = buffer.getvalue().splitlines()
    assert sorted(" ".join(line.split()[1:]) for line in lines) == sorted(
        f"stage{number} {done} of 200" for number in range(8) for done in (50, 100, 150)
    )


def test_an_error_inside_passes() -> None:
    _, console = log()
    with pytest.raises(ZeroDivisionError), LiveProgress(console):
        raise ZeroDivisionError
