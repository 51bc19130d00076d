"""The tokenizer cuts every text at 512 tokens.

llm-compressor pull request 2917: the truncation asked for in calibration is saved into tokenizer.json.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect tokenizer-truncates"


def edit(copy: Copy) -> None:
    """Write the truncation that calibration leaves behind."""
    cut = {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}
    copy.edit_json("tokenizer.json", lambda tokenizer: tokenizer.update(truncation=cut))
