"""What belongs to one run of the gate, beside its decision record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of a run that reports show.

    ``model``, ``recipe`` and ``command`` (the shell command that reproduces the run) go into every report.
    So do ``waivers``, a sentence each: a person's decision to ship in spite of the verdict, which stays as it is.
    The others change from run to run without changing the decision, so only the terminal shows them:
    ``report`` and ``decision`` are files, ``mlflow_run`` is a run id or address, ``notes`` are things
    that happened on the way, such as a tracking server that could not be reached.
    """

    model: str
    recipe: str
    command: str
    report: Path | None = None
    decision: Path | None = None
    mlflow_run: str | None = None
    notes: tuple[str, ...] = ()
    waivers: tuple[str, ...] = ()
