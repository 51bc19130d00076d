"""The candidate brings sampling defaults of its own.

Quantizers save what the library they run on thinks of; an engine that reads generation_config samples one side only.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect generation-differs"


def edit(copy: Copy) -> None:
    """Add a temperature and a repetition penalty."""
    copy.edit_json("generation_config.json", lambda d: d.update(temperature=0.7, repetition_penalty=1.2))
