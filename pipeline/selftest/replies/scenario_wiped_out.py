"""One scenario of four turns goes from all right to all wrong; nothing else changes.

One product, one rule or one form of words is lost. Four turns of 1,300 move no average.
"""

from __future__ import annotations

from collections import Counter

from pipeline.selftest.case import Case, wrong_reply

CAUGHT_BY = "SCENARIO_WIPED_OUT"


def inject(case: Case) -> Case:
    """Answer every turn of the first scenario of four settled turns, none of them critical, wrongly."""
    settled = [turn for turn in case.golden.turns if turn.id in case.settled and not turn.expect.critical]
    whole = Counter(turn.scenario for turn in case.golden.turns)
    size = Counter(turn.scenario for turn in settled)
    name = next(name for name, turns in sorted(size.items()) if turns == whole[name] == 4)
    return case.spoil([t for t in settled if t.scenario == name], lambda turn, reply: wrong_reply(turn))
