"""The chat template was not saved with the candidate.

The engine then refuses chats or, worse, takes a default of its own.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect template-missing"


def edit(copy: Copy) -> None:
    """Remove the template."""
    copy.remove("chat_template.jinja")
