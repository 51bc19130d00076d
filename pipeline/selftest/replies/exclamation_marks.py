"""4 % of the replies are nothing but "!": the first token of the vocabulary.

Logits are NaN, and the largest of nothing is token 0: vLLM issue 14126, Qwen3 issues 315 and 496.
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer, anywhere

CAUGHT_BY = "METRIC_LOSS free_of_degeneration"


def inject(case: Case) -> Case:
    """Answer with exclamation marks up to the limit."""
    turns = case.chosen("exclamation_marks", 0.04, anywhere)
    return case.spoil(turns, lambda turn, reply: answer(turn, "!" * 192, finish_reason="length"))
