"""A third of the turns after long histories are answered with nonsense; short chats work.

Context beyond what was calibrated, or a KV cache whose scales overflow with length: vLLM issue 24038 (an AWQ model
writes only "ــ |" above 20,000 tokens).
"""

from __future__ import annotations

from pipeline.selftest.case import Case, answer

CAUGHT_BY = "SLICE_LOSS long_history tool_call_correct"


def inject(case: Case) -> Case:
    """Answer with marks."""
    turns = case.chosen("long_histories", 0.35, lambda turn: "long_history" in turn.slices)
    return case.spoil(turns, lambda turn, reply: answer(turn, "ــ |ــ |ــ | | |ــ | | |ــ |ــ | | | | | |"))
