"""4 % of the replies end with the template's own markers as text.

Added tokens that are no longer marked as special are printed (a tokenizer saved without its added tokens' flags).
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case, anywhere

CAUGHT_BY = "METRIC_LOSS free_of_degeneration"


def inject(case: Case) -> Case:
    """Print the end of the turn and the start of the next."""
    turns = case.chosen("reserved_tokens", 0.04, anywhere)
    marks = "<|im_end|>\n<|im_start|>assistant"
    return case.spoil(turns, lambda turn, reply: replace(reply, content=reply.content + marks))
