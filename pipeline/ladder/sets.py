"""The turns that a ladder chooses on, and those that confirm its choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.digests import digest_of, file_digest
from pipeline.errors import GoldenSetError
from pipeline.gate import Gate
from pipeline.golden import GoldenSet, split
from pipeline.golden.split import HALVES, write_halves
from pipeline.progress import Progress
from pipeline.request import Request
from pipeline.store import Store

HALF = "half"


def gates(request: Request, confirm_by: str | None, store: Store, progress: Progress) -> tuple[Gate, Gate | None]:
    """The gates on the set that candidates are chosen on, and on the one that confirms the chosen one.

    :param confirm_by: ``half``, a second golden set, or None: no confirmation.

    :raises GoldenSetError: the second set shares turns with the first, or is too small to confirm anything.
    """
    gate = Gate(request, store, progress)
    if confirm_by is None:
        return gate, None
    if confirm_by == HALF:

        def build(directory: Path) -> None:
            write_halves(request.golden, directory)

        inputs = {"golden_set": gate.golden.digest, "source": file_digest(Path(split.__file__))}
        output = store.make("halves", inputs, build)
        first, second = (str(output.path / half) for half in HALVES)
        gate = Gate(replace(request, golden=first), store, progress)
    else:
        second = confirm_by
    confirm = Gate(replace(request, golden=second), store, progress)
    if shared := len(_asked(gate.golden) & _asked(confirm.golden)):
        raise GoldenSetError(
            f"{second}: {shared} of its turns ask what turns of {gate.golden.name} ask: they cannot confirm a choice",
            "Name a set of other conversations.",
        )
    if confirm.settled:
        raise GoldenSetError(f"{second} is too small to confirm a choice: {confirm.settled[0].text}", "Enlarge it.")
    return gate, confirm


def _asked(golden: GoldenSet) -> set[str]:
    return {digest_of([turn.messages, turn.tools]) for turn in golden.turns}
