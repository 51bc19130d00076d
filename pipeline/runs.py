"""The kept records of runs: ``runs/<name>`` below the store, the newest also as ``runs/latest``."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.errors import RecordError, UsageError
from pipeline.evidence.record import DECISION_FILE, read_decision
from pipeline.store import STAGE_FILE, Store

RUN_FILE = "run.json"
TRACKED = ("decision.json", "report.html", "flips.jsonl", "summary.md", "review.md", "junit.xml")
"""Files of a run that MLflow keeps as well."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """Where to find what belongs to a kept run. No verdict depends on it.

    :ivar candidate: directory of the candidate's checkpoint on the machine of the run; None where none was made.
    :ivar experiment: MLflow's, where the run is recorded as ``mlflow_run``; None where it could not be.
    """

    model: str
    recipe: str
    command: str
    candidate: str | None
    experiment: str
    mlflow_run: str | None


def write_kept_run(directory: Path, run: KeptRun) -> None:
    """Write ``run.json`` beside the record, or put another in its place."""
    draft = directory / f".{RUN_FILE}"
    draft.write_text(json.dumps(asdict(run), indent=1) + "\n", encoding="utf-8")
    draft.replace(directory / RUN_FILE)


def read_kept_run(directory: Path) -> KeptRun:
    """Read ``run.json``.

    :raises RecordError: it is missing or damaged.
    """
    try:
        run = KeptRun(**json.loads((directory / RUN_FILE).read_text(encoding="utf-8")))
        for name, value in asdict(run).items():
            if not (isinstance(value, str) or (value is None and name in ("candidate", "mlflow_run"))):
                raise TypeError(f"{name} is not text")
        return run
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RecordError(f"{directory / RUN_FILE}: cannot be read: {error}", "Run the gate again.") from error


def find_run(store: Store, name: str) -> Path:
    """The directory of a kept run, by its name (``latest``: the newest) or its path.

    :raises UsageError: there is none; the newest ones are named.
    """
    runs = store.root / "runs"
    for directory in (runs / name, Path(name)):
        if (directory / DECISION_FILE).is_file():
            return directory.resolve()
    known = sorted((path.parent.name for path in runs.glob(f"[!.]*/{RUN_FILE}")), reverse=True)
    newest = [run for run in known if run != "latest"][:3]
    remedy = f"Newest runs: {', '.join(newest)}." if newest else "Run `make gate` first."
    if name == "latest" and (runs / name).is_dir():
        raise UsageError(
            f"{(runs / name).resolve()} is a ladder or diagnosis of several runs, and no single run",
            f"Name the run: {', '.join(newest)}; a ladder's page says which one it chose.",
        )
    raise UsageError(f"no run {name!r} in {runs}", remedy)


def keep(store: Store, name: str, *outputs: Path, run: KeptRun | None = None) -> Path:
    """Copy the record and the reports of a run to a new ``runs/<name>`` and point ``runs/latest`` at it.

    It is there whole, ``run.json`` included, or not at all.
    """
    runs = store.root / "runs"
    directory = new_directory(runs, name)
    draft = runs / f".draft-{directory.name}"
    try:
        draft.mkdir()
        for output in outputs:
            for file in output.iterdir():
                if file.name != STAGE_FILE:
                    shutil.copy2(file, draft / file.name)
        if run:
            write_kept_run(draft, run)
        draft.replace(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        directory.rmdir()
        raise
    link = runs / f".latest-{directory.name}"
    link.symlink_to(directory.name)
    link.replace(runs / "latest")
    return directory


def new_directory(parent: Path, name: str) -> Path:
    """A directory that did not exist before: two runs may begin in the same second."""
    parent.mkdir(parents=True, exist_ok=True)
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
