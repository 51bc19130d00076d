"""What both sides cost and yield, beside the bytes of their weights, read from what their replays kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pipeline.stages.serve_replay import ENGINE
from pipeline.statistics.facts import Resource


def kv_pool(baseline: Path, candidate: Path) -> list[Resource]:
    """Tokens that fit into the KV cache of each side, by the engines' own logs; empty where one does not tell.

    :param baseline: output of a replay of the baseline; ``candidate`` likewise.
    """
    before, after = _tokens(baseline / ENGINE), _tokens(candidate / ENGINE)
    if before is None or after is None:
        return []
    return [Resource("kv_tokens", (float(before),), (float(after),), note="as the engines' logs tell")]


def _tokens(path: Path) -> int | None:
    """Of a line such as ``GPU KV cache size: 123,456 tokens``."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))["running"]["kv_cache"]
        return int(re.search(r"size: ([\d,]+) tokens", told)[1].replace(",", ""))  # type: ignore[index]
    except (OSError, ValueError, KeyError, TypeError):
        return None
