"""Prompts longer than the candidate's tokenizer takes lose their beginning.

llm-compressor pull request 2917: the truncation of calibration is saved with the tokenizer. Long chats only.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.digests import digest_of
from pipeline.selftest.case import Case

CAUGHT_BY = "PROMPTS_DIFFER candidate"


def inject(case: Case) -> Case:
    """Give the prompts after long histories another digest; the replies stay right."""
    long = [turn.id for turn in case.golden.turns if "long_history" in turn.slices]
    cut = {
        name: replace(case.candidate[name], prompt_token_ids_digest=digest_of([name, "cut"]), prompt_tokens=512)
        for name in long
    }
    return replace(case, candidate={**case.candidate, **cut})
