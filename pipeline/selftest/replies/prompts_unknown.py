"""The candidate's server does not say which tokens it read.

An engine without ``return_token_ids``, or a proxy that strips what it does not know: equality cannot be shown.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.selftest.case import Case

CAUGHT_BY = "PROMPTS_DIFFER candidate missing"


def inject(case: Case) -> Case:
    """Drop the digests of the candidate's prompts."""
    candidate = {name: replace(record, prompt_token_ids_digest=None) for name, record in case.candidate.items()}
    return replace(case, candidate=candidate)
