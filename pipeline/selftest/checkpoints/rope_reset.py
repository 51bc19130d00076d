"""The base of the rotary positions is back at its default.

A library that reads rope_theta from a new place writes 10000 for a model that was trained with 100000; short texts
hardly suffer.
"""

from __future__ import annotations

from typing import Any

from pipeline.selftest.copies import Copy

CAUGHT_BY = "inspect config-differs"


def edit(copy: Copy) -> None:
    """Reset both spellings of it."""
    copy.edit_json("config.json", _reset)


def _reset(config: dict[str, Any]) -> None:
    config["rope_theta"] = 10000.0
    if "rope_parameters" in config:
        config["rope_parameters"]["rope_theta"] = 10000.0
