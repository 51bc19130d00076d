"""What files say cannot steer the terminal it is printed on."""

from __future__ import annotations

import pytest

from pipeline.bundle.layout import Difference
from pipeline.errors import RecordError
from pipeline.golden.complaints import Complaint
from pipeline.program import complain

CLEARS = "\x1b[2J"
SHOWN = "\u27e8U+001B\u27e9[2J"


def test_differences_and_complaints_show_control_characters() -> None:
    assert str(Difference(f"a{CLEARS}", "is missing")) == f"a{SHOWN}: is missing"
    assert str(Complaint("x.jsonl", 1, f"a{CLEARS}", "id", "bad")) == f"x.jsonl:1: a{SHOWN}: id: bad"


def test_errors_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert complain(RecordError(f"a{CLEARS}", f"remove a{CLEARS}")) == 30
    told = capsys.readouterr().err
    assert f"error: a{SHOWN}" in told and f"remedy: remove a{SHOWN}" in told
