"""8 % of the answers in words hold bytes that are no text: a merge of the tokenizer is lost.

A tokenizer rebuilt from another vocabulary prints replacement characters where the model meant letters.
"""

from __future__ import annotations

from evaluators.turn import Reply, Turn
from pipeline.selftest.case import Case, answer

CAUGHT_BY = "METRIC_LOSS free_of_degeneration"


def inject(case: Case) -> Case:
    """Replace the vowels of the second half."""
    return case.spoil(case.chosen("garbled_text", 0.08, lambda turn: bool(turn.gold.get("content"))), _garble)


def _garble(turn: Turn, reply: Reply) -> Reply:
    half = len(reply.content) // 2
    lost = dict.fromkeys(map(ord, "aeiou"), "\ufffd")
    return answer(turn, reply.content[:half] + reply.content[half:].translate(lost))
