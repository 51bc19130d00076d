"""Commands in the terminal can be typed as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.reporting import terminal
from pipeline.reporting.terminal import typed


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the program, below the working directory, and no other on the PATH."""
    file = tmp_path / ".venv" / "bin" / "quant-gate"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n", encoding="utf-8")
    file.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal.sys, "executable", str(file.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    return file


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("quant-gate run --model demo", ".venv/bin/quant-gate run --model demo"),
        ("See `quant-gate plan`, or quant-gate's page.", "See `.venv/bin/quant-gate plan`, or quant-gate's page."),
        ("make gate", "make gate"),
    ],
)
def test_the_program_is_named_where_it_is(text: str, shown: str) -> None:
    assert typed(text) == shown


def test_it_stays_as_it_is_where_it_is_on_the_path(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert typed("quant-gate run") == "quant-gate run"


def test_or_where_there_is_none(program: Path) -> None:
    program.unlink()
    assert typed("quant-gate run") == "quant-gate run"
