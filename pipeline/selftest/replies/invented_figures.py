"""15 % of the answers with a number in them tell another number.

Copying exact amounts, dates and references from the conversation is the first fine skill that coarse weights lose.
"""

from __future__ import annotations

import re

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS policy_adherence"


def inject(case: Case) -> Case:
    """Add seven to every digit."""
    return case.spoil(case.chosen("invented_figures", 0.15, _tells_number), _miscopy)


def _tells_number(turn: Turn) -> bool:
    return bool(re.search(r"\d", turn.gold.get("content") or ""))


def _miscopy(turn: Turn, reply: Reply) -> Reply:
    return answer(turn, re.sub(r"\d", lambda digit: str((int(digit[0]) + 7) % 10), reply.content))
