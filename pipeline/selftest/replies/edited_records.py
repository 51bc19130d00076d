"""Kept replies of the candidate were edited by hand afterwards: one wrong answer is made right.

Somebody "mends" a transcript. The numbers look better, and nobody served that answer.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.selftest.case import Case, anywhere, wrong_reply
from pipeline.stages.serve_replay import REPLIES

CAUGHT_BY = "RecordError altered"


def inject(case: Case) -> Case:
    """A candidate with one wrong answer more."""
    return case.spoil(case.chosen("edited_records", 0.0, anywhere), lambda turn, reply: wrong_reply(turn))


def tamper(replay: Path) -> None:
    """Edit the first reply that is kept."""
    file = replay / REPLIES
    first, *others = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([first.replace('"content": "', '"content": "Certainly. ', 1), *others]), encoding="utf-8")
