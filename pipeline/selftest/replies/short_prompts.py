"""A third of the shortest prompts get an empty kind of answer; everything with tools works.

Activation ranges calibrated on long texts, or a padding bug at small batch shapes: only short inputs suffer.
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer

CAUGHT_BY = "SLICE_LOSS short_prompt policy_adherence"


def inject(case: Case) -> Case:
    """Answer politely with nothing."""
    turns = case.chosen("short_prompts", 0.35, lambda turn: "short_prompt" in turn.slices)
    return case.spoil(turns, lambda turn, reply: answer(turn, "Thank you for your message."))
