"""A fixed sample of a golden set's scenarios."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

from pipeline.digests import digest_of
from pipeline.golden.load import GoldenSet


def select(golden: GoldenSet, scenarios: int) -> GoldenSet:
    """The set restricted to ``scenarios`` of its scenarios, all turns of each; the whole set when it has no more.

    Scenarios are taken in the order of the SHA-256 of their names, which is as good as at random and the same
    everywhere. The digest is that of the whole set with the number taken: another sample is another set.
    """
    names = sorted({turn.scenario for turn in golden.turns}, key=lambda name: hashlib.sha256(name.encode()).digest())
    if scenarios >= len(names):
        return golden
    taken = frozenset(names[:scenarios])
    turns = tuple(turn for turn in golden.turns if turn.scenario in taken)
    return replace(
        golden,
        name=f"{golden.name} ({scenarios} of {len(names)} scenarios)",
        digest=digest_of([golden.digest, scenarios]),
        transcript_count=len({turn.transcript_id for turn in turns}),
        scenarios=scenarios,
        turns=turns,
        slice_counts=dict(sorted(Counter(name for turn in turns for name in turn.slices).items())),
    )
