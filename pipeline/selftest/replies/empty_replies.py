"""4 % of the replies are empty: the first token generated is the end.

mlx-vlm issue 2162: a quantized KV cache whose first answer token is end-of-sequence, with finite logits.
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer, anywhere

CAUGHT_BY = "METRIC_LOSS free_of_degeneration"


def inject(case: Case) -> Case:
    """Answer nothing."""
    return case.spoil(case.chosen("empty_replies", 0.04, anywhere), lambda turn, reply: answer(turn, ""))
