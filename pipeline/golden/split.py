"""Two halves of a golden set, each a set of its own: one to choose a candidate on, one to confirm it on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from pathlib import Path

from pipeline.errors import GoldenSetError
from pipeline.golden.load import load
from pipeline.golden.reading import Record
from pipeline.golden.source import Source, open_source

HALVES = ("first-half", "second-half")


def write_halves(location: Path | str, directory: Path) -> None:
    """Write both halves of a set to ``directory/first-half`` and ``directory/second-half``.

    Whole scenarios go to one half. Those with the same slices are dealt out in turn, in the order of the SHA-256 of
    their names, which is as good as at random and the same everywhere: so the halves are alike in slices, and no
    conversation that a candidate is chosen on has a sibling among those that confirm it.

    :raises GoldenSetError: the set cannot be used, is not on this machine, or has fewer than two scenarios.
    """
    source = open_source(location)
    if not isinstance(source, Source):
        raise GoldenSetError(
            f"golden set {source.shown}: only a set on this machine can be halved",
            "Copy it here, or name a second set to confirm on.",
        )
    halves = _dealt(location)
    for half, scenarios in zip(HALVES, halves, strict=True):
        root = directory / half
        (root / "transcripts").mkdir(parents=True)
        for file in source.files():
            if file not in source.transcripts:
                target = root / file.relative_to(source.home)
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, target)
        with (root / "transcripts" / "half.jsonl").open("w", encoding="utf-8") as handle:
            for record in source.records():
                if isinstance(record, Record) and record.data["scenario"] in scenarios:
                    handle.write(json.dumps(record.data, ensure_ascii=False) + "\n")


def _dealt(location: Path | str) -> tuple[set[str], set[str]]:
    """The scenarios of each half; only those with a turn to score."""
    slices: defaultdict[str, set[str]] = defaultdict(set)
    for turn in load(location).turns:
        slices[turn.scenario].update(turn.slices)
    order = sorted(slices, key=lambda name: (sorted(slices[name]), hashlib.sha256(name.encode()).digest()))
    if len(order) < 2:
        raise GoldenSetError(
            f"golden set {location}: one scenario cannot be halved",
            "Add scenarios, or name a second set to confirm on.",
        )
    return set(order[::2]), set(order[1::2])
