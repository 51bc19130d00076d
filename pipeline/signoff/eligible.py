"""What an ACCEPT must be besides accepted before it may become a release."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.errors import RecordError, SignoffError, Verdict
from pipeline.golden.split import HALVES
from pipeline.quantizers import embedded
from pipeline.reporting.ladder.facts import LADDER_FILE, LadderRecord
from pipeline.runs import KeptRun


def demand_eligible(directory: Path, kept: KeptRun, policy: dict[str, Any]) -> None:
    """Refuse an accepted run whose policy is for a tour, or that a ladder did not confirm.

    A candidate that was chosen on some turns may be a lucky one. Where the ladder asks for a confirmation, its first
    verdict alone is no reason to ship.

    :param directory: of the kept run; ladders are kept beside it.
    :raises SignoffError: it is no release.
    :raises RecordError: the record of a ladder that lies there cannot be read.
    """
    if not policy["release"] and kept.model not in embedded.NAMES:
        raise SignoffError(
            "the run's policy says release: false, as that of a tour does: what it accepts is not for customers",
            "Gate the model with a policy of your own, and sign that run off.",
        )
    confirmed = halved(kept.command) is None
    for file in sorted(directory.parent.glob(f"[!.]*/{LADDER_FILE}")):
        record = _read(file)
        for candidate in record.candidates:
            if record.confirm is None or candidate.judgement is None or candidate.judgement.run != directory.name:
                continue
            confirmed = candidate.confirmation is not None and candidate.verdict is Verdict.ACCEPT
            if not confirmed:
                raise SignoffError(
                    f"the ladder {file.parent.name} did not confirm this run's candidate on other turns",
                    f"Sign off the run of the candidate it chose, {record.chosen}." if record.chosen else "",
                )
    if not confirmed:
        raise SignoffError(
            f"the run judged on the {halved(kept.command)} of a golden set, and no ladder beside it has confirmed it",
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
