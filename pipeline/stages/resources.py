"""What both sides cost and yield, beside the bytes of their weights, read from what their replays kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pipeline.stages.serve_replay import ENGINE
from pipeline.statistics.facts import Resource


def kv_pool(baseline: Path, candidate: Path) -> list[Resource]:
    """Tokens that fit into the KV cache of each side, by the engines' own logs; does not count where one does not tell.

    :param baseline: output of a replay of the baseline; ``candidate`` likewise.
    """
    pools = {"baseline": _tokens(baseline / ENGINE), "candidate": _tokens(candidate / ENGINE)}
    silent = " and ".join(side for side, pool in pools.items() if not pool)
    note = f"the engine's log does not tell it of the {silent}" if silent else "as the engines' logs tell"
    return [Resource("kv_tokens", pools["baseline"], pools["candidate"], counted=not silent, note=note)]


def _tokens(path: Path) -> tuple[float, ...]:
    """Of a line such as ``GPU KV cache size: 123,456 tokens``; empty where there is none."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))["running"]["kv_cache"]
        return (float(re.search(r"size: ([\d,]+) tokens", told)[1].replace(",", "")),)  # type: ignore[index]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
