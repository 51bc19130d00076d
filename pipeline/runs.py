"""The kept records of runs: ``runs/<name>`` below the store, the newest also as ``runs/latest``."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from pathlib import Path

from pipeline.errors import RecordError
from pipeline.evidence.record import DECISION_FILE, read_decision
from pipeline.store import STAGE_FILE, Store


def keep(store: Store, name: str, *outputs: Path) -> Path:
    """Copy the record and the reports of a run to a new ``runs/<name>`` and point ``runs/latest`` at it."""
    runs = store.root / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    directory = _new_directory(runs, name)
    try:
        for output in outputs:
            for file in output.iterdir():
                if file.name != STAGE_FILE:
                    shutil.copy2(file, directory / file.name)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)  # half a record must not pass for one
        raise
    link = runs / f".latest-{directory.name}"
    link.symlink_to(directory.name)
    link.replace(runs / "latest")
    return directory


def _new_directory(parent: Path, name: str) -> Path:
    """A directory that did not exist before: two runs may begin in the same second."""
    for number in itertools.count(1):
        directory = parent / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise AssertionError("unreachable")


def measured_noise(store: Store, model: str, golden_digest: str) -> dict[str, float]:
    """Flip rate of a baseline against itself by metric, from the newest run of ``model`` on this golden set.

    Empty when no run measured it. For planning only: that the engine was the same is not asked.
    """
    for path in sorted((store.root / "runs").glob(f"[!.]*/{DECISION_FILE}"), reverse=True):
        with contextlib.suppress(RecordError):  # of an older version, or damaged
            record = read_decision(path)
            if (record["baseline"]["source"], record["golden_set"]["digest"]) == (model, golden_digest):
                noise = {row["metric"]: row["noise"]["flip_rate"] for row in record["metrics"] if row["noise"]}
                if noise:
                    return noise
    return {}


def slug(text: str) -> str:
    """``text`` as part of a file name."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.")[-60:] or "model"
