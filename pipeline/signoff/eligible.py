"""What an ACCEPT must be besides accepted before it may become a release."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.errors import RecordError, SignoffError, Verdict
from pipeline.golden.split import HALVES
from pipeline.quantizers import embedded
from pipeline.reporting.ladder.facts import LADDER_FILE, LadderRecord


def demand_eligible(runs: Path, run: Mapping[str, Any], decision: Mapping[str, Any]) -> None:
    """Refuse an accepted run whose policy is for a tour, or that a ladder did not confirm.

    A candidate that was chosen on some turns may be a lucky one. Where a ladder asks for a confirmation, the first
    verdict on the model, recipe and golden set in question is no reason to ship, whichever run came to it.

    :param runs: where runs and ladders are kept; of several ladders about the same, the newest has the word.
    :param run: model, recipe and command of the run, as its evidence has them.
    :raises SignoffError: it is no release.
    :raises RecordError: the record of a ladder that lies there cannot be read.
    """
    if not decision["policy"]["release"] and run["model"] not in embedded.NAMES:
        raise SignoffError(
            "the run's policy says release: false, as that of a tour does: what it accepts is not for customers",
            "Gate the model with a policy of your own, and sign that run off.",
        )
    confirmed = None
    for file in sorted(runs.glob(f"[!.]*/{LADDER_FILE}")):
        record = _read(file)
        for candidate in record.candidates:
            about = candidate.judgement and (record.model, candidate.recipe, candidate.judgement.golden_set_digest)
            if record.confirm is not None and about == (run["model"], run["recipe"], decision["golden_set"]["digest"]):
                confirmed = candidate.confirmation is not None and candidate.verdict is Verdict.ACCEPT
                told = f"the ladder {file.parent.name} did not confirm {candidate.recipe} on other turns"
                remedy = f"Sign off the run of the candidate it chose, {record.chosen}." if record.chosen else ""
    if confirmed is False:
        raise SignoffError(told, remedy)
    if confirmed is None and (half := halved(run["command"])):
        raise SignoffError(
            f"the run judged on the {half} of a golden set, and no ladder beside it has confirmed it",
            "Let the ladder come to its end, or gate the recipe on the whole set.",
        )


def halved(command: str) -> str | None:
    """Which half of a golden set a run's command names, if it does: ``first-half``."""
    names = {Path(word).name for word in shlex.split(command) if "/halves/" in word}
    return next((half for half in HALVES if half in names), None)


def _read(file: Path) -> LadderRecord:
    try:
        return LadderRecord.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise RecordError(
            f"{file}: cannot be read, so it is not known what that ladder chose: {error}", f"Remove {file.parent}."
        ) from error
