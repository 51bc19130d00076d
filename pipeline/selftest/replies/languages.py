"""Four in five requests in other languages than English are answered in English, and beside the point.

Calibration text in one language only: the others lose most (Marchisio et al., "How Does Quantization Affect
Multilingual LLMs?", EMNLP Findings 2024).
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer

CAUGHT_BY = "SLICE_LOSS languages tool_call_correct"


def inject(case: Case) -> Case:
    """Say that only English is spoken."""
    turns = case.chosen("languages", 0.80, lambda turn: "languages" in turn.slices)
    return case.spoil(turns, lambda turn, reply: answer(turn, "Sorry, I only understand English."))
