"""One token of the chat template is different: a line break is missing before the assistant's turn.

A template pasted through an editor. The prompt still looks right to a person.
"""

from __future__ import annotations

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect template-differs"


def edit(copy: Copy) -> None:
    """Drop the line break after the word assistant wherever the template writes it."""
    copy.edit_text(
        "chat_template.jinja", lambda text: text.replace("<|im_start|>assistant\\n", "<|im_start|>assistant")
    )
