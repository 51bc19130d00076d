"""The candidate read other tokens than the baseline: one more at the start of every prompt.

A second beginning-of-sequence token, or another template (vLLM issue 9519): a difference that is not the weights'.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.digests import digest_of
from pipeline.selftest.case import Case

CAUGHT_BY = "PROMPTS_DIFFER candidate"


def inject(case: Case) -> Case:
    """Give every prompt of the candidate another digest."""
    candidate = {
        name: replace(record, prompt_token_ids_digest=digest_of([name, "another prompt"]))
        for name, record in case.candidate.items()
    }
    return replace(case, candidate=candidate)
