"""The end-of-sequence id is gone from generation settings and config.

mlx-vlm pull request 2112: a generation_config with another end than the template's; replies run to the limit.
"""

from __future__ import annotations

from typing import Any

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect generation-eos"


def edit(copy: Copy) -> None:
    """Remove the key from both files."""
    copy.edit_json("generation_config.json", _drop)
    copy.edit_json("config.json", _drop)


def _drop(settings: dict[str, Any]) -> None:
    del settings["eos_token_id"]
