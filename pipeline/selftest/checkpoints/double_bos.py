"""The candidate's tokenizer puts a beginning-of-sequence token before every text, the template's included.

vLLM issues 2012 and 9519, pull request 16976: two of them shift every position and cost quality quietly.
"""

from __future__ import annotations

from typing import Any

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect tokenizer-ids"


def edit(copy: Copy) -> None:
    """Add the token by a post-processor."""
    copy.edit_json("tokenizer.json", _prepend)


def _prepend(tokenizer: dict[str, Any]) -> None:
    added = tokenizer["added_tokens"][1]
    token, number = added["content"], added["id"]
    special, text = {"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [special, text],
        "pair": [special, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
