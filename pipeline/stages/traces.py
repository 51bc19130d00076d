"""The flipped turns of a decision as the experiment tracker shows them: both replies and what was said of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.reporting.record import load_flips, load_replies
from pipeline.tracking.traces import TurnTrace, turn_traces

if TYPE_CHECKING:
    from pipeline.golden import GoldenSet


def flipped(flips_path: Path, golden: GoldenSet, replies_paths: Sequence[Path]) -> list[TurnTrace]:
    """The flipped turns to log, the gravest first; none where nothing was replayed.

    :param replies_paths: replies of baseline and candidate, or none.
    :raises RecordError: a file is unreadable.
    """
    if not replies_paths:
        return []
    flips = load_flips(flips_path)
    names = frozenset(flip.turn_id for flip in flips)
    baseline, candidate = (load_replies(path, names) for path in replies_paths)
    turns = {turn.id: turn for turn in golden.turns if turn.id in names}
    known = turns.keys() & baseline.keys() & candidate.keys()
    return turn_traces(
        [flip.model_dump(mode="json") for flip in flips if flip.turn_id in known], turns, baseline, candidate
    )
